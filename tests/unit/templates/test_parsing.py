"""What a template file may say, and what is said about one that is not valid."""

from __future__ import annotations

import contextlib
import hashlib

import pytest

from tests.effort import assert_linear
from turnmill.contract.errors import InvalidTemplate
from turnmill_worker.templates import Template, warnings
from turnmill_worker.templates.template import MAX_BYTES, outline, parse_template


def parsed(text: str | bytes) -> Template:
    data = text.encode() if isinstance(text, str) else text
    return parse_template("mine", "/t/mine.md", data)


def refused(text: str | bytes) -> str:
    with pytest.raises(InvalidTemplate) as caught:
        parsed(text)
    return str(caught.value)


def test_the_sha256_is_that_of_the_bytes_of_the_file() -> None:
    data = b"\xef\xbb\xbfkeep all\r\n"

    template = parsed(data)

    assert template.sha256 == hashlib.sha256(data).hexdigest()
    assert template.text == "keep all\n"


def test_the_description_is_the_first_heading_or_else_the_first_paragraph() -> None:
    assert parsed("\n# For pilots #\n\nKeep heights.").description == "For pilots"
    assert parsed("Keep\n  heights.\n\nAnd speeds.").description == "Keep heights."
    assert parsed("word " * 100).description.endswith("…")


def test_the_sections_are_the_headings_of_the_second_level_outside_fences() -> None:
    template = parsed("# T\n## Goal\n### more\n## Next ##\n```\n## not me\n```\n## C#\n##none\n")

    assert template.sections == ("Goal", "Next", "C#")


def test_placeholders_are_listed_once_in_order_known_or_not() -> None:
    template = parsed("{{latest_input}} {{ weather }}\n```\n{{session}}\n```\n{{latest_input}}")

    assert template.placeholders == ("latest_input", "weather", "session")


@pytest.mark.parametrize(
    "text",
    [
        '# T\n## Contract\nwhy\n```json\n{"a": {"b": {}}}\n```\n',
        '# T\n```json contract\n{"a": {"b": {}}}\n```\n',
        '# T\n~~~~ JSON Contract\n{"a":\n{"b": {}}}\n~~~~\n',
        '## CONTRACT\n### shape\n```json\n{"a":{"b":{}}}\n```\n```json5\n{{x\n```',
    ],
)
def test_a_contract_is_the_json_fence_under_its_heading_or_named_so(text: str) -> None:
    template = parsed(text)

    assert template.contract == {"a": {"b": {}}}
    assert template.sections == ()
    assert template.text == text, "the contract is part of the instructions"


def test_another_json_fence_is_an_example_and_no_contract() -> None:
    template = parsed('## Format\n```json\n{"a": {"b": 1}}\n```\n## Contract\nsigned by whom\n')

    assert template.contract is None
    assert template.sections == ("Format", "Contract")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "/t/mine.md: empty"),
        (b" \n\t\n", "/t/mine.md: empty"),
        (b"x" * (MAX_BYTES + 1), "/t/mine.md: over 65,536 bytes"),
        (b"a\nb\n\xff\n", "/t/mine.md:3: not UTF-8"),
        (b"a\nb\0\n", "/t/mine.md:2: a NUL"),
        ("a\n{{recent_turns\n", "/t/mine.md:2: {{ that is no part"),
        ("a\nrecent_turns}}\n", "/t/mine.md:2: }} that is no part"),
        ("a\n\n{{ a | upper }}\n", "/t/mine.md:3: {{ that is no part"),
        ("a\n```\nb\n", "/t/mine.md:2: a fence opens here"),
        ("{{session}}\n" * 33, "/t/mine.md:33: 33 placeholders; at most 32"),
        ("## Contract\n```json\n{\n  'a': 1}\n```\n", "/t/mine.md:4: the contract is not valid"),
        ("```json contract\n[1]\n```\n", "/t/mine.md:1: the contract must be a JSON object"),
        ('```json contract\n{"a": NaN}\n```\n', "/t/mine.md:1: the contract is not valid"),
        ("```json contract\n```\n", "the contract is not valid JSON"),
        ("```json contract\n" + "[" * 60_000 + "\n```\n", "/t/mine.md:1: the contract is nested"),
        (
            "## Contract\n```json\n{}\n```\n```json\n{}\n```\n",
            "/t/mine.md:5: a second contract; one is allowed, in line 2",
        ),
    ],
)
def test_what_is_not_valid_is_refused_with_file_line_and_what_is_allowed(
    text: str | bytes, said: str
) -> None:
    assert said in refused(text)


def test_a_file_of_the_largest_size_is_allowed() -> None:
    assert parsed(b"x" * MAX_BYTES)


@pytest.mark.parametrize("unit", ["# ", "`", "{{ ", "## #", "{{a", " ", "\n```", "</"])
def test_a_hostile_file_is_read_in_linear_time(unit: str) -> None:
    def read(size: int) -> None:
        text = "## " + unit * ((size - 8) // len(unit.encode())) + "\n"
        with contextlib.suppress(InvalidTemplate):
            parsed(text)
        outline(text)

    assert_linear(read, size=MAX_BYTES // 4)


def test_a_fence_is_closed_by_its_own_kind_and_length_only() -> None:
    found = outline("````md\n```\n~~~~\n````\n# T\n~~~ a`b\nx\n~~~~\n``` no `fence`\n# U")

    assert [(fence.line, fence.end, fence.info) for fence in found.fences] == [
        (1, 4, "md"),
        (6, 8, "a`b"),
    ]
    assert [heading.title for heading in found.headings] == ["T", "U"]


def test_the_author_is_warned_of_what_is_most_likely_not_meant() -> None:
    template = parsed(
        "{{recent-turn}} {{weather}}\n{% if x %}\n```\n{% in an example %}\n```\n"
        "## Goal\n### Goal\n## Goal\n{{session}}\n"
    )

    said = dict(warnings(template))

    assert sorted(line for line, _ in warnings(template)) == [1, 1, 2, 8]
    assert any("did you mean recent_turns?" in what for _, what in warnings(template))
    assert any("known are recent_turns, " in what for _, what in warnings(template))
    assert "{% is plain text" in said[2]
    assert "'Goal'" in said[8]
