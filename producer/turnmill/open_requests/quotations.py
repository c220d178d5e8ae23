"""Which lines of a request are not demands: code, logs, examples, data; linear in its length."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["quotations"]

_FENCE = re.compile(r"\s*(```|~~~)")
_BANNER = re.compile(r"[-=*#]{3,}[ \t]*([A-Za-z][^\n]{1,60}?)[ \t]*[-=*#]{3,}[ \t]*")
_TAG = re.compile(r"\s*<(/?)([A-Za-z][\w-]{0,40})>\s*")
_SHOWN = re.compile(
    r"example|demonstration|demo\b|sample|format|log|output|trace|transcript|snippet|attach"
    r"|file_?cont|document|beispiel|exemple|ejemplo",
    re.IGNORECASE,
)
_HEADING = re.compile(r"\s{0,3}#{1,6} ([^\n]{0,80})")
_CODE = re.compile(
    r"\s*(?:"
    r"\d{1,6}[:|\t]|[+-]{3} \S|@@|diff --git|[{}\[\]()];?,?\s*$|\"[^\"]{1,80}\":"
    r"|(?:def|class|import|from|return|const|let|var|function|#include|public|private|assert|raise"
    r"|elif|if|for|while|try|except|else)\b.{0,200}[:({;]\s*$"
    r"|import \w|from [\w.]+ import|return\b.{0,80}$|\$ \S|>>> |Traceback \(|File \""
    r"|at \S{1,200}\(.{0,80}\)"
    r"|\w{2,40}(?:Error|Exception): "
    r"|[\w.\[\]]{1,60} ?[-+*]?= ?\S"
    r"|[\w.]{1,60}\(.{0,200}\);?\s*$"
    r"|.{0,300}[{};]\s*$"
    r"|[-drwx]{10}[ @+.]|\d{4}-\d\d-\d\d[ T]\d\d:"
    r")"
)
_LOOKED_AT: Final = 400


def quotations(lines: Sequence[str]) -> list[bool]:
    """For each line, whether it is quoted rather than said; empty lines are what is above them."""
    found: list[bool] = []
    closing = _last_marks(lines)
    fence = tag = banner = ""
    shown = before = False
    for at, line in enumerate(lines):
        text = line[:_LOOKED_AT]
        quoted = bool(fence or tag or banner)
        if not fence and (heading := _HEADING.match(text)):
            shown = bool(_SHOWN.search(heading[1]))
        if (mark := _FENCE.match(text)) and (fence or at < closing[mark[1]]):
            quoted = True
            fence = mark[1] if not fence else "" if fence == mark[1] else fence
        elif not fence and (mark := _TAG.fullmatch(text)):
            if mark[1]:
                tag = "" if mark[2] == tag else tag
            elif not tag and _SHOWN.search(mark[2]) and at < closing.get(mark[2], 0):
                tag, quoted = mark[2], True
        elif not fence and (mark := _BANNER.fullmatch(text)):
            names = bool(_SHOWN.search(mark[1]))
            quoted = quoted or names
            banner = mark[1] if names and not mark[1].lower().startswith("end") else ""
        quoted = quoted or shown or bool(_CODE.match(text))
        before = quoted if line.strip() else before
        found.append(before if not line.strip() else quoted)
    return found


def _last_marks(lines: Sequence[str]) -> dict[str, int]:
    """The last line with each kind of fence and closing tag: what nothing closes opens nothing."""
    last: dict[str, int] = {}
    for at, line in enumerate(lines):
        text = line[:_LOOKED_AT]
        if mark := _FENCE.match(text):
            last[mark[1]] = at
        elif (mark := _TAG.fullmatch(text)) and mark[1]:
            last[mark[2]] = at
    return last
