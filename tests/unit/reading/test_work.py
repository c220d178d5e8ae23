"""What an agent did: one readable line for each action, with its object and what came of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.effort import least_cpu_s
from turnmill_worker.compaction.pool.standing import first_standings
from turnmill_worker.old_reading.actions import Role
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.old_reading.outcomes import outcome
from turnmill_worker.old_reading.units import Source, Units
from turnmill_worker.summarizers.extractive import extract
from turnmill_worker.tokens import counter_for

COUNT = counter_for().count

Record = tuple[int, dict[str, Any]]


def step(seq: int, name: str, result: str, **arguments: Any) -> list[Record]:
    """A call and its result."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"c{seq}", "type": "function", "function": function}
    return [
        (seq, {"role": "assistant", "content": None, "tool_calls": [call]}),
        (seq + 1, {"role": "tool", "tool_call_id": f"c{seq}", "content": result}),
    ]


def shell(seq: int, command: str, output: str) -> list[Record]:
    """A fenced command, and its output in a user's message."""
    return [
        (seq, {"role": "assistant", "content": f"Let me look.\n```bash\n{command}\n```"}),
        (seq + 1, {"role": "user", "content": f"{output}\n(cwd: /app)\nsh-1$"}),
    ]


def told(found: Units) -> list[tuple[Role, str]]:
    return [(unit.role, unit.text) for unit in found.units]


def test_an_edit_is_told_with_its_path_its_first_lines_and_its_outcome() -> None:
    [action, *_] = told(
        read_units(
            step(
                1,
                "editor",
                "The file /app/totals.py has been edited.\nHere is a snippet:\n" + "x = 1\n" * 9,
                command="str_replace",
                path="/app/totals.py",
                old_str="def total(rows):\n    return sum(rows)\n\n\n# end",
                new_str="def total(rows):\n    return round(sum(rows), 2)",
            )
        )
    )

    assert action[0] is Role.CHANGE
    for part in ("/app/totals.py", "return round(sum(rows), 2)", "(3 lines)", "→ The file"):
        assert part in action[1]


def test_a_failed_edit_says_so() -> None:
    [(role, text)] = told(
        read_units(
            step(1, "editor", "ERROR:\nNo match in /a/b.py.", command="replace", path="/a/b.py")
        )
    )

    assert (role, text) == (Role.CHANGE, "replace /a/b.py → ERROR: / No match in /a/b.py.")


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("ls -la src && cat src/a.py", Role.LOOK),
        ("cd src; grep -rn total . | head", Role.LOOK),
        ("sed -n 1,20p a.py", Role.LOOK),
        ("sed -i 's/a/b/' a.py", Role.CHANGE),
        ("cat > a.py <<'EOF'\nprint(1)\nEOF", Role.CHANGE),
        ("git apply fix.patch", Role.CHANGE),
        ("pip install flask", Role.CHANGE),
        ("pytest tests 2>&1 | tail", Role.RUN),
        ("python reproduce.py > /dev/null", Role.RUN),
    ],
)
def test_a_command_looks_changes_or_runs(command: str, role: Role) -> None:
    [action, *_] = told(read_units(step(1, "execute", "done", command=command)))

    assert action[0] is role


def test_the_outcome_of_tests_is_what_failed_and_the_counts() -> None:
    output = "\n".join(
        [
            *(f"tests/test_{at}.py .... [{at}%]" for at in range(60)),
            "FAILED tests/test_a.py::test_total - AssertionError: 1 != 2",
            "========= 1 failed, 59 passed in 3.21s =========",
        ]
    )

    [action, *_] = told(read_units(step(1, "execute", output, command="pytest")))

    assert "FAILED tests/test_a.py::test_total" in action[1]
    assert "1 failed, 59 passed" in action[1]
    assert "test_30" not in action[1]


def test_of_what_a_script_printed_one_by_one_the_first_and_the_last_are_told() -> None:
    printed = [f"round {n}: lowest {n * n % 7}" for n in range(1, 30)]
    lines = ["Warning: no colours here", *printed, "round 30: lowest 48151", "[*] closed the port"]

    told = outcome(lines, Role.RUN)

    assert told == (
        "Warning: no colours here / round 1: lowest 1 / round 30: lowest 48151 (30 lines like it)"
        " / [*] closed the port"
    )


def test_a_long_value_is_cut_where_it_is_long_not_before_it() -> None:
    told = outcome([f'{{"key": "{"9F" * 200}"}}', *"abcd"], Role.CHANGE)
    assert told.startswith('{"key": "9F9F9F')


def test_a_listing_is_counted_beside_the_action_and_quoted_in_blocks() -> None:
    listing = "\n".join(f"    {at}\tvalue_{at} = compute({at})" for at in range(1, 60))

    action, *quoted = told(read_units(step(1, "view", listing, path="/app/a.py")))

    assert action == (Role.LOOK, "/app/a.py → 59 lines")
    assert {role for role, _ in quoted} == {Role.QUOTATION}
    assert all(" ⏎ " in text for _, text in quoted)


def test_a_call_with_fields_of_a_record_stays_fields() -> None:
    found = read_units(step(1, "book", '{"ok": true}', user_id="mia_li_3668", origin="JFK"))

    assert [unit.text for unit in found.units] == ["user_id=mia_li_3668", "origin=JFK", "ok=true"]


def test_commands_in_an_assistants_text_are_actions_and_their_output_is_no_users() -> None:
    found = read_units(
        [
            (1, {"role": "user", "content": "Please fix the total."}),
            *shell(2, "cat a.py", "x = 1\ny = 2"),
            *shell(4, "python a.py", "Traceback (most recent call last):\nNameError: z"),
        ]
    )

    actions = [u.text for u in found.units if found.lines[u.line].source is Source.CALL]
    assert actions == [
        "cat a.py → x = 1 / y = 2",
        "python a.py → Traceback (most recent call last): / NameError: z",
    ]
    said = [u.text for u in found.units if found.lines[u.line].source is Source.USER]
    assert said == ["Please fix the total."]


def test_an_element_in_an_assistants_text_is_an_action() -> None:
    text = (
        "I look first.\n<function=edit>\n<parameter=path>/app/a.py</parameter>\n"
        "<parameter=text>a\nb\nc\nd</parameter>\n</function>"
    )
    ran = {"role": "user", "content": "RESULT of [edit]:\nThe file was written.\n[exit code 0]"}
    acts = {"role": "assistant", "content": text}
    found = read_units([(1, acts), (2, ran), (3, acts), (4, ran)])

    actions = [u.text for u in found.units if u.role is Role.CHANGE]
    assert len(actions) == 2
    assert all(a.startswith("/app/a.py text=a ⏎ b … (4 lines) → ") for a in actions)


def test_a_users_code_is_the_users() -> None:
    found = read_units(
        [
            (1, {"role": "user", "content": "Why does this fail?"}),
            (2, {"role": "assistant", "content": "Show me the file, please."}),
            (3, {"role": "user", "content": "def total(rows):\n    return sum(rows)\n# end {}"}),
        ]
    )

    assert {found.lines[unit.line].source for unit in found.units} == {
        Source.USER,
        Source.ASSISTANT,
    }


def test_a_small_summary_tells_changes_and_outcomes_before_listings() -> None:
    listing = "\n".join(f"    {at}\tvalue_{at} = compute_{at}({at})" for at in range(1, 200))
    records = [
        *step(1, "view", listing, path="/app/big.py"),
        *step(
            3, "edit", "The file was updated.", path="/app/totals.py", text="a = 1\nb = 2\nc = 3"
        ),
        *step(5, "execute", "FAILED test_total\n1 failed, 3 passed", command="pytest -q"),
    ]

    text = extract(records, budget_tokens=120, count=COUNT)

    assert "/app/totals.py" in text
    assert "pytest -q → FAILED test_total / 1 failed, 3 passed" in text
    assert "value_77" not in text


def test_what_is_said_of_an_outcome_gives_way_to_what_was_found() -> None:
    remarks = [
        "It seems that the `src/lib` directory does not exist.",
        "The backslashes are not read by the tool.",
        "To find it, I need to look at the files.",
    ]
    records = step(1, "execute", "ls: src/lib: No such file", command="ls src/lib")
    again = step(3, "execute", "a.py", command="ls src")
    again[0][1]["content"] = " ".join(remarks)

    found = read_units([*records, *again])

    standing = dict(
        zip([u.text for u in found.units], first_standings(found.lines, found.units), strict=True)
    )
    assert [standing[remark] < 0.5 for remark in remarks] == [True, False, True]


def test_an_action_is_read_back_from_a_summary_as_one() -> None:
    records = step(1, "execute", "a=1 failed", command="FOO=1 make all")
    once = extract(records, budget_tokens=200, count=COUNT)

    assert extract([], previous=once, budget_tokens=200, count=COUNT) == once


@pytest.mark.parametrize(
    "text",
    [
        "x" * 200_000,
        "<a>" * 60_000,
        "Error " * 30_000,
        "\n" * 200_000,
        "[1]: " * 10_000,
        "<example>\n" * 5_000,
        "Action: \n" * 5_000,
    ],
)
def test_hostile_output_costs_no_more_than_its_length(text: str) -> None:
    said = [*step(1, "execute", text, command=text), *shell(3, text, text)]
    said += [(5, {"role": "user", "content": text}), (6, {"role": "assistant", "content": text})]

    assert least_cpu_s(lambda: read_units(said)) < 5.0
