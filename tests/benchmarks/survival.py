"""Prints what survives compaction: evidence, answers and identifiers, per strategy and budget.

    python tests/benchmarks/survival.py FOLDER [--budget 0.1 0.2 0.4] [--only tau locomo]

FOLDER holds `locomo`, `bfcl_memory`, `tau`, `sgd` and `coding` as `.jsonl.gz`, one conversation a
line. Every number is a survival measure of strings or stems; no model reads any output.

    ECR   evidence content recall: share of an evidence turn's stems kept from that turn
    EV    share of questions where every evidence turn keeps at least 70 % of its stems
    AER   share of eligible questions whose answer stems all survive in the evidence turns
    FUR   share of the values the tail uses, and only the head introduced, that are present
    all   share of conversations in which every such value is present
    AFUR  as FUR, and on one line within 120 characters of two companions from its source record
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import snowballstemmer
from bpe_openai._bindings import tokenizer_for_encoding

from turnmill_worker.summarizers.extractive import extract

Record = tuple[int, Mapping[str, Any]]
Kept = dict[int, str]
Strategy = Callable[[Sequence[Record], int], str]

_count: Callable[[str], int] = tokenizer_for_encoding("o200k_base").count
_stemmer = snowballstemmer.stemmer("english")
_WORD = re.compile(r"[a-z0-9]+(?:['’][a-z]+)?")
_LINE = re.compile(r"#?(\d+) ")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_DIGITS = {
    word: str(number)
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ]
    )
}
_STOP = frozenset(
    [
        "a",
        "about",
        "after",
        "again",
        "all",
        "am",
        "an",
        "and",
        "any",
        "are",
        "aren't",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "both",
        "but",
        "by",
        "can",
        "can't",
        "could",
        "couldn't",
        "did",
        "didn't",
        "do",
        "does",
        "doesn't",
        "doing",
        "don't",
        "down",
        "during",
        "each",
        "few",
        "for",
        "from",
        "further",
        "had",
        "has",
        "have",
        "having",
        "he",
        "he's",
        "her",
        "here",
        "hers",
        "herself",
        "him",
        "himself",
        "his",
        "how",
        "i",
        "i'd",
        "i'll",
        "i'm",
        "i've",
        "if",
        "in",
        "into",
        "is",
        "isn't",
        "it",
        "it's",
        "its",
        "itself",
        "just",
        "let's",
        "me",
        "more",
        "most",
        "my",
        "myself",
        "no",
        "nor",
        "not",
        "now",
        "of",
        "off",
        "on",
        "once",
        "only",
        "or",
        "other",
        "our",
        "ours",
        "out",
        "over",
        "own",
        "same",
        "she",
        "she's",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "that's",
        "the",
        "their",
        "theirs",
        "them",
        "then",
        "there",
        "there's",
        "these",
        "they",
        "they're",
        "they've",
        "this",
        "those",
        "through",
        "to",
        "too",
        "under",
        "until",
        "up",
        "very",
        "was",
        "wasn't",
        "we",
        "we're",
        "we've",
        "were",
        "what",
        "what's",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "why",
        "will",
        "with",
        "won't",
        "would",
        "you",
        "you'd",
        "you'll",
        "you're",
        "you've",
        "your",
        "yours",
        "s",
        "t",
    ]
)


def text_of(message: Mapping[str, Any]) -> str:
    """The message's own words: content text, then each call's name and arguments."""
    content = message.get("content")
    parts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        parts = [str(part.get("text") or "[image]") for part in content]
    for call in message.get("tool_calls") or ():
        parts.append(f"{call['function']['name']} {call['function']['arguments']}")
    return "\n".join(parts)


def rendered(records: Sequence[Record]) -> str:
    """The plain transcript that budgets are a share of."""
    return "\n".join(f"{m.get('name') or m['role']}: {text_of(m)}" for _, m in records)


def window(records: Sequence[Record], budget: int) -> str:
    """The newest whole messages that fit, then as much of the next one's end as fits."""
    kept: list[str] = []
    for seq, message in reversed(records):
        who, words = message.get("name") or message["role"], text_of(message).split()
        low, high = 0, len(words)
        while low < high:
            middle = (low + high + 1) // 2
            line = f"{seq} {who}: {' '.join(words[-middle:])}"
            fits = _count("\n".join([line, *reversed(kept)])) <= budget
            low, high = (middle, high) if fits else (low, middle - 1)
        if low:
            kept.append(f"{seq} {who}: {' '.join(words[-low:])}")
        if low < len(words):
            break
    return "\n".join(reversed(kept))


def lead(records: Sequence[Record], budget: int) -> str:
    """First sentences, oldest message first, while they fit; then second sentences, and so on."""
    sentences = [_SENTENCE_END.split(" ".join(text_of(m).split())) for _, m in records]
    depth = max(map(len, sentences), default=0)
    taken = [0] * len(records)
    left = budget
    for rank, turn in ((r, t) for r in range(depth) for t in range(len(records))):
        if rank < len(sentences[turn]):
            cost = _count(f" {sentences[turn][rank]}") + (0 if rank else 6)
            if cost > left:
                break
            left -= cost
            taken[turn] += 1
    return "\n".join(
        f"{seq} {m.get('name') or m['role']}: {' '.join(s[:n])}"
        for (seq, m), s, n in zip(records, sentences, taken, strict=True)
        if n
    )


def extractive(records: Sequence[Record], budget: int) -> str:
    """The summarizer under test."""
    return extract(records, budget_tokens=budget, count=_count)


STRATEGIES: dict[str, Strategy] = {"window": window, "lead": lead, "extract": extractive}


# --- chat: questions about old turns ----------------------------------------------------------


@functools.lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    return str(_stemmer.stemWord(word))


@functools.lru_cache(maxsize=20_000)
def stems(text: str) -> frozenset[str]:
    """Lower-case words and numbers, number words as digits, stop words gone, Snowball stems."""
    words = (_DIGITS.get(w, w) for w in _WORD.findall(text.lower().replace("’", "'")))
    return frozenset(_stem(w) for w in words if w not in _STOP)


def kept_by_seq(summary: str) -> Kept:
    """The text kept from each message, read from the seq each line opens with."""
    kept: Kept = {}
    for line in summary.split("\n"):
        if match := _LINE.match(line):
            seq = int(match[1])
            kept[seq] = f"{kept.get(seq, '')} {line[match.end() :].split(':', 1)[-1]}"
    return kept


@dataclass(slots=True)
class Mean:
    """A running mean."""

    total: float = 0.0
    n: int = 0

    def add(self, value: float, weight: int = 1) -> None:
        """Counts `value`, out of `weight`."""
        self.total += value
        self.n += weight

    def __str__(self) -> str:
        return f"{self.total / self.n:.3f}" if self.n else "  -  "


def score_question(
    question: Mapping[str, Any], texts: Sequence[str], kept: Kept, means: Mapping[str, Mean]
) -> None:
    """Adds one question's ECR, EV and, if its answer is in its evidence, AER."""
    evidence = [(i, stems(texts[i])) for i in question["evidence"] if stems(texts[i])]
    if not evidence:
        return
    recalls = [len(full & stems(kept.get(i, ""))) / len(full) for i, full in evidence]
    means["ECR"].add(sum(recalls) / len(recalls))
    means["EV"].add(min(recalls) >= 0.7)
    answer = stems(str(question["answer"]))
    present = answer & frozenset[str]().union(*(full for _, full in evidence))
    if present and len(present) >= 0.5 * len(answer):
        survived = frozenset[str]().union(*(stems(kept.get(i, "")) for i, _ in evidence))
        means["AER"].add(present <= survived)


def chat(
    conversations: Sequence[Mapping[str, Any]], strategy: Strategy, share: float
) -> dict[str, Mean]:
    """ECR, EV and AER over every question with evidence (LoCoMo: categories 1 to 4)."""
    means = {"ECR": Mean(), "EV": Mean(), "AER": Mean()}
    for conversation in conversations:
        records = list(enumerate(conversation["messages"]))
        texts = [text_of(message) for _, message in records]
        kept = kept_by_seq(_fitted(strategy, records, share))
        for question in conversation.get("qa") or ():
            if question.get("category", 1) in {1, 2, 3, 4} and question["evidence"]:
                score_question(question, texts, kept, means)
    return means


def _fitted(strategy: Strategy, records: Sequence[Record], share: float) -> str:
    budget = int(share * _count(rendered(records)))
    summary = strategy(records, budget)
    if _count(summary) > budget:
        raise AssertionError(f"{_count(summary)} tokens exceed the budget of {budget}")
    return summary


# --- tools: values the tail still needs --------------------------------------------------------

_TAU = {
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
_TAU_ENTITY = re.compile("|".join(f"(?P<{kind}>{rule})" for kind, rule in _TAU.items()))
_CODE_ENTITY = re.compile(
    r"(?P<path>(?:[\w.-]+/)+[\w.-]+\w|\b\w+\.(?:py|js|ts|c|h|go|rs|md|toml|json|txt|cfg|yml)\b)"
    r"|(?P<name>\b[a-z]+(?:_[a-z0-9]+)+\b|\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b)"
)

Entity = tuple[str, str]
Find = Callable[[str], list[tuple[Entity, int]]]


def by_pattern(pattern: re.Pattern[str]) -> Find:
    """Finds `((type, value), offset)`; amounts lose their `$`, paths their leading `./`."""

    def find(text: str) -> list[tuple[Entity, int]]:
        return [
            ((str(m.lastgroup), m[0].lstrip("$").removeprefix("./")), m.start())
            for m in pattern.finditer(text)
        ]

    return find


def call_values(message: Mapping[str, Any]) -> Iterator[str]:
    """The string arguments, but for flags, of a message's calls, as lower-case text."""
    for call in message.get("tool_calls") or ():
        arguments = json.loads(call["function"]["arguments"] or "{}")
        for value in arguments.values():
            if isinstance(value, str) and len(value) > 2 and value not in {"True", "False"}:
                yield str(value).lower()


def halves(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Record], list[Mapping[str, Any]]]:
    """Head (60 % of the non-system messages, cut moved back off tool results) and tail."""
    spoken = [m for m in messages if m["role"] != "system"]
    cut = int(0.6 * len(spoken))
    while 0 < cut < len(spoken) and spoken[cut]["role"] == "tool":
        cut -= 1
    return list(enumerate(spoken[:cut], 1)), spoken[cut:]


def needed(
    head: str, tail: Sequence[Mapping[str, Any]], system: str, uses: Callable[[Any], set[str]]
) -> set[str]:
    """Values an assistant message in the tail uses that only the head has introduced."""
    wanted: set[str] = set()
    seen = system
    for message in tail:
        if message["role"] == "assistant":
            wanted |= {v for v in uses(message) if _has(head, v) and not _has(seen, v)}
        seen = f"{seen}\n{text_of(message).lower()}"
    return wanted


def _has(text: str, value: str) -> bool:
    """Whether `value` stands in `text` as a whole word; both are lower case."""
    start = text.find(value)
    while start >= 0:
        end = start + len(value)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() and value[0].isalnum()) and not after.isalnum():
            return True
        start = text.find(value, start + 1)
    return False


def associated(value: str, summary: str, sources: Sequence[str], find: Find) -> bool:
    """Whether `value` stands on a line near two things it stood with in one source record."""
    companions = [(stems(s), {e for e, _ in find(s)}) for s in sources if _has(s.lower(), value)]
    for line in summary.split("\n"):
        body = line.split(":", 1)[-1] if _LINE.match(line) else line
        at = body.lower().find(value)
        if at < 0 or not _has(body.lower(), value):
            continue
        near = body[max(0, at - 120) : at + len(value) + 120]
        own = {kind for (kind, v), _ in find(near) if v.lower() == value}
        others = {e for e, _ in find(near) if e[0] not in own}
        words = stems(near) - stems(value)
        if any(len(words & w) + len(others & e) >= 2 for w, e in companions):
            return True
    return False


def tools(
    conversations: Sequence[Mapping[str, Any]], strategy: Strategy, share: float, find: Find | None
) -> dict[str, Mean]:
    """FUR, all and AFUR. `find` names the values; without it they are the call arguments."""
    means = {"FUR": Mean(), "all": Mean(), "AFUR": Mean()}

    def uses(message: Mapping[str, Any]) -> set[str]:
        if find is None:
            return set(call_values(message))
        return {value.lower() for (_, value), _ in find(text_of(message))}

    for conversation in conversations:
        messages = conversation["messages"]
        system = "\n".join(text_of(m) for m in messages if m["role"] == "system").lower()
        head, tail = halves(messages)
        sources = [text_of(m) for _, m in head]
        wanted = needed("\n".join(sources).lower(), tail, system, uses)
        if not wanted:
            continue
        summary = _fitted(strategy, head, share)
        present = {v for v in wanted if _has(summary.lower(), v)}
        means["FUR"].add(len(present), len(wanted))
        means["all"].add(present == wanted)
        look = find or by_pattern(_TAU_ENTITY)
        near = sum(associated(v, summary, sources, look) for v in sorted(present))
        means["AFUR"].add(near, len(wanted))
    return means


# --- the table ---------------------------------------------------------------------------------


def load(folder: Path, name: str) -> list[dict[str, Any]]:
    """The conversations of one file."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def measure(
    name: str, conversations: Sequence[Mapping[str, Any]], strategy: Strategy, share: float
) -> dict[str, Mean]:
    """The metrics that belong to the data set called `name`."""
    if name in {"locomo", "bfcl_memory"}:
        return chat(conversations, strategy, share)
    patterns = {"tau": by_pattern(_TAU_ENTITY), "coding": by_pattern(_CODE_ENTITY), "sgd": None}
    return tools(conversations, strategy, share, patterns[name])


def main(argv: Sequence[str] | None = None) -> None:
    """Prints one row per data set and strategy, one column per metric and budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=float, nargs="+", default=[0.1, 0.2, 0.4])
    parser.add_argument("--strategy", nargs="+", default=list(STRATEGIES), choices=STRATEGIES)
    names = ["locomo", "bfcl_memory", "tau", "sgd", "coding"]
    parser.add_argument("--only", nargs="+", default=names, choices=names)
    options = parser.parse_args(argv)
    shares = options.budget
    print(f"budgets: {' / '.join(f'{share:.0%}' for share in shares)} of the compacted tokens")
    for name in options.only:
        conversations = load(options.folder, name)
        for strategy in options.strategy:
            started = time.perf_counter()
            results = [measure(name, conversations, STRATEGIES[strategy], s) for s in shares]
            took = time.perf_counter() - started
            cells = (f"{m} {'/'.join(str(r[m]) for r in results)}" for m in results[0])
            size = next(iter(results[0].values())).n
            print(f"{name:<12} {strategy:<8} n={size:<5} {'  '.join(cells)}  {took:.1f}s")


if __name__ == "__main__":
    main()
