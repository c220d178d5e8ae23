"""The survival metrics: how much of what is asked or used later a compacted text still holds.

ECR   evidence content recall: share of an evidence turn's stems kept from that turn
EV    share of questions where every evidence turn keeps at least 70 % of its stems
AER   share of eligible questions whose answer stems all survive in the evidence turns
any   as AER, but anywhere in the text; inflated by chance
FUR   share of the values the tail uses, and only the head introduced, that are present
all   share of conversations in which every such value is present
AFUR  as FUR, and on one line within 120 characters of two companions from its source record
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnmill_cli.evaluate.entities import TAU, Find, Uses, by_pattern, uses
from turnmill_cli.evaluate.word_matching import LINE, Record, stands_in, stems, text_of

__all__ = [
    "HEAD_SHARE",
    "Mean",
    "associated",
    "chat_means",
    "halves",
    "needed",
    "needed_in",
    "score_question",
    "score_tools",
    "tools_means",
]

HEAD_SHARE = 0.6
_VISIBLE = 0.7
_ELIGIBLE = 0.5
_NEAR_CHARS = 120
_COMPANIONS = 2
_CATEGORIES = frozenset({1, 2, 3, 4})


@dataclass(slots=True)
class Mean:
    """A running mean."""

    total: float = 0.0
    n: int = 0

    def add(self, value: float, weight: int = 1) -> None:
        """Counts `value`, out of `weight`."""
        self.total += value
        self.n += weight

    @property
    def value(self) -> float | None:
        """The mean, or None of nothing."""
        return self.total / self.n if self.n else None

    def __str__(self) -> str:
        return f"{self.total / self.n:.3f}" if self.n else "  -  "


# --- chat: questions about old turns ----------------------------------------------------------


def chat_means() -> dict[str, Mean]:
    """Nothing counted yet."""
    return {"ECR": Mean(), "EV": Mean(), "AER": Mean(), "any": Mean()}


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


# --- tools: values the tail still needs --------------------------------------------------------


def tools_means() -> dict[str, Mean]:
    """Nothing counted yet."""
    return {"FUR": Mean(), "all": Mean(), "AFUR": Mean()}


def halves(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Record], list[Mapping[str, Any]]]:
    """Head (60 % of the non-system messages, cut moved back off tool results) and tail."""
    spoken = [m for m in messages if m["role"] != "system"]
    cut = int(HEAD_SHARE * len(spoken))
    while 0 < cut < len(spoken) and spoken[cut]["role"] == "tool":
        cut -= 1
    return list(enumerate(spoken[:cut], 1)), spoken[cut:]


def needed(head: str, tail: Sequence[Mapping[str, Any]], system: str, used: Uses) -> set[str]:
    """Values an assistant message in the tail uses that only the head has introduced."""
    wanted: set[str] = set()
    seen = system
    for message in tail:
        if message["role"] == "assistant":
            wanted |= {v for v in used(message) if stands_in(head, v) and not stands_in(seen, v)}
        seen = f"{seen}\n{text_of(message).lower()}"
    return wanted


def needed_in(messages: Sequence[Mapping[str, Any]], find: Find | None) -> set[str]:
    """The values this conversation's tail needs of its head."""
    system = "\n".join(text_of(m) for m in messages if m["role"] == "system").lower()
    head, tail = halves(messages)
    return needed("\n".join(text_of(m) for _, m in head).lower(), tail, system, uses(find))


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
