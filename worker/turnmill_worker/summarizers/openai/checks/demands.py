"""Which lines of a summary say what the user demands, and whether the user did."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Final

from turnmill_worker.reading.asking import told
from turnmill_worker.summarizers.openai.checks.section_parser import (
    CONSTRAINTS,
    GOAL,
    Parsed,
    lines_of,
    parse,
)

_SYNTAX = re.compile(r"\\.|\(\?P[<=]")


class AnyCase:
    """A pattern written in lower case, for texts in any.

    Without a case to ignore, ``re`` passes over a branch by its first letter. In ASCII, a text in
    lower case has each letter in the same place. So a match tells places and groups that are there,
    but its words are in lower case: those of the text stand in the same places.
    """

    __slots__ = ("_exact", "_ignoring")

    def __init__(self, pattern: str) -> None:
        """Compile it; ValueError for one that has capitals."""
        plain = _SYNTAX.sub("", pattern)
        if plain != plain.lower():
            raise ValueError(f"{pattern!r} has capitals")
        self._exact = re.compile(pattern)
        self._ignoring = re.compile(pattern, re.IGNORECASE)

    def search(self, text: str) -> re.Match[str] | None:
        """As of a compiled pattern."""
        pattern, text = self._for(text)
        return pattern.search(text)

    def match(self, text: str) -> re.Match[str] | None:
        """As of a compiled pattern."""
        pattern, text = self._for(text)
        return pattern.match(text)

    def matcher(self, text: str) -> Callable[[int], re.Match[str] | None]:
        """What matches from one place of the text or another."""
        pattern, text = self._for(text)
        return partial(pattern.match, text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As of a compiled pattern."""
        pattern, text = self._for(text)
        return pattern.fullmatch(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """As of a compiled pattern."""
        pattern, text = self._for(text)
        return pattern.finditer(text)

    def sub(self, word: str, text: str) -> str:
        """The text with a word in the place of each match."""
        parts: list[str] = []
        at = 0
        for found in self.finditer(text):
            parts += (text[at : found.start()], word)
            at = found.end()
        return "".join([*parts, text[at:]])

    def _for(self, text: str) -> tuple[re.Pattern[str], str]:
        """Which pattern reads a text, and the text as it reads it."""
        return (self._exact, text.lower()) if text.isascii() else (self._ignoring, text)


_USER: Final = (
    r"(?:(?<!your )(?<!their )user|(?:be)?nutzer|anwender|utilisat(?:eur|rice)|usuari[oa]"
    r"|usuári[oa]|utilizador|utente|gebruiker|пользовател)\w*"
)
_DEMANDS: Final = (
    # English; "orders" and "ordered", but no order that was placed
    r"ask|want|wish|said|says|told|tell|instruct|requir|request|insist|demand|order(?:ed|s)\b|prefer"
    r"|authori|approv|allow|confirm|agree|consent|permi|grant|command|decid|would like|expects"
    r"|direct(?:ed|s)\b|gave (?:an? |the )?(?:order|permission)|forb[ai]d"
    # German
    r"|verlang|forder|wünsch|will\b|wollte|möchte|bittet?\b|bat\b|gebeten|sagt|besteh|beauftrag|erlaub"
    r"|anwies|angewiesen|angeordnet|genehmig|bestätig|zugestimmt|stimmt"
    # French, Spanish, Italian, Portuguese
    r"|veut|voul|souhait|exig|dit\b|ordonn|accept|pid(?:e|en|ió)\b|quier|quer[eií]|solicit|dese[aó]|orden(?:ó|a|ado)\b"
    r"|autori[zs]|dijo|dice\b|acept|chied|chiest|vuole|volev|richie|desider|ordin(?:a|ò|ato)\b|dett[oa]\b|conferm"
    r"|ped(?:e|iu|ido)\b|disse|desej|aceit"
    # Dutch, Russian
    r"|wil\b|wilde\b|vraag|vroeg|gevraagd|eist|verzoe|verzocht|zei\b|zegt|bevestig|opdracht"
    r"|прос|попрос|хочет|хотел|треб|потреб|вел[еи]|приказ|разреш|соглас|подтверд|сказал|наста"
)
_NAMED: Final = r"(?:用户|用戶|使用者|ユーザー?|利用者|사용자)"
_ASKING: Final = (
    r"(?:要求|想要|希望|指示|命令|同意|授权|授權|批准|允许|允許|[说說]|[请請]求|[坚堅]持|依頼|許可|承認|求め"
    r"|述べ|요청|요구|원하|지시|명령|동의|허락|승인|말)"
)
_WORDS: Final = AnyCase(
    rf"\b(?:(?P<user>{_USER})|(?P<demand>(?:{_DEMANDS})\w*))|{_NAMED}|{_ASKING}"
)
_REACH: Final = 80
"""Characters between the user and the demand, at most."""

_OTHERWISE: Final = AnyCase(
    r"\b(?:ask|want|request|requir|insist|demand|instruct|authori|approv|decid|command)\w*"
    r".{0,40}?\bby (?:the |our )?user\b"
    r"|\b(?:per|according to) (?:the |our )?user\b"
    r"|^(?:the )?user ?[:：]"
    rf"|{_NAMED}.{{0,20}}?{_ASKING}"
)
_PASSIVE: Final = AnyCase(
    r"\b(?:is|are|was|were|be|been) (?:not |then |also |only )?"
    r"(?:told|asked|instructed|required|requested|allowed|permitted|granted|directed)\b(?! by\b)"
)
"""What somebody else asked, told or granted the user."""

_CLAUSE_ENDS: Final = re.compile(
    r"[.:](?=\s|$)|[;(。；（]|,\s|[，、]"
    r"|\b(?:because|since|after|before|when|while|due to|although|though|which|who"
    r"|weil|nachdem|parce que|car|après|porque|tras|perché|dopo|omdat|nadat|потому)\b",
    re.IGNORECASE,
)
"""Where what is demanded ends, and what else is told about it begins."""

_COLONS: Final = (":", "：")
_CONTINUES: Final = re.compile(r"\s+(?![-*•]|\d{1,3}[.)])\S")


def constraints(parsed: Parsed) -> list[str]:
    """The lines that are demands of the user by their heading."""
    return lines_of(parsed.bodies.get(CONSTRAINTS, ""))


def attributed(parsed: Parsed) -> list[str]:
    """The lines elsewhere that say that the user demands something."""
    return [
        line
        for title, body in parsed.bodies.items()
        if title != CONSTRAINTS
        for line in _attributed(body)
    ]


def goals(parsed: Parsed) -> list[str]:
    """The lines that are other wishes of the user by their heading."""
    lines = lines_of(parsed.bodies.get(GOAL, ""))
    return [line for line in lines if not _says_so(line)]


def demands(summary: str) -> list[str]:
    """All lines of a summary that say what the user demands, whatever form it has."""
    parsed = parse(summary)
    parsed = parsed if parsed.bodies else Parsed(bodies={"": summary})
    return [*constraints(parsed), *goals(parsed), *attributed(parsed)]


def clauses(line: str) -> list[str]:
    """What such a line says the user demands, without what it tells of why, and what came of it.

    The whole line if its words do not come behind the user and a demand.
    """
    active = _PASSIVE.sub(" ", line)
    found = [
        active[word.end() : min(after, ends.start() if ends else after)]
        for word, after in _demands(active)
        for ends in (_CLAUSE_ENDS.search(active, word.end()),)
    ]
    return [clause for clause in found if len(clause.split()) > 1] or [line]


def demanded(line: str) -> str:
    """The line without words that only say that it is a demand, and whose."""
    return _WORDS.sub(" ", line)


def _attributed(body: str) -> Iterator[str]:
    announced = False
    for line in _items(body):
        says_so = _says_so(line)
        if line.startswith("#") or line.rstrip("*_ ").endswith(_COLONS):
            announced = says_so
        if says_so or announced:
            yield line


@lru_cache(maxsize=1 << 12)  # a summary carries on most lines of the one before
def _says_so(line: str) -> bool:
    active = _PASSIVE.sub(" ", line)
    return bool(_demands(active) or _OTHERWISE.search(active))


def _demands(active: str) -> list[tuple[re.Match[str], int]]:
    """The words that tell a demand of a user named before, and where the next of them begins."""
    named = -_REACH - 1
    found = []
    for word in _WORDS.finditer(active):
        if word["user"]:
            named = word.end()
        elif word["demand"] and word.start() - named <= _REACH:
            found.append(word)
    ends = (*(word.start() for word in found[1:]), len(active))
    return list(zip(found, ends, strict=False))


def _items(body: str) -> list[str]:
    """The body's lines without bullets; what is only the rest of an item is part of it."""
    items: list[str] = []
    for line in body.split("\n"):
        if items and _CONTINUES.match(line):
            items[-1] += f" {line.strip()}"
        else:
            items += lines_of(line)
    return items


LEAST_SUPPORT: Final = 0.5

LEAST_GOAL_SUPPORT: Final = 0.3
"""Of a line under Goal: there a model says in words of its own what many messages come to."""

LEAST_LINE_SUPPORT: Final = 0.25
"""Of the whole of a line elsewhere, which may tell why, too, and what came of a demand."""

_PASSAGE_TERMS: Final = 60
_SAYS = (
    "user asks asked asking wants wanted said says saying told tells instructs instructed requires "
    "required requests requested insists insisted demands demanded prefers preferred allows "
    "allowed authorized approved confirmed confirms agreed agrees must should needs need us"
)
_SAYING = frozenset(told(_SAYS))


class Said:
    """What the user said, and what an earlier summary says, to look up who said a line.

    Args:
        user: the user's messages.
        answered: messages the user answered: by a "yes", one agrees to what stands there.
        previous: the earlier summary; only what it says that the user demands was ever checked.
    """

    def __init__(
        self, user: Iterable[str], previous: str = "", answered: Iterable[str] = ()
    ) -> None:
        self._passages: list[frozenset[int]] = []
        self._where: defaultdict[int, list[int]] = defaultdict(list)
        self._add(chain(*map(_passages, user), _passages_by_line(demands(previous))))
        self._own = len(self._passages)
        self._add(chain(*map(_passages, answered)))

    def _add(self, passages: Iterable[frozenset[int]]) -> None:
        for passage in passages:
            for term in passage:
                self._where[term].append(len(self._passages))
            self._passages.append(passage)

    def support(self, line: str, *, answered: bool = False) -> float:
        """The line's support, from 0 to 1; 1 for a line without terms.

        ``answered``: by what the user answered, too.
        """
        wanted = frozenset(told(demanded(line))) - _SAYING
        if not wanted:
            return 1.0
        most = len(self._passages) if answered else self._own
        hits: defaultdict[int, int] = defaultdict(int)
        for term in wanted:
            for place in self._where.get(term, ()):
                if place < most:
                    hits[place] += 1
        if not hits:
            return 0.0
        best = max(hits, key=lambda place: (hits[place], place))
        rest = wanted - self._passages[best]
        more = max((len(rest & self._passages[place]) for place in hits), default=0)
        return (hits[best] + more) / len(wanted)

    def unsupported(self, lines: Sequence[str], least: float = LEAST_SUPPORT) -> int:
        """How many of the lines the user did not say."""
        return sum(self.support(line) < least for line in lines)

    def invented(self, lines: Sequence[str]) -> int:
        """How many of these lines tell a demand that the user neither made nor agreed to."""
        return sum(
            min(self.support(clause, answered=True) for clause in clauses(line)) < LEAST_SUPPORT
            or self.support(line, answered=True) < LEAST_LINE_SUPPORT
            for line in lines
        )


def _passages(text: str) -> Iterable[frozenset[int]]:
    """A message's terms in passages; cut at line ends, and within a line when it is long."""
    passage: set[int] = set()
    for line in text.split("\n"):
        terms = told(line)
        if passage and len(passage) + len(terms) > _PASSAGE_TERMS:
            yield frozenset(passage)
            passage = set()
        for start in range(0, len(terms), _PASSAGE_TERMS):
            passage |= set(terms[start : start + _PASSAGE_TERMS])
            if len(passage) >= _PASSAGE_TERMS:
                yield frozenset(passage)
                passage = set()
    if passage:
        yield frozenset(passage)


def _passages_by_line(lines: Iterable[str]) -> Iterable[frozenset[int]]:
    for line in lines:
        terms = frozenset(told(line))
        if terms:
            yield terms
