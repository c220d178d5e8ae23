"""What users lay down stands once, says when it was changed, and ends when it is revoked."""

from __future__ import annotations

from typing import Any

from turnmill.contract.names import Seq
from turnmill.contract.policy import Policy
from turnmill.contract.render import rules_message
from turnmill.contract.rules import UNMARKED, Mark, Rule
from turnmill_worker.reading.readings import Readings
from turnmill_worker.reading.said import Said, is_shown, marked, restored, rules_room, stored

RULE = "Always answer in German."
OTHER = "I'm allergic to peanuts."
BUDGET = "Keep the bundle under 200 KB."
NEWER = "Make that 300 KB instead of 200 KB."


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def hear(said: Said, seq: int, text: str, mark: Mark = UNMARKED, **more: Any) -> None:
    own = [user(text)]
    said.hear(seq, Readings(len).of_turn(Seq(seq), own), own, mark, **more)


def heard(*texts: str) -> Said:
    said = Said()
    for seq, text in enumerate(texts, 1):
        hear(said, seq, text)
    return said


def rules(said: Said, through: int = 99) -> list[str]:
    return [rule.text for rule in said.standing((), through)]


def test_a_rule_is_kept_word_for_word_and_small_talk_is_not() -> None:
    said = heard(f"Hi there! {RULE} Thanks.", "The weather was fine yesterday.")

    assert [(rule.id, rule.text) for rule in said.standing((), 9)] == [("1", RULE)]


def test_a_rule_said_again_stands_once() -> None:
    assert rules(heard(RULE, OTHER, RULE, "Please always answer in German.")) == [RULE, OTHER]


def test_nothing_a_tool_or_an_assistant_says_or_a_user_quotes_is_a_rule() -> None:
    said = Said()
    read = Readings(len).of_turn(
        Seq(1),
        [
            {"role": "assistant", "content": RULE},
            {"role": "tool", "tool_call_id": "c", "content": OTHER},
            user(f"He wrote:\n\n> {BUDGET}\n\n```\n{RULE}\n```"),
        ],
    )

    said.hear(1, read)

    assert rules(said) == []


def test_a_later_condition_marks_the_rule_it_changes_and_both_stand() -> None:
    said = heard(BUDGET, "Go on.", NEWER)

    assert said.changed_by(2) == {}
    assert said.changed_by(3) == {BUDGET: 3}
    assert [rule.revised for rule in said.standing((), 2)] == [None]
    [older, *_] = said.standing((), 3)
    assert (older.text, older.revised) == (BUDGET, 3)


def test_it_marks_what_a_request_says_where_it_stands() -> None:
    said = Said()
    hear(said, 1, f"Build the page. {BUDGET}", opens=True)
    hear(said, 2, NEWER)

    shown = marked("Build the page.\nKeep the bundle\nunder 200 KB.", said.changed_by(2))

    assert shown == "Build the page.\nKeep the bundle\nunder 200 KB. (changed in turn 2)"
    assert marked(shown, said.changed_by(2)) == shown


def test_a_rule_that_is_revoked_ends_at_once() -> None:
    said = heard(RULE, OTHER)
    hear(said, 3, "", Mark(revokes="1"))

    assert rules(said, 2) == rules(said, 3) == [OTHER]
    known = Rule(seq=Seq(1), text=RULE)
    assert [rule.text for rule in said.standing([known], 3)] == [OTHER]


def test_a_rule_that_was_revoked_does_not_come_back_and_a_request_that_states_it_says_so() -> None:
    said = heard(f"Sort my mail. {RULE}", OTHER)
    hear(said, 3, "", Mark(revokes="1"))

    later = Said(restored(stored(said.up_to(3))))

    assert rules(later) == [OTHER]
    assert marked(f"Sort my mail. {RULE}", later.changed_by(3)).endswith("(changed in turn 3)")
    assert rules(Said(restored(stored(said.up_to(2))))) == [RULE, OTHER]


def test_a_turn_that_instructs_is_one_rule_as_a_whole() -> None:
    said = Said()
    hear(said, 4, "Sundays are sacred. The cat comes first.", Mark(instructs=True))

    assert [(rule.id, rule.text) for rule in said.standing((), 9)] == [
        ("4", "Sundays are sacred. The cat comes first.")
    ]


def test_a_rule_of_several_lines_is_seen_in_the_turn_that_stays() -> None:
    text = "Sundays are sacred.\n\n  The cat comes first."
    said = Said()
    hear(said, 4, text, Mark(instructs=True))

    (rule,) = said.standing((), 9)

    assert is_shown(rule, [user(f"Mind you:\n{text}")])
    assert not is_shown(rule, [user("The cat comes first.")])


def test_rules_take_their_room_and_those_in_force_come_first() -> None:
    said = heard(BUDGET, OTHER, NEWER, RULE)
    standing = said.standing((), 9)
    room = len(rules_message(standing)["content"])

    kept = said.fitting(standing, room - 80, len)

    assert said.fitting(standing, room, len) == standing
    assert [rule.text for rule in standing if rule not in kept] == [BUDGET]
    assert said.fitting(standing, 10, len) == ()
    assert rules_room(Policy(max_tokens=100_000).limits(0)) == 10_000
    assert rules_room(Policy(max_tokens=600).limits(0)) == 150


def test_what_was_said_is_known_again_after_it_was_stored() -> None:
    said = heard(RULE, BUDGET, NEWER, OTHER)
    kept = list(said.up_to(3))

    again = Said(restored(stored(kept)))

    assert max(each.seq for each in kept) == 3
    assert rules(again) == rules(said, 3)
    assert again.changed_by(3) == {BUDGET: 3}
    assert [each.past for each in said.up_to(2)] == [0, 0]


def test_a_sentence_said_again_and_again_is_kept_once() -> None:
    text = "Order #W7730021 went to Bergen."
    said = heard(f"{text} {text}", text)

    assert len(list(said.up_to(9))) == 1


def test_what_is_kept_of_it_is_bounded_and_rules_outlast_other_sentences() -> None:
    said = heard(RULE, *(f"Order number {n} went to pier {n * 7}." for n in range(1_000)))

    kept = list(said.up_to(2_000))

    assert len(kept) == 400
    assert kept[0].text == RULE
