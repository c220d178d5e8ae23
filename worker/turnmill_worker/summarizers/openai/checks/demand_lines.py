"""Which lines of a summary say what the user demands.

A line does when it names the user and a demand, in whatever order its language puts them, or when
it stands below a line that announces such lines. Words of ten languages are known; in others, and
where nobody is named ("they insist"), only the sections that are the user's by their heading count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from turnmill_worker.summarizers.openai.checks.any_case import AnyCase
from turnmill_worker.summarizers.openai.checks.section_parser import (
    CONSTRAINTS,
    GOAL,
    Parsed,
    lines_of,
    parse,
)

__all__ = ["attributed", "clauses", "constraints", "demanded", "demands", "goals"]

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
