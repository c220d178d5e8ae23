"""`turnmill evaluate`: its metrics by hand on tiny conversations, its command on small files."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Ran
from tests.entry_points import install
from tests.realdata import DATA_DIR, requires_data
from turnmill.testing import FakeEndpoint, Fault
from turnmill_cli.evaluate import summarizers
from turnmill_cli.evaluate import word_matching as kept_words
from turnmill_cli.evaluate.economy import economy
from turnmill_cli.evaluate.entities import VALUES
from turnmill_cli.evaluate.methods import METHODS, MeteredSummarizer, method, portions
from turnmill_cli.evaluate.metrics import (
    chat_means,
    halves,
    needed_in,
    score_question,
    score_tools,
    tools_means,
)
from turnmill_cli.evaluate.planted_facts import KINDS
from turnmill_cli.evaluate.survival import DataSet, OverBudget, load, survival
from turnmill_cli.evaluate.word_matching import kept_by_seq, stems
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.summarizers.openai.prices import Price
from turnmill_worker.summarizers.registry import GROUP
from turnmill_worker.tokens import counter_for

counter = counter_for("o200k_base", "gpt-4o")

PRICE = Price(input=2.5, cached_input=1.25, output=10)

TALK = [
    {"role": "user", "content": "Return order #W1234567 of the blue shirt please"},
    {"role": "user", "content": "It cost $46.66 in the sale"},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "content": "Go on"},
    {"role": "assistant", "content": "Order #W1234567 is refunded with 46.66"},
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
def talks(tmp_path: Path) -> Path:
    path = tmp_path / "tau.jsonl"
    path.write_text("\n".join(json.dumps({"messages": TALK}) for _ in range(3)))
    return path


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl.gz"
    qa = [{"question": "Which ticket?", "answer": "TKT-0003", "evidence": [3]}]
    with gzip.open(path, "wt") as file:
        file.write(json.dumps({"messages": chat_of(40), "qa": qa}) + "\n")
    return path


# --- metrics by hand ----------------------------------------------------------------------------


def test_stems_are_lower_case_numbers_are_digits_and_stop_words_are_gone() -> None:
    assert stems("Anna adopted two of the Dogs") == {"anna", "adopt", "2", "dog"}


def test_evidence_counts_only_where_it_was_said() -> None:
    texts = ["Anna adopted two dogs in Paris", "Nice"]
    summary = "0 user: Anna adopted dogs\n1 user: Paris"
    means = chat_means()

    question = {"answer": "Paris", "evidence": [0]}
    score_question(question, texts, kept_by_seq(summary), means, summary=summary)

    assert {name: mean.value for name, mean in means.items()} == {
        "ECR": 3 / 5,
        "EV": 0.0,
        "AER": 0.0,
        "any": 1.0,
    }


def test_a_question_whose_answer_is_not_in_its_evidence_is_not_eligible() -> None:
    means = chat_means()

    question = {"answer": "forty two", "evidence": [0]}
    score_question(question, ["Anna likes Paris"], {0: "Anna likes Paris"}, means)

    assert (means["ECR"].value, means["EV"].value) == (1.0, 1.0)
    assert (means["AER"].n, means["any"].n) == (0, 0)


def test_needed_are_the_values_the_tail_uses_and_only_the_head_introduced() -> None:
    assert needed_in(TALK, VALUES["tau"]) == {"#w1234567", "46.66"}


def test_a_value_in_the_system_prompt_or_said_again_is_not_needed() -> None:
    system = {"role": "system", "content": "Never refund 46.66 twice"}
    again = [*TALK[:3], {"role": "user", "content": "I mean #W1234567"}, TALK[4]]

    assert needed_in([system, *again], VALUES["tau"]) == set()


def test_the_head_never_ends_between_a_call_and_its_result() -> None:
    call = {"role": "assistant", "content": "calling"}
    result = {"role": "tool", "content": "{}"}

    head, tail = halves([*TALK[:2], call, result, result])

    assert len(head) == 2
    assert tail[0]["content"] == "calling"


def test_a_value_alone_on_its_line_is_present_but_not_associated() -> None:
    head, _ = halves(TALK)
    wanted = needed_in(TALK, VALUES["tau"])
    summary = "1 user: Return order #W1234567 blue shirt\n2 user: 46.66"
    means = tools_means()

    score_tools(wanted, head, summary, VALUES["tau"], means)

    assert {name: mean.value for name, mean in means.items()} == {
        "FUR": 1.0,
        "all": 1.0,
        "AFUR": 0.5,
    }


def test_a_text_over_its_budget_is_an_error_not_a_score() -> None:
    data = DataSet("tau", ({"messages": TALK},), VALUES["tau"])

    with pytest.raises(OverBudget, match="exceed the budget of"):
        survival(data, lambda _parts, _budget: "many words " * 50, 0.2, counter.count)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("ledger", [0.0, 0.2])
def test_no_method_exceeds_its_budget(name: str, ledger: float) -> None:
    parts = portions(list(enumerate(chat_of(60), 1)), 4, counter.count)

    for budget in (0, 7, 60, 300, 5_000):
        text = method(name, MeteredSummarizer(ExtractiveSummarizer(), counter, ledger))(
            parts, budget
        )
        assert counter.count(text) <= budget


def test_portions_hold_every_record_once_in_order() -> None:
    records = list(enumerate(chat_of(23), 1))

    parts = portions(records, 4, counter.count)

    assert len(parts) == 4
    assert [record for part in parts for record in part] == records


@requires_data
def test_the_baselines_score_what_they_always_did() -> None:
    assert DATA_DIR is not None
    tau = load(DATA_DIR / "tau.jsonl.gz")

    found = survival(tau, method("window", metered()), 0.2, counter.count)

    assert {name: str(mean) for name, mean in found.items()} == {
        "FUR": "0.465",
        "all": "0.166",
        "AFUR": "0.465",
    }


# --- tokens and money ---------------------------------------------------------------------------


def test_where_nothing_is_compacted_nothing_is_saved() -> None:
    messages = chat_of(4)
    size = [4 + counter.count(m["role"]) - 1 + counter.count(m["content"]) for m in messages]

    found = economy([("", messages)], "rolling", 8192, metered(), PRICE)

    assert (found.calls, found.compactions, found.saved) == (2, 0, 0.0)
    assert found.tokens == found.full_tokens == size[0] + sum(size[:3])
    assert found.usd == found.usd_cached == found.tokens * 2.5 / 1_000_000


@pytest.mark.parametrize("strategy", ["rolling", "iterations", "window"])
def test_compaction_saves_tokens_and_a_cache_saves_money(strategy: str) -> None:
    found = economy([("Be kind.", chat_of(400))], strategy, 2500, metered(), PRICE)

    assert found.compactions > 0
    assert 0.5 < found.saved < 1
    assert 0.5 < found.prefix < 1
    assert found.usd_cached < found.usd < found.full_usd
    assert found.full_usd_cached < found.full_usd


# --- the command --------------------------------------------------------------------------------


def test_a_table_fits_80_columns(run: Callable[..., Ran], talks: Path, asked: Path) -> None:
    done = run(str(talks), str(asked))

    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for word in ("AFUR", "AER", "rolling", "planted facts", "$ cached"):
        assert word in done.stdout


def test_json_has_every_number_with_its_size(
    run: Callable[..., Ran], talks: Path, asked: Path
) -> None:
    done = run(str(talks), str(asked), "--json", "--strategies", "rolling", "window")

    found = done.json
    assert set(found) == {
        *("format", "summarizer", "ledger", "rounds", "basis", "budgets", "survival", "probes"),
        *("economy", "requests", "refused", "cost_usd", "unpriced"),
    }
    assert found["budgets"] == [0.1, 0.2, 0.4]
    assert set(found["survival"]) == {"tau", "chat"}
    assert set(found["survival"]["tau"]["rolling"]) == {"FUR", "all", "AFUR"}
    assert found["survival"]["tau"]["window"]["FUR"][0]["n"] == 6
    assert set(found["survival"]["chat"]["window"]) == {"ECR", "EV", "AER", "any"}
    assert set(found["probes"]["data"]["tau"]["rolling"]["associated"]) == set(KINDS)
    assert found["probes"]["budget"] == 0.2
    assert set(found["economy"]["data"]["chat"]) == {"rolling", "window"}
    assert found["cost_usd"] == found["refused"] == 0


def test_several_values_may_follow_an_option_before_and_after_the_files(
    run: Callable[..., Ran], talks: Path
) -> None:
    quick = ("--no-probes", "--no-costs", "--json")

    before = run("--budget", "0.1", "0.3", "--strategies", "window", *quick, str(talks))
    after = run(str(talks), *quick, "--strategies", "window", "--budget", "0.1", "0.3")

    assert before.json == after.json
    assert after.json["budgets"] == [0.1, 0.3]


@pytest.mark.parametrize(("name", "start"), [("p.png", b"\x89PNG"), ("p.svg", b"<?xml")])
def test_a_plot_is_drawn(
    run: Callable[..., Ran], talks: Path, tmp_path: Path, name: str, start: bytes
) -> None:
    pytest.importorskip("matplotlib")

    done = run(str(talks), "--strategies", "window", "--no-costs", "--plot", str(tmp_path / name))

    assert done.exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(start)


def test_without_matplotlib_a_plot_says_what_to_install(
    run: Callable[..., Ran], talks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    done = run(str(talks), "--plot", str(tmp_path / "p.png"))

    assert done.exit_code == 1
    assert ".[evaluate]" in done.stderr


def test_without_snowball_stems_it_says_what_to_install(
    run: Callable[..., Ran], asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    for cached in (kept_words._stemmer, kept_words._stem, kept_words.stems):
        cached.cache_clear()

    done = run(str(asked))

    assert done.exit_code == 1
    assert ".[evaluate]" in done.stderr


@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        (("--budget", "1.5"), "--budget 1.5 must lie in (0, 1]", 2),
        (("--strategies", "magic"), "no strategy 'magic'", 2),
        (("--summarizer", "oracle"), "no summarizer 'oracle'", 1),
        (("--model", "unheard-of"), "no price for 'unheard-of'", 1),
        (("--values", "spells"), "--values must be one of", 2),
        (("--plot", "p.bmp"), "a plot is a .png or .svg file", 2),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    run: Callable[..., Ran], talks: Path, words: tuple[str, ...], told: str, code: int
) -> None:
    done = run(str(talks), *words)

    assert done.exit_code == code
    assert told in done.stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "tau.jsonl:1: not JSON"),
        ("[]", "tau.jsonl:1: not an object with a list of `messages`"),
        ('{"messages": [3]}', "tau.jsonl:1: messages[0]"),
        ('{"messages": [], "qa": [{"answer": 1, "evidence": [7]}]}', "evidence beyond the 0"),
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

    done = run(
        *(str(asked), "--model", "mine", "--prices", str(prices), "--no-probes", "--json"),
        *("--strategies", "window"),
    )

    found = done.json["economy"]["data"]["chat"]["window"]
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


def test_any_summarizer_can_be_plugged_in_and_what_it_writes_too_long_counts_as_nothing(
    run: Callable[..., Ran], talks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = install(tmp_path, GROUP, "chatterbox", "chattering:Factory", source=CHATTERBOX)
    monkeypatch.syspath_prepend(where)

    done = run(
        *(str(talks), "--summarizer", "chatterbox", "--strategies", "extract", "--json"),
        *("--budget", "0.2", "--no-probes", "--no-costs"),
    )

    found = done.json
    assert found["survival"]["tau"]["extract"]["FUR"] == [{"value": 0.0, "n": 6}]
    assert (found["requests"], found["refused"], found["cost_usd"]) == (3, 3, 1.5)


# --- with a model -------------------------------------------------------------------------------


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    monkeypatch.setattr(summarizers, "FIRST_WAIT_S", 0.01)
    with FakeEndpoint(retry_after_s=0.01) as serving:
        monkeypatch.setenv("TURNMILL_MODEL_URL", serving.base_url)
        monkeypatch.setenv("TURNMILL_MODEL", "gpt-4o-mini")
        monkeypatch.setenv("TURNMILL_MODEL_KEY", "sk-for-tests-only")
        yield serving


SHORT = ("--summarizer", "openai", "--strategies", "rolling", "--no-probes", "--no-costs")


@pytest.fixture
def long_talk(tmp_path: Path) -> Path:
    said = "Please return order #W{0:07} of {0} shirts, do not touch the others and never call me."
    talk = [
        {"role": "assistant", "content": f"I return #W{at % 48:07} because it was {at} days late."}
        if at % 2
        else {"role": "user", "content": said.format(at)}
        for at in range(80)
    ]
    path = tmp_path / "tau.jsonl"
    path.write_text(json.dumps({"messages": talk}))
    return path


def test_a_model_is_evaluated_like_any_other_and_what_it_cost_is_told(
    run: Callable[..., Ran], long_talk: Path, endpoint: FakeEndpoint
) -> None:
    done = run(*SHORT, "--budget", "0.4", "--json", str(long_talk))

    assert done.exit_code == 0, done.stderr
    found = done.json
    assert found["summarizer"] == "openai"
    assert (found["requests"], found["refused"], found["unpriced"]) == (4, 0, 0)
    assert len(endpoint.requests) == 4
    assert found["cost_usd"] > 0


def test_a_setting_that_is_wrong_is_named(
    run: Callable[..., Ran], long_talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNMILL_MODEL_TOKENS_PER_MINUTE", "-7")

    done = run(*SHORT, str(long_talk))

    assert done.exit_code == 1
    assert done.stderr.replace("\n", " ").strip() == (
        "TURNMILL_MODEL_TOKENS_PER_MINUTE: Input should be greater than or equal to 0"
    )


def test_with_costs_a_model_writes_for_the_pipelines_own_stages(
    run: Callable[..., Ran], talks: Path, endpoint: FakeEndpoint
) -> None:
    done = run(
        *("--summarizer", "openai", "--strategies", "rolling", "--budget", "0.4"),
        *("--no-probes", "--max-tokens", "512", str(talks)),
    )

    assert done.exit_code == 0, done.stderr
    assert "spent on texts: $" in done.stderr
    assert len(endpoint.requests) > 0


def test_a_refused_text_leaves_the_last_one_and_is_paid_for_all_the_same(
    run: Callable[..., Ran], long_talk: Path, endpoint: FakeEndpoint
) -> None:
    whole = run(*SHORT, "--budget", "0.4", "--json", str(long_talk)).json
    endpoint.fail_next("ok", "refusal-text", "refusal-text")

    done = run(*SHORT, "--budget", "0.4", "--json", str(long_talk))

    found = done.json
    assert (found["requests"], found["refused"]) == (4, 1)
    assert found["cost_usd"] > whole["cost_usd"]
    # The text after the refused one carries on what stood before it.
    assert "<<summary so far" in endpoint.requests[-2].prompt


def test_what_passes_is_asked_again(
    run: Callable[..., Ran], long_talk: Path, endpoint: FakeEndpoint
) -> None:
    endpoint.fail_next("429-retry-after", "503", "reset")

    done = run(*SHORT, "--budget", "0.4", "--json", str(long_talk))

    assert done.exit_code == 0
    assert done.json["refused"] == 0
    assert len(endpoint.requests) == 4 + 3


@pytest.mark.parametrize(
    ("fault", "told", "calls"),
    [
        ("503", "gave up after 5 calls: gpt-4o-mini: HTTP 503", 5),
        ("401", "gpt-4o-mini: HTTP 401, the key is not accepted", 1),
    ],
)
def test_what_does_not_pass_ends_it_with_a_clear_message(
    run: Callable[..., Ran],
    long_talk: Path,
    endpoint: FakeEndpoint,
    fault: Fault,
    told: str,
    calls: int,
) -> None:
    endpoint.fail_next(*[fault] * 9)

    done = run(*SHORT, str(long_talk))

    assert done.exit_code == 1
    assert told in " ".join(done.stderr.split())
    assert len(endpoint.requests) == calls


def test_a_model_without_a_price_is_said_to_have_none(
    run: Callable[..., Ran],
    long_talk: Path,
    endpoint: FakeEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del endpoint
    monkeypatch.setenv("TURNMILL_MODEL", "one-of-our-own")

    done = run(*SHORT, "--budget", "0.4", str(long_talk))

    assert "$0.0000, and 4 without a known price" in " ".join(done.stderr.split())


def test_without_a_key_nothing_is_read_or_asked(
    run: Callable[..., Ran],
    tmp_path: Path,
    endpoint: FakeEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TURNMILL_MODEL_KEY")

    done = run(*SHORT, str(tmp_path / "not-there.jsonl"))

    assert done.exit_code == 1
    assert "TURNMILL_MODEL_KEY" in done.stderr
    assert "not-there" not in done.stderr
    assert endpoint.requests == []
