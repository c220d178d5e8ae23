"""Blanks what a message only quotes: code, mail, tags, transcripts; linear in its length."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from functools import lru_cache
from typing import Final

__all__ = ["own_words"]

_FENCE = re.compile(r"(```|~~~)")
# A paragraph that no programming language would take.
_PROSE = re.compile(r"\n[ ]*\n(?=[A-Z][\w']* [a-z][^\n={}<>;()\[\]]{12,}(?:[.!?:]|\n|$))")
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]{0,40})(?:\s[^<>]{0,200})?>")
_OWN_TAGS = re.compile(r"rule|instruction|preference|constraint|requirement|task|user_query")
_QUOTE = re.compile(
    r'"[^"\n]{1,400}"|“[^”\n]{1,400}”|«[^»\n]{1,400}»|„[^“”\n]{1,400}[“”]'
    r"|「[^「」\n]{1,400}」|『[^『』\n]{1,400}』"
)
# Over several lines, from the start of one to the end of another.
_BLOCK_QUOTE = re.compile(
    r'^[ \t]*(?:"[^"]{1,8000}"|“[^“”]{1,8000}”|„[^„“”]{1,8000}[“”])[.,;]?[ \t]*$', re.MULTILINE
)
_BANNER = re.compile(r"^[-=*#]{3,}[ \t]*([^\n]{3,60}?)[ \t]*[-=*#]{3,}[ \t]*$", re.MULTILINE)
_OWN_BANNERS = re.compile(r"task|instruction|rule|question", re.IGNORECASE)
_FORWARDED = re.compile(
    r"^(?:-{2,} ?(?:original|forwarded) message|begin forwarded message"
    r"|(?:on|am|le|el|il|em|op) [^\n]{5,120}(?:wrote|schrieb[^\n]{0,40}|a écrit|escribió"
    r"|ha scritto|escreveu|schreef)\s?[^\n]{0,40}:[ \t]*$"
    r"|(?:from|von|de|da|van): ?[^\n]{2,120}\n(?:to|sent|date|subject|an|gesendet|betreff|objet"
    r"|à|para|asunto|a|oggetto|assunto|aan|onderwerp)\b)",
    re.IGNORECASE | re.MULTILINE,
)
# Two words of a line that says that what follows was written by somebody else.
_HANDED = re.compile(
    r"\b(?:here(?:'s| is| are)|below|following|this is|got|received|attached|past(?:ed|e|ing)"
    r"|copied|forward(?:ed|ing)?|says?|said|reads?|wrote|shows?|returned|printed|hier ist|voici"
    r"|ecco|aquí está|aqui está)\b",
    re.IGNORECASE,
)
_WRITTEN = re.compile(
    r"\b(?:e-?mails?|mails?|messages?|texts?|articles?|posts?|letters?|reviews?|logs?|outputs?"
    r"|readme|docs?|documentation|documents?|descriptions?|templates?|prompts?|excerpts?|pages?"
    r"|transcripts?|quotes?|passages?|paragraphs?|comments?|tickets?|replies|reply|responses?"
    r"|nachricht|texte|messaggio|mensaje|mensagem|errors?)\b",
    re.IGNORECASE,
)
_POINTED = re.compile(r"\b(?:this|these|my|his|her|their|the)\b", re.IGNORECASE)
_ORDERED = re.compile(r"\b(?:every|each|all|always|your)\b", re.IGNORECASE)
_LAST_WORDS: Final = 40
_COLON = re.compile(r":[ ]*\n")
_LONGEST_LINE: Final = 300
_RESUMED = re.compile(
    r"^[#*\s]{0,6}(?:[a-z]{1,12} )?(?:instructions?|rules?|requirements?|notes?|task|preferences?"
    r"|constraints?|question)\b[^\n]{0,20}:",
    re.IGNORECASE | re.MULTILINE,
)
_COLONS = re.compile(r":[ \t]+(?=[^\n])")
_REPORTERS: Final = frozenset(
    [
        "said",
        "says",
        "wrote",
        "writes",
        "replied",
        "reads",
        "states",
        "stated",
        "demands",
        "quote",
        "user",
        "assistant",
        "system",
        "tool",
        "human",
    ]
)
_WORD_BEFORE = re.compile(r"\b(\w+)\s?$")
_LONGEST_WORD: Final = 12
_LINES: Final = re.compile(
    r"^(?:[ \t]*>[^\n]*"  # quoted mail
    r"|[ \t]*\d{1,6}[:|][^\n]*|[ \t]*[+-]{3} [^\n]*|[ \t]*@@[^\n]*|diff --git[^\n]*"
    r"|[ \t]*[{}\[\]][^\n]*|[ \t]*\"[^\"\n]{1,80}\":[^\n]*"  # data
    r"|[ \t]*(?:def|class|import|return|const|let|var|function|#include|public|private|assert"
    r"|raise|elif|select|insert|update)\b[^\n]*[(=:;)\"'][^\n]*"
    r"|[ \t]*(?:\$|#|//|/\*|\w+@[\w.-]+:[^\n]{0,60}\$) ?[a-z./-][^\n]*"  # commands, comments
    r"|[ \t]*(?:#+ ?(?:NOTE|TODO|FIXME|XXX|HACK)\b|\[?(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL"
    r"|TRACE|warn|error"
    r"|info|debug)\b[\]: ])[^\n]*"
    r"|[ \t]*(?:Traceback|File \"|\w{2,40}(?:[Ee]rror|[Ee]xception):)[^\n]*)$",
    re.MULTILINE,
)


_STATEMENTS: Final = re.compile(r"^[^\n]{0,500}[{};][ \t]*$", re.MULTILINE)
"""Lines of code by their ends; looked for only where there are such ends."""


def own_words(text: str) -> str:
    """`text` with everything quoted replaced by underscores or spaces; of the same length."""
    return _remembered(text) if len(text) <= _SHORT else _own_words(text)


def _own_words(text: str) -> str:
    text = text.replace("’", "'").replace("\r", "\n").replace("\t", " ")
    if "```" in text or "~~~" in text:
        text = _without_fences(text)
    if "</" in text:
        text = _without_tags(text)
    if "---" in text or "===" in text or "***" in text:
        text = _without_banners(text)
    if "\n" in text:
        text = _BLOCK_QUOTE.sub(lambda quote: _spaces(quote[0]), text)
    text = _without_sent(text)
    text = _LINES.sub(_blank, text)
    if ";" in text or "{" in text or "}" in text:
        text = _STATEMENTS.sub(_blank, text)
    return _QUOTE.sub(_held, text) if '"' in text or not text.isascii() else text


_SHORT: Final = 4_000
_remembered = lru_cache(maxsize=2_048)(_own_words)
"""Rules and requests are looked for in the same turns."""


def _without_fences(text: str) -> str:
    """Without what stands between fences; one left open ends where prose begins again."""
    parts = _FENCE.split(text)
    inside, last = "", 0
    for at, part in enumerate(parts):
        if part in {"```", "~~~"} and inside in {"", part}:
            inside, last = ("" if inside else part), at
            parts[at] = "___"
        elif inside:
            parts[at] = _spaces(part)
    if inside:
        rest = text[len("".join(parts[: last + 1])) :]
        prose = _PROSE.search(rest)
        end = prose.end() if prose else len(rest)
        parts[last + 1 :] = [_spaces(rest[:end]), rest[end:]]
    return "".join(parts)


def _without_tags(text: str) -> str:
    """Without what stands between an opening tag and the next closing one of its name."""
    tags = list(_TAG.finditer(text))
    closing: dict[str, list[int]] = defaultdict(list)
    for tag in tags:
        if tag[1]:
            closing[tag[2]].append(tag.start())
    parts, done = [], 0
    for tag in tags:
        ends = closing[tag[2]]
        at = bisect_left(ends, tag.end())
        if tag[1] or tag.start() < done or at == len(ends) or _OWN_TAGS.search(tag[2].lower()):
            continue
        parts += [text[done : tag.end()], _spaces(text[tag.end() : ends[at]])]
        done = ends[at]
    return "".join([*parts, text[done:]])


def _without_banners(text: str) -> str:
    """Without what stands between ``--- SAMPLE ---`` and ``--- END OF SAMPLE ---``."""
    parts, done, opened = [], 0, -1
    for banner in _BANNER.finditer(text):
        if banner[1].lower().startswith("end"):
            if opened >= 0:
                parts += [text[done:opened], _spaces(text[opened : banner.start()])]
                done = banner.start()
            opened = -1
        elif opened < 0 and not _OWN_BANNERS.search(banner[1]):
            opened = banner.end()
    return "".join([*parts, text[done:]])


def _without_sent(text: str) -> str:
    """Without forwarded mail, and without what a line says that somebody else wrote."""
    if found := _FORWARDED.search(text):
        text = text[: found.start()] + _spaces(text[found.start() :])
    for colon in _COLON.finditer(text):
        first = max(colon.start() - _LONGEST_LINE, 0)
        line = text[first : colon.start()].rpartition("\n")[2]
        # Fenced or tagged, it is blank already, and what follows is the user's own again.
        follows = text[colon.end() : colon.end() + _LONGEST_LINE].lstrip()[:1]
        if _hands_over(line) and follows not in {"", "_", "<", ">"}:
            text = _without_rest(text, colon.end())
            break
    return _without_reported(text)


def _without_reported(text: str) -> str:
    """Without the rest of a line behind "she said:", however many such there are."""
    parts, done = [], 0
    for colon in _COLONS.finditer(text):
        start = colon.start()
        if start < done:
            continue
        word = _WORD_BEFORE.search(text, max(start - _LONGEST_WORD, done), start)
        if word and word[1].lower() in _REPORTERS:
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            parts += [text[done : word.start()], _hold(text[word.start() : end])]
            done = end
    return "".join([*parts, text[done:]]) if parts else text


def _hands_over(line: str) -> bool:
    """Whether a line that ends in a colon says that somebody else's words follow."""
    if not _WRITTEN.search(line) or _ORDERED.search(line):
        return False
    return bool(_HANDED.search(line) or _POINTED.search(line[-_LAST_WORDS:]))


def _without_rest(text: str, at: int) -> str:
    """Without what follows there, up to a heading that says that the user goes on."""
    back = _RESUMED.search(text, at)
    end = back.start() if back else len(text)
    return text[:at] + _spaces(text[at:end]) + text[end:]


def _spaces(text: str) -> str:
    return "\n".join(" " * len(line) for line in text.split("\n"))


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _held(found: re.Match[str]) -> str:
    return _hold(found[0])


def _hold(said: str) -> str:
    """As one long word, which no sentence can end in and no cue can be found in."""
    ended = said[-2:-1] in {".", "!", "?"}
    return "_" * (len(said) - 1) + ("." if ended else "_")
