"""`turnmill evaluate`: its measures by hand on tiny conversations, its command on small files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Ran
from tests.entry_points import install
from turnmill.testing import FakeEndpoint, Fault
from turnmill_cli.evaluate import measuring
from turnmill_cli.evaluate.measuring import (
    VALUES,
    DataSet,
    MeteredSummarizer,
    economy,
    needed_in,
    survival,
)
from turnmill_cli.evaluate.prompt_cache import RULES, PromptCache, beginnings
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.summarizers.openai.prices import Price
from turnmill_worker.summarizers.registry import GROUP
from turnmill_worker.tokens import counter_for

counter = counter_for("o200k_base", "gpt-4o")

PRICE = Price(input=2.5, cached_input=1.25, output=10)

CODING = [
    {"role": "user", "content": "Mend src/orders.py, where parse_order fails"},
    {"role": "user", "content": "It is called in lib/till.py"},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "content": "Go on"},
    {"role": "assistant", "content": "I mended parse_order in src/orders.py"},
]


def metered() -> MeteredSummarizer:
    return MeteredSummarizer(ExtractiveSummarizer(), counter)


def chat_of(turns: int) -> list[dict[str, Any]]:
    towns = ("Oslo", "Lima", "Cairo", "Delhi", "Quito")
    return [
        {
            "role": "assistant" if at % 2 else "user",
            "content": f"On day {at} we met ticket TKT-{at:04} in {towns[at % 5]}, for ${at}.50.",
        }
        for at in range(turns)
    ]


@pytest.fixture
def run(turnmill: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs the command, as wide as a plain terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    return partial(turnmill, "evaluate")


@pytest.fixture
def coding(tmp_path: Path) -> Path:
    path = tmp_path / "coding.jsonl"
    path.write_text("\n".join(json.dumps({"messages": CODING}) for _ in range(3)))
    return path


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl.gz"
    qa = [{"question": "Which ticket?", "answer": "TKT-0003", "evidence": [3]}]
    with gzip.open(path, "wt") as file:
        file.write(json.dumps({"messages": chat_of(80), "qa": qa}) + "\n")
    return path


# --- measures by hand ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "third", "needed"),
    [
        ("", "Noted.", {"src/orders.py", "parse_order"}),
        ("Never touch src/orders.py", "Noted.", {"parse_order"}),
        ("", "parse_order", {"src/orders.py", "parse_order"}),
    ],
)
def test_needed_are_the_values_the_tail_uses_and_only_the_head_introduced(
    system: str, third: str, needed: set[str]
) -> None:
    said = [{"role": "system", "content": system}, *CODING]
    said[3] = {"role": "assistant", "content": third}

    assert needed_in(said, VALUES["coding"]) == needed


@pytest.mark.parametrize(
    ("evidence", "answer", "kept"),
    [(3, "TKT-0003", 0.0), (299, "TKT-0299", 1.0), (3, "forty two and more", None)],
)
def test_an_answer_counts_where_its_evidence_still_states_it(
    evidence: int, answer: str, kept: float | None
) -> None:
    qa = [{"answer": answer, "evidence": [evidence]}]
    data = DataSet("chat", ({"messages": chat_of(300), "qa": qa},), None)

    found = survival(data, "window", 1_000, metered())

    assert found.compacted == 1
    assert found.means["answers"].value == kept


def test_a_summary_keeps_values_that_a_window_loses() -> None:
    said = [*CODING[:2], *chat_of(398), *CODING[2:], *({"role": "user", "content": "Go on"},) * 260]
    said += CODING[-1:]
    data = DataSet("coding", ({"messages": said},), VALUES["coding"])

    kept = {name: survival(data, name, 2_000, metered()) for name in ("rolling", "window")}

    assert kept["rolling"].means["values"].n == 2
    assert kept["rolling"].means["all"].value == 1.0
    assert kept["window"].compacted == 1


@pytest.mark.parametrize("strategy", ["rolling", "iterations", "window"])
def test_compaction_saves_tokens_and_a_cache_saves_money(strategy: str) -> None:
    found = economy([("Be kind.", chat_of(400))], strategy, 2500, metered(), PRICE)

    assert found.compactions > 0
    assert 0.5 < found.saved < 1
    assert 0.5 < found.prefix < 1
    assert found.usd < found.full_usd
    assert all(found.billed[name] < found.full_billed[name] for name in RULES)
    assert found.billed["anthropic"] < found.usd


SAID = [(b"system", 1100), (b"one", 100), (b"two", 300), (b"three", 500)]


@pytest.mark.parametrize(
    ("name", "billed"),
    [
        # 1,200 of 1,500 were there: 1,152 in steps of 128, at half the price.
        ("openai", [1200, 1152 * 0.5 + 348, 1500]),
        # Written for 1.25 times the price, read for a tenth: 300 s later nothing is left.
        ("anthropic", [1200 * 1.25, 1200 * 0.1 + 300 * 1.25, 1500 * 1.25]),
        ("anthropic-1h", [1200 * 2.0, 1200 * 0.1 + 300 * 2.0, 1500 * 0.1]),
        ("openai-30m", [1200 * 1.25, 1200 * 0.1 + 300 * 1.25, 1500 * 0.1]),
    ],
)
def test_a_prompt_costs_what_the_provider_s_rules_say(name: str, billed: list[float]) -> None:
    cache, first, longer = PromptCache(RULES[name]), beginnings(SAID[:2]), beginnings(SAID[:3])

    found = [cache.bill(first, 0), cache.bill(longer, 300), cache.bill(longer, 601)]

    assert found == pytest.approx(billed)


def test_after_a_change_only_what_stands_behind_a_mark_is_found_again() -> None:
    cache, other = PromptCache(RULES["anthropic"]), [SAID[0], SAID[2], SAID[3]]
    cache.bill(beginnings(SAID), 0)

    assert cache.bill(beginnings(other), 10) == pytest.approx(1100 * 0.1 + 800 * 1.25)
    assert cache.bill(beginnings([(b"short", 1023)]), 10) == 1023
    far = [*other, *[(b"and so on", 1)] * 20]
    assert cache.bill(beginnings(far), 20) == pytest.approx(1100 * 0.1 + 820 * 1.25)
    assert cache.bill(beginnings(far[:-1]), 20) == pytest.approx(1900 * 0.1 + 19 * 1.25)


# --- the command --------------------------------------------------------------------------------


def test_tables_are_for_a_person_or_for_markdown(run: Callable[..., Ran], asked: Path) -> None:
    shown = run(str(asked), "--max-tokens", "1000", "--strategies", "window")
    markdown = run(str(asked), "--markdown", "--no-costs", "--strategies", "window")

    assert shown.exit_code == markdown.exit_code == 0
    for word in ("answers", "window", "openai-30m"):
        assert word in shown.stdout
    assert markdown.stdout.splitlines()[2] == "| strategy | compacted | answers |"


def test_json_has_every_number_with_its_size(
    run: Callable[..., Ran], coding: Path, asked: Path
) -> None:
    words = ("--json", "--values", "coding", "--max-tokens", "1000")

    found = run(str(coding), str(asked), *words, "--strategies", "rolling", "window").json

    assert found["conversations"] == {"coding": 3, "chat": 1}
    assert found["survival"]["coding"]["window"] == {
        "compacted": 0,
        "values": {"value": 1.0, "n": 6},
        "all": {"value": 1.0, "n": 3},
    }
    assert found["survival"]["chat"]["rolling"]["compacted"] == 1
    assert set(found["economy"]["data"]["chat"]) == {"rolling", "window"}
    assert found["cost_usd"] == found["refused"] == 0


@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        (("--max-tokens", "5"), "512", 2),
        (("--strategies", "magic"), "no strategy 'magic'", 2),
        (("--summarizer", "oracle"), "no summarizer 'oracle'", 1),
        (("--model", "unheard-of"), "no price for 'unheard-of'", 1),
        (("--values", "spells"), "--values must be one of", 2),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    run: Callable[..., Ran], coding: Path, words: tuple[str, ...], told: str, code: int
) -> None:
    done = run(str(coding), *words)

    assert done.exit_code == code
    assert told in done.stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "tau.jsonl:1: not JSON"),
        ("[]", "tau.jsonl:1: not an object with a list of `messages`"),
        ('{"messages": [3]}', "tau.jsonl:1: messages[0]"),
        ('{"messages": [], "qa": [{"answer": 1, "evidence": [7]}]}', "evidence beyond the 0"),
        ("", "tau.jsonl: no conversations in it"),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_without_its_content(
    run: Callable[..., Ran], tmp_path: Path, line: str, told: str
) -> None:
    path = tmp_path / "tau.jsonl"
    path.write_text(line)

    done = run(str(path))

    assert done.exit_code == 2
    assert told in done.stderr.replace("\n", " ")


def test_prices_of_one_s_own_replace_the_table_s(
    run: Callable[..., Ran], asked: Path, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.json"
    own = {"mine": {"input": 10, "cached_input": 1, "output": 30}}
    prices.write_text(json.dumps({"usd_per_million_tokens": own}))

    words = ("--model", "mine", "--prices", str(prices), "--json", "--strategies", "window")
    found = run(str(asked), *words).json["economy"]["data"]["chat"]["window"]

    assert found["usd"] == pytest.approx(found["tokens"] * 10 / 1_000_000)


CHATTERBOX = """
from turnmill_worker.ports.values import Summary
from turnmill_worker.summarizers.registry import SummarizerFactory

class Chatterbox:
    def summarize(self, request, counter):
        return Summary(text="words " * 10_000, model="chatterbox", cost_usd=0.5)

class Factory(SummarizerFactory):
    def summarizers(self, policy):
        return [Chatterbox()]
"""
"""One that never keeps to its budget."""


def test_any_summarizer_can_be_plugged_in_and_what_it_writes_too_long_is_paid_and_refused(
    run: Callable[..., Ran], asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = install(tmp_path, GROUP, "chatterbox", "chattering:Factory", source=CHATTERBOX)
    monkeypatch.syspath_prepend(where)

    words = ("--summarizer", "chatterbox", "--strategies", "rolling", "--max-tokens", "1000")
    found = run(str(asked), *words, "--json", "--no-costs").json

    assert found["refused"] == found["requests"] > 0
    assert found["cost_usd"] == 0.5 * found["requests"]


# --- with a model -------------------------------------------------------------------------------

SHORT = ("--summarizer", "openai", "--strategies", "rolling", "--no-costs", "--max-tokens", "1500")


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    monkeypatch.setattr(measuring, "FIRST_WAIT_S", 0.01)
    with FakeEndpoint(retry_after_s=0.01) as serving:
        monkeypatch.setenv("TURNMILL_MODEL_URL", serving.base_url)
        monkeypatch.setenv("TURNMILL_MODEL", "gpt-4o-mini")
        monkeypatch.setenv("TURNMILL_MODEL_KEY", "sk-for-tests-only")
        yield serving


def test_a_model_is_evaluated_like_any_other_asked_again_and_what_it_cost_is_told(
    run: Callable[..., Ran], asked: Path, endpoint: FakeEndpoint
) -> None:
    endpoint.fail_next("429-retry-after", "503", "reset")

    done = run(*SHORT, "--json", str(asked))

    assert done.exit_code == 0, done.stderr
    found = done.json
    assert (found["summarizer"], found["refused"], found["unpriced"]) == ("openai", 0, 0)
    assert len(endpoint.requests) == found["requests"] + 3
    assert found["cost_usd"] > 0
    assert "spent on texts: $" in done.stderr


@pytest.mark.parametrize(
    ("fault", "told", "calls"),
    [
        ("503", "gave up after 5 calls: gpt-4o-mini: HTTP 503", 5),
        ("401", "gpt-4o-mini: HTTP 401, the key is not accepted", 1),
    ],
)
def test_what_does_not_pass_ends_it_with_a_clear_message(
    run: Callable[..., Ran],
    asked: Path,
    endpoint: FakeEndpoint,
    fault: Fault,
    told: str,
    calls: int,
) -> None:
    endpoint.fail_next(*[fault] * 9)

    done = run(*SHORT, str(asked))

    assert done.exit_code == 1
    assert told in " ".join(done.stderr.split())
    assert len(endpoint.requests) == calls


@pytest.mark.parametrize(
    ("name", "value"),
    [("TURNMILL_MODEL_KEY", ""), ("TURNMILL_MODEL_TOKENS_PER_MINUTE", "-7")],
)
def test_with_a_wrong_setting_nothing_is_read_or_asked(
    run: Callable[..., Ran],
    tmp_path: Path,
    endpoint: FakeEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv(name, value)

    done = run(*SHORT, str(tmp_path / "not-there.jsonl"))

    assert done.exit_code == 1
    assert name in done.stderr
    assert "not-there" not in done.stderr
    assert endpoint.requests == []
