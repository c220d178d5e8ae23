"""Rules as a commit stores them, and what marked turns do to them afterwards."""

from __future__ import annotations

import json
from typing import Any

from turnmill.contract.context import StoredContext
from turnmill.contract.names import Seq
from turnmill.contract.render import rule_line
from turnmill.contract.rules import Mark, Rule, Said, with_marked

STORED = (Rule(seq=Seq(2), text="Never email me."), Rule(seq=Seq(2), place=2, text="Use metres."))


def user(seq: int, *texts: str, mark: Mark) -> Said:
    return Said(Seq(seq), [{"role": "user", "content": text} for text in texts], mark)


def test_a_marked_turn_lays_down_a_rule_a_message_and_others_lay_down_none() -> None:
    turns = [
        user(5, "Always answer in German.", mark=Mark()),
        user(6, "Sundays are sacred.", " ", "So are cats.", mark=Mark(instructs=True)),
        Said(Seq(7), [{"role": "assistant", "content": "Noted."}], Mark(instructs=True)),
    ]

    found = with_marked(STORED, turns)

    assert [(rule.id, rule.text) for rule in found[2:]] == [
        ("6", "Sundays are sacred."),
        ("6.2", "So are cats."),
    ]


def test_a_revoked_rule_is_gone_stored_or_not() -> None:
    turns = [
        user(5, "Sundays are sacred.", mark=Mark(instructs=True)),
        user(6, "No longer.", mark=Mark(revokes="5")),
        user(7, "Nor this.", mark=Mark(revokes="2")),
        user(8, "Nor what nobody said.", mark=Mark(revokes="4")),
    ]

    assert with_marked(STORED, turns) == STORED[1:]


def test_a_rule_that_was_changed_says_so_where_it_stands() -> None:
    rule = Rule(seq=Seq(3), text="Keep replies\nunder 50 words.", revised=Seq(118))

    assert rule_line(rule) == "- (turn 3) Keep replies under 50 words. (changed in turn 118)"


def test_what_an_older_version_noted_beside_a_rule_is_kept_and_not_shown() -> None:
    old: dict[str, Any] = {
        "seq": 3,
        "text": "Never by plane.",
        "kind": "prohibition",
        "remark": {"seq": 9, "text": "Planes are fine."},
    }

    context = StoredContext.parse(json.dumps({"version": 1, "rules": [old]}).encode())

    assert rule_line(context.rules[0]) == "- (turn 3) Never by plane."
    assert json.loads(context.encode())["rules"] == [old]
