"""Reading a model's answer: advisory, so nothing makes it fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import assert_linear
from turnmill_worker.templates import Template, parse_output, sections_found
from turnmill_worker.templates.template import parse_template


def with_contract(contract: str) -> Template:
    text = f"# T\n## Goal\n## Next\n## Contract\n```json\n{contract}\n```\n"
    return parse_template("mine", "/t/mine.md", text.encode())


CASE = with_contract('{"id": "", "status": ""}')


@pytest.mark.parametrize(
    "raw",
    [
        '{"id": "W1", "status": "open"}',
        '## Goal\nreturn it\n```json\n{"id": "W1",\n "status": "open"}\n```\n',
        'As {asked} in {"x": 1}: { "id": "W1", "status": "open" } - done {',
        '{"id": "draft"} no: {"id": "W1", "status": "open"} like {"status": "sure"}',
        '{"id": "old", "status": "old"} then {"id": "W1", "status": "open"}',
        '{"id": "cut", "list": [ and again {"id": "W1", "status": "open"}',
    ],
)
def test_the_object_that_fits_the_contract_best_is_found(raw: str) -> None:
    assert parse_output(CASE, raw) == {"id": "W1", "status": "open"}


@pytest.mark.parametrize(
    "raw",
    ["", "prose only", '{"other": 1}', "[1, 2]", '{"id": NaN}', '{"id": "W1"', '{"id": 1e', "{}"],
)
def test_an_answer_without_such_an_object_is_none(raw: str) -> None:
    assert parse_output(CASE, raw) is None


def test_a_template_without_a_contract_expects_nothing() -> None:
    template = parse_template("mine", "/t/mine.md", b"keep all")

    assert parse_output(template, '{"id": 1}') is None


def test_a_contract_may_be_a_json_schema() -> None:
    schema = with_contract('{"type": "object", "properties": {"id": {"type": "string"}}}')

    assert parse_output(schema, '{"type": "x"} {"id": "W1"}') == {"id": "W1"}


def test_an_empty_contract_takes_any_object() -> None:
    assert parse_output(with_contract("{}"), 'so {"a": 1}') == {"a": 1}


@given(st.text(alphabet=st.sampled_from('{}[]":,\\ aid0-.eE\n`#')) | st.text())
def test_no_answer_makes_it_fail(raw: str) -> None:
    parse_output(CASE, raw)
    sections_found(CASE, raw)


@pytest.mark.parametrize(
    "unit", ['{"', '{"id":', "[", '{"id":[', "{ ", '{"id":0,"b":{', '{"a":[1', "9"]
)
def test_a_hostile_answer_is_read_in_linear_time(unit: str) -> None:
    def read(size: int) -> None:
        assert parse_output(CASE, '{"id":' + unit * (size // len(unit))) is None

    assert_linear(read, size=250_000)


def test_the_sections_an_answer_has_are_told_by_its_headings() -> None:
    assert sections_found(CASE, "# NEXT #\nx\n```\n## Goal\n```\n") == ("Next",)
    assert sections_found(CASE, "### Next\n## Goal\n## Mood") == ("Goal", "Next")
