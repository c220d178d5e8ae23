"""Prints what survives in texts of a budget: evidence, answers and values, per strategy.

    python -m benchmarks.survival FOLDER [--budget 0.1 0.2 0.4] [--only tau locomo] [--markdown]

FOLDER holds `locomo`, `bfcl_memory`, `tau`, `sgd` and `coding` as `.jsonl.gz`, one conversation a
line. Every number is a survival measure of strings or stems; no model reads any output. (`turnmill
evaluate` looks at the context that an agent reads; this at texts, whatever stands beside them.)

ECR   evidence content recall: share of an evidence turn's stems kept from that turn
EV    share of questions where every evidence turn keeps at least 70 % of its stems
AER   share of eligible questions whose answer stems all survive in the evidence turns
any   as AER, but anywhere in the text; inflated by chance
FUR   share of the values the tail uses, and only the head introduced, that are present
all   share of conversations in which every such value is present
AFUR  as FUR, and on one line within 120 characters of two companions from its source record

A method is given the records in the portions a session would compact them in. `rolling` makes a
new text of its last one and each portion; the others look at all records at once.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

from turnmill.contract.context import SummaryEvent
from turnmill.contract.estimate import Counter
from turnmill.contract.names import Seq
from turnmill.contract.render import event_text
from turnmill_cli.evaluate import measuring
from turnmill_cli.evaluate.measuring import (
    DataSet,
    Find,
    Mean,
    MeteredSummarizer,
    Record,
    by_pattern,
    halves,
    needed_in,
    stands_in,
    stems,
    text_of,
)
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.strategies.iterations import event_tokens
from turnmill_worker.compaction.with_digest import digest_of
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.reading.known import Known
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.tokens import counter_for

Portions = Sequence[Sequence[Record]]
Method = Callable[[Portions, int], str]
Count = Callable[[str], int]
Compacted = Callable[[Sequence[Record]], str]

LINE = re.compile(r"#?(\d+) ")
"""A line of a summary that says which message it is from."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_FRAME_TOKENS: Final = 2
_LEAST_TOKENS: Final = 24
_VISIBLE = 0.7
_ELIGIBLE = 0.5
_NEAR_CHARS = 120
_COMPANIONS = 2
_CATEGORIES = frozenset({1, 2, 3, 4})

_TAU: Final = {
    "order": r"#W\d{7}",
    "user": r"\b[a-z]+_[a-z]+_\d{4}\b",
    "payment": r"\b(?:credit_card|gift_card|paypal|certificate)_\d+\b",
    "email": r"\b[\w.+-]{1,64}@[\w-]+\.[\w.]+\b",
    "item": r"\b\d{10}\b",
    "flight": r"\bHAT\d{3}\b",
    "reservation": r"\b(?=[A-Z0-9]{0,5}\d)(?=\d{0,5}[A-Z])[A-Z0-9]{6}\b",
    "date": r"\b\d{4}-\d{2}-\d{2}\b",
    "amount": r"(?<![\w.])\$?\d{1,6}\.\d{2}\b|\$\d{1,6}\b",
    "airport": r"\b(?!USD|EST|JSON|THE|AND|NOT|YES|LCD|LED|USB|VIP|DOB|RGB|SSD|RAM)[A-Z]{3}\b",
    "zip": r"(?<![\w.$#-])\d{5}\b",
}
TAU: Final = re.compile("|".join(f"(?P<{kind}>{rule})" for kind, rule in _TAU.items()))
"""The values of customer-service agents."""

VALUES: Final[Mapping[str, Find | None]] = {**measuring.VALUES, "tau": by_pattern(TAU)}
"""How needed values are found, by the data set's name; None: they are arguments of later calls."""

COUNTER: Final[Counter] = counter_for("o200k_base", "gpt-4o")


def rendered(records: Sequence[Record]) -> str:
    """The plain transcript that budgets are a share of."""
    return "\n".join(f"{m.get('name') or m['role']}: {text_of(m)}" for _, m in records)


def portions(records: Sequence[Record], rounds: int, count: Count) -> list[list[Record]]:
    """The records in so many portions of about the same tokens, or fewer."""
    sizes = [count(text_of(message)) + 4 for _, message in records]
    share, passed = sum(sizes) / rounds or 1, 0.0
    parts: list[list[Record]] = [[] for _ in range(rounds)]
    for record, size in zip(records, sizes, strict=True):
        parts[min(int((passed + size / 2) / share), rounds - 1)].append(record)
        passed += size
    return [part for part in parts if part]


# --- strategies without a summarizer --------------------------------------------------------------


def window(records: Sequence[Record], budget: int, count: Count) -> str:
    """The newest whole messages that fit, then as much of the next one's end as fits."""
    kept: list[str] = []
    for seq, message in reversed(records):
        who, words = message.get("name") or message["role"], text_of(message).split()
        low, high = 0, len(words)
        while low < high:
            middle = (low + high + 1) // 2
            line = f"{seq} {who}: {' '.join(words[-middle:])}"
            fits = count("\n".join([line, *reversed(kept)])) <= budget
            low, high = (middle, high) if fits else (low, middle - 1)
        if low:
            kept.append(f"{seq} {who}: {' '.join(words[-low:])}")
        if low < len(words):
            break
    return "\n".join(reversed(kept))


def head_tail(records: Sequence[Record], budget: int, count: Count) -> str:
    """The oldest whole messages in half of the budget, and the newest in what is left."""
    lines = [f"{seq} {m.get('name') or m['role']}: {text_of(m)}" for seq, m in records]
    at = left = 0
    for line in lines:
        cost = count(line) + 1
        if left + cost > budget // 2:
            break
        left, at = left + cost, at + 1
    head = "\n".join(lines[:at])
    tail = window(records[at:], budget - left, count)
    return "\n".join(text for text in (head, tail) if text)


def lead(records: Sequence[Record], budget: int, count: Count) -> str:
    """First sentences, oldest message first, while they fit; then second sentences, and so on."""
    sentences = [_SENTENCE_END.split(" ".join(text_of(m).split())) for _, m in records]
    depth = max(map(len, sentences), default=0)
    taken = [0] * len(records)
    left = budget
    for rank, turn in ((r, t) for r in range(depth) for t in range(len(records))):
        if rank < len(sentences[turn]):
            cost = count(f" {sentences[turn][rank]}") + (0 if rank else 6)
            if cost > left:
                break
            left -= cost
            taken[turn] += 1
    return "\n".join(
        f"{seq} {m.get('name') or m['role']}: {' '.join(s[:n])}"
        for (seq, m), s, n in zip(records, sentences, taken, strict=True)
        if n
    )


BASELINES: Final = {"window": window, "head+tail": head_tail, "lead": lead}
"""The strategies without a summarizer."""


# --- and with one ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Texts(MeteredSummarizer):
    """A summarizer that writes texts of a budget."""

    def text(self, records: Sequence[Record], budget: int, *, previous: str = "") -> str:
        """An event of the previous text and the records; "" when what is written is refused."""
        asked = tuple((Seq(seq), dict(message)) for seq, message in records)
        return self._asked(
            SummaryRequest(previous=previous, records=asked, budget_tokens=budget, brief=True)
        )

    def _asked(self, request: SummaryRequest) -> str:
        if request.budget_tokens <= 0:
            return ""
        self.requests += 1
        try:
            summary = self.summarizer.summarize(request, self.counter)
        except SummaryRejected as error:
            self.refused += 1
            self.pay(getattr(error, "spent", None))
            return ""
        self.pay(summary)
        if self.counter.count(summary.text) > request.whole_tokens:
            self.refused += 1
            return ""
        return summary.text

    def rolling(self, parts: Portions, budget: int) -> str:
        """One text, made anew from the last one and each portion, and the facts beside it.

        A refused text changes nothing.
        """
        count, prose = self.counter.count, ""
        known = Known()
        whole = budget - _FRAME_TOKENS if self.ledger else budget
        apart = int(self.ledger * whole)
        beside = ""
        for part in parts:
            said = tuple((Seq(seq), dict(message)) for seq, message in part)
            request = SummaryRequest(
                previous=prose, records=said, budget_tokens=whole - apart, ledger_tokens=apart
            )
            digest = digest_of(request, self.counter, known)
            prose = self._asked(replace(request, digest=digest)) or prose
            room = whole - count(prose)
            beside = digest.beside(prose, room) if room > _LEAST_TOKENS and apart else ""
            known = digest.after(whole)
        return "\n".join(text for text in (prose, beside) if text)

    def once(self, parts: Portions, budget: int) -> str:
        """One text, made of all records at once."""
        return self.rolling([list(chain.from_iterable(parts))], budget)

    def iterations(self, parts: Portions, budget: int) -> str:
        """A short text for each user request and what follows; older ones folded into one."""
        count = self.counter.count
        events = [self._event(n, own) for n, own in enumerate(_steps(parts), 1)]
        texts = [event_text(event) for event in events]
        sizes = [count(text) + 1 for text in texts]
        if sum(sizes) <= budget:
            return "\n".join(texts)
        at, left = len(texts), budget // 2
        while at and sizes[at - 1] <= left:
            at -= 1
            left -= sizes[at]
        folded = events[0].model_copy(
            update={
                "last_iteration": events[at - 1].iteration,
                "last_seq": events[at - 1].last_seq,
                "text": "",
            }
        )
        room = budget - sum(sizes[at:]) - count(event_text(folded)) - _FRAME_TOKENS
        older = self.text((), room, previous="\n".join(e.text for e in events[:at] if e.text))
        text = "\n".join([event_text(folded.model_copy(update={"text": older})), *texts[at:]])
        # Where even the frame of the older ones is too much, only the newest have room.
        return text if room > 0 and count(text) <= budget else "\n".join(texts[at:])

    def _event(self, number: int, own: Sequence[Record]) -> SummaryEvent:

        tokens = sum(self.counter.count(text_of(message)) + 4 for _, message in own)
        budget = max(event_tokens(tokens), _LEAST_TOKENS)
        return SummaryEvent(
            iteration=number,
            last_iteration=number,
            first_seq=own[0][0],
            last_seq=own[-1][0],
            text=self.text(own, budget),
        )


def _steps(parts: Portions) -> list[list[Record]]:
    steps: list[list[Record]] = []
    for record in chain.from_iterable(parts):
        if not steps or (record[1]["role"] == "user" and steps[-1][-1][1]["role"] != "user"):
            steps.append([])
        steps[-1].append(record)
    return steps


METHODS: Final = ("rolling", "extract", "iterations", *BASELINES)
"""The strategies that can be compared."""


def method(name: str, metered: MeteredSummarizer) -> Method:
    """The method of this name."""
    if name in BASELINES:
        baseline, count = BASELINES[name], metered.counter.count
        return lambda parts, budget: baseline(list(chain(*parts)), budget, count)
    texts = Texts(metered.summarizer, metered.counter, metered.ledger)
    return {"rolling": texts.rolling, "extract": texts.once, "iterations": texts.iterations}[name]


# --- metrics --------------------------------------------------------------------------------------


def chat_means() -> dict[str, Mean]:
    """Nothing counted yet."""
    return {"ECR": Mean(), "EV": Mean(), "AER": Mean(), "any": Mean()}


def kept_by_seq(summary: str) -> dict[int, str]:
    """The text kept from each message, read from the seq each line opens with."""
    kept: dict[int, str] = {}
    for line in summary.split("\n"):
        if match := LINE.match(line):
            seq = int(match[1])
            kept[seq] = f"{kept.get(seq, '')} {line[match.end() :].split(':', 1)[-1]}"
    return kept


def score_question(
    question: Mapping[str, Any],
    texts: Sequence[str],
    kept: Mapping[int, str],
    means: Mapping[str, Mean],
    *,
    summary: str = "",
) -> None:
    """Adds one question's ECR, EV and, if its answer is in its evidence, AER and any.

    ``kept`` is what is left of each message, ``summary`` the whole text, which only ``any`` needs.
    """
    if question.get("category", 1) not in _CATEGORIES:
        return
    evidence = [(i, stems(texts[i])) for i in question["evidence"] if stems(texts[i])]
    if not evidence:
        return
    recalls = [len(full & stems(kept.get(i, ""))) / len(full) for i, full in evidence]
    means["ECR"].add(sum(recalls) / len(recalls))
    means["EV"].add(min(recalls) >= _VISIBLE)
    answer = stems(str(question["answer"]))
    present = answer & frozenset[str]().union(*(full for _, full in evidence))
    if present and len(present) >= _ELIGIBLE * len(answer):
        survived = frozenset[str]().union(*(stems(kept.get(i, "")) for i, _ in evidence))
        means["AER"].add(present <= survived)
        if "any" in means:
            means["any"].add(present <= stems(summary))


def tools_means() -> dict[str, Mean]:
    """Nothing counted yet."""
    return {"FUR": Mean(), "all": Mean(), "AFUR": Mean()}


def score_tools(
    wanted: set[str],
    head: Sequence[Record],
    summary: str,
    find: Find | None,
    means: Mapping[str, Mean],
) -> None:
    """Adds one conversation's FUR, all and AFUR."""
    lowered = summary.lower()
    present = {v for v in wanted if stands_in(lowered, v)}
    means["FUR"].add(len(present), len(wanted))
    means["all"].add(present == wanted)
    look = find or by_pattern(TAU)
    sources = [text_of(m) for _, m in head]
    near = sum(associated(v, summary, sources, look) for v in sorted(present))
    means["AFUR"].add(near, len(wanted))


def associated(value: str, summary: str, sources: Sequence[str], find: Find) -> bool:
    """Whether `value` stands on a line near two things it stood with in one source record."""
    companions = [
        (stems(s), {e for e, _ in find(s)}) for s in sources if stands_in(s.lower(), value)
    ]
    for line in summary.split("\n"):
        body = line.split(":", 1)[-1] if LINE.match(line) else line
        at = body.lower().find(value)
        if at < 0 or not stands_in(body.lower(), value):
            continue
        near = body[max(0, at - _NEAR_CHARS) : at + len(value) + _NEAR_CHARS]
        own = {kind for (kind, v), _ in find(near) if v.lower() == value}
        others = {e for e, _ in find(near) if e[0] not in own}
        words = stems(near) - stems(value)
        if any(len(words & w) + len(others & e) >= _COMPANIONS for w, e in companions):
            return True
    return False


# --- data sets ------------------------------------------------------------------------------------


class OverBudget(AssertionError):
    """A method's text has more tokens than it was allowed."""


def survival(
    data: DataSet, method: Method, share: float, count: Count, *, rounds: int = 1
) -> dict[str, Mean]:
    """The metrics that fit the data: of questions where there are any, else of values used later.

    Raises:
        OverBudget: the method broke the one rule.
    """

    def compacted(records: Sequence[Record]) -> str:
        budget = int(share * count(rendered(records)))
        summary = method(portions(records, rounds, count), budget)
        if (tokens := count(summary)) > budget:
            raise OverBudget(f"{tokens} tokens exceed the budget of {budget}")
        return summary

    return _chat(data, compacted) if data.has_questions else _tools(data, compacted)


def _chat(data: DataSet, compacted: Compacted) -> dict[str, Mean]:
    means = chat_means()
    for conversation in data.conversations:
        records: list[Record] = list(enumerate(conversation["messages"]))
        summary = compacted(records)
        texts = [text_of(message) for _, message in records]
        kept = kept_by_seq(summary)
        for question in conversation.get("qa") or ():
            score_question(question, texts, kept, means, summary=summary)
    return means


def _tools(data: DataSet, compacted: Compacted) -> dict[str, Mean]:
    means = tools_means()
    for conversation in data.conversations:
        wanted = needed_in(conversation["messages"], data.find)
        if wanted:
            head, _ = halves(conversation["messages"])
            score_tools(wanted, head, compacted(head), data.find, means)
    return means


def extractive(records: Sequence[Record], budget: int) -> str:
    """The summarizer under test."""
    asked = tuple((Seq(seq), dict(message)) for seq, message in records)
    request = SummaryRequest(previous="", records=asked, budget_tokens=budget)
    return digest_of(request, COUNTER).text(budget)


def data_set(path: Path, values: str = "", limit: int | None = None) -> DataSet:
    """The conversations of a file; its name says which values are needed, unless told."""
    found = measuring.load(path, limit=limit)
    return replace(found, find=VALUES.get(values or found.name))


def load(folder: Path, name: str) -> list[dict[str, Any]]:
    """The conversations of one file."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def main(argv: Sequence[str] | None = None) -> None:
    """Prints one row per data set and strategy, one column per metric and budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=float, nargs="+", default=[0.1, 0.2, 0.4])
    parser.add_argument(
        "--strategy", nargs="+", default=["window", "lead", "extract"], choices=METHODS
    )
    names = ["locomo", "bfcl_memory", "tau", "sgd", "coding"]
    parser.add_argument("--only", nargs="+", default=names, choices=names)
    parser.add_argument("--limit", type=int, help="only the first so many conversations")
    parser.add_argument("--rounds", type=int, default=4, help="of rolling")
    parser.add_argument("--ledger", type=float, default=0.0)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(argv)
    shares = options.budget
    budgets = " / ".join(f"{share:.0%}" for share in shares)
    if not options.markdown:
        print(f"budgets: {budgets} of the compacted tokens")
    metered = MeteredSummarizer(ExtractiveSummarizer(), COUNTER, options.ledger)
    for name in options.only:
        data = DataSet(name, tuple(load(options.folder, name)[: options.limit]), VALUES.get(name))
        for at, strategy in enumerate(options.strategy):
            started, shorten = time.perf_counter(), method(strategy, metered)
            found = [
                survival(data, shorten, share, COUNTER.count, rounds=options.rounds)
                for share in shares
            ]
            took = time.perf_counter() - started
            cells = {metric: "/".join(str(each[metric]) for each in found) for metric in found[0]}
            size = next(iter(found[0].values())).n
            if options.markdown:
                _print_row(f"{name} at {budgets} (n {size})", strategy, cells, is_first=not at)
            else:
                told = "  ".join(f"{metric} {cell}" for metric, cell in cells.items())
                print(f"{name:<12} {strategy:<8} n={size:<5} {told}  {took:.1f}s")


def _print_row(title: str, strategy: str, cells: Mapping[str, str], *, is_first: bool) -> None:
    if is_first:
        print(f"\n**{title}**\n\n| | {' | '.join(cells)} |\n|---|{'--:|' * len(cells)}")
    print(f"| {strategy} | {' | '.join(cells.values())} |")


if __name__ == "__main__":
    main()
