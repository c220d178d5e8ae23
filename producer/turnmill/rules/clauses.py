"""Cuts the user's words into sentences and clauses, each with its place; linear."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from turnmill.rules.wording.lexicon import words

__all__ = ["UNSPACED", "Span", "clauses", "is_abbreviated", "is_ordinal", "lowered", "sentences"]

UNSPACED: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Japanese, Chinese and Korean: each of these characters counts as a word."""

LONGEST: Final = 1000
"""No sentence is read in one piece beyond this many characters."""

# A line that goes on in lower case belongs to the line before: somebody's editor wrapped it.
_WRAPPED = re.compile(r"\n(?<=[a-z,]\n)(?<=[^\n]{50}\n)(?=[a-z])(?!\w{1,20}:)")
# Many write no capitals: then a mark behind a word of three letters ends a sentence.
_ENDS = re.compile(
    r"(?<![.!?…])[.!?…]+[\"'”»)_]*\s+(?=[^\sa-z])|[.!?](?<=[a-z\d)]{2}[.!?])\s+(?=[a-z])|\n\s*|[。！？]+"
)
_ABBREVIATED = re.compile(
    r"\b(?:mr|mrs|ms|dr|st|nr|vs|prof|e\.g|i\.e|z\.b|p\.ej|p\.ex|bijv|approx|ca|inc|etc|min|max"
    r"|fig|est|dept|incl|excl|resp|esp|usw|[a-z])\.$",
    re.IGNORECASE,
)
# "Am 15. April", "3. OG": many languages write ordinals so, and a sentence goes on behind them.
_ORDINAL = re.compile(r"(?<![\d.,])\d{1,2}\.$")
_ORDERED = re.compile(
    r"(?:januar[iy]?|jänner|februar[iy]?|märz|maart|marts|mars|april|mai|mei|maj|jun[iy]|jul[iy]"
    r"|august(?:us)?|september|o[kc]tober|november|de[zc]ember|[eoud]g|stock(?:werk)?|etage|klasse"
    r"|semester|quartal|halbjahr|jahrhundert|lebensjahr|geburtstag|ssw|kapitel|platz)\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*(?:(?:[-*•‣–—+>#]+|\(?\d{1,3}[.)]|\(?[a-z]\)|\[[ x]?\])\s+){1,3}")

_SUBJECT: Final = (
    r"(?:i|i'm|i've|i'd|i'll|we|we're|we've|we'll|you|you're|you'll|he|she|they|they're|it's"
    r"|there's|here's|that's|can you|could you|would you|will you|can we|should i|should we|do i"
    r"|do you|how|what|what's|why|which one|where|who|is there|are there|is it"
    r"|please\s+\w|let's|ich"
    r"|wir|ihr|kannst|können|könnten|je|j'ai|j'aimerais|nous|peux|pouvez|pourriez|puedes|podrías"
    r"|quiero|puoi|potresti|vorrei|eu|você|pode|poderia|ik|wij|kun|kunt|wil)\b"
)
_JOINED = re.compile(
    rf"(?:,|;|\s[–—-]+)\s+(?:(?:and|but|so|or|then|also|plus|yet|und|aber|et|mais|y|pero|e|ma|mas"
    rf"|en|maar)\s+)?(?={_SUBJECT})"
    rf"|\s(?:and|but|so|und|aber|et|mais|y|pero|en|maar)\s(?={_SUBJECT})"
    r"|,\s+so\s+(?!that\b|much\b|many\b|far\b|long\b|as\b|on\b)(?=\w)"
    r"|\sso\s(?=(?:no|nothing|nobody|never|always|only|don't|please|keep|plan|leave|make sure"
    r"|assume|use|avoid|skip|limit|stick|every|all|any|anything)\b)"
    r"|,\s+(?:so|and so|but)\s+(?=(?:no|nothing|nobody|no one|never|always|only|don't|do not"
    r"|please)\b)"
    r"|;\s+|\s[–—]+\s|\s--?\s"
    r"|,\s+(?:considering|given that|especially since|especially because)\s"
)
# A clause that opens with one of these says when, where or why the next one holds.
_OPENS: Final = words(
    "when whenever if before after while once unless until since because as although though for "
    "in on at during with without every each any from given like wenn falls bevor nachdem sobald "
    "bei für quand lorsque si avant après dès pour cuando antes después para quando prima dopo se "
    "depois als wanneer voordat voor"
)
_FIRST = re.compile(r"\s*(?:(?:and|but|so|also|then|ok|okay|please|hi|hey)\b,?\s*)*([^\W\d_]+)")


class Span(NamedTuple):
    """A piece of a text by its characters."""

    start: int
    end: int


def lowered(text: str) -> str:
    """`text` in lower case, character for character."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def sentences(text: str) -> list[Span]:
    """The sentences, lines and items of a text, without the marks of a list."""
    found: list[Span] = []
    start = 0
    joined = _WRAPPED.sub(" ", text) if "\n" in text else text
    for end in _ENDS.finditer(joined):
        if end[0][0] == "." and _is_shortened(text, start, end):
            continue
        _add(found, text, start, end.end())
        start = end.end()
    _add(found, text, start, len(text))
    return found


def _is_shortened(text: str, start: int, end: re.Match[str]) -> bool:
    """Whether a full stop ends no sentence: "approx. 5", "no. 7", but not "a no. Then"."""
    at = end.start()
    before, after = text[max(start, at - 8) : at + 1], text[end.end() : end.end() + 16]
    if is_abbreviated(before) or is_ordinal(before, after):
        return True
    return text[max(start, at - 2) : at].lower() == "no" and after[:1].isdigit()


def is_abbreviated(before: str) -> bool:
    """Whether the full stop at the end of a text only shortens its last word."""
    return _ABBREVIATED.search(before, max(0, len(before) - 9)) is not None


def is_ordinal(before: str, after: str) -> bool:
    """Whether a number at the end of a text is an ordinal of what comes after: "15." of "April"."""
    return bool(_ORDINAL.search(before) and _ORDERED.match(after))


def _add(found: list[Span], text: str, start: int, end: int) -> None:
    """Adds what stands there, if anything does; in pieces if nobody could read it in one."""
    piece = text[start:end].lstrip()
    start, piece = end - len(piece), piece.rstrip()
    end = start + len(piece)
    if not piece[:2].isalpha() and (bullet := _BULLET.match(text, start, min(end, start + 40))):
        start = bullet.end()
    while end - start > LONGEST:
        cut = text.rfind(" ", start + LONGEST // 2, start + LONGEST)
        cut = cut if cut > 0 else start + LONGEST
        found.append(Span(start, cut))
        start = cut
    if start < end:
        found.append(Span(start, end))


def clauses(low: str, sentence: Span) -> list[Span]:
    """The clauses of a sentence of this lower-case text; a condition stays with what it rules."""
    if asked := _ASKED_LAST.match(low, *sentence):
        return [*_cut(low, Span(*asked.span(1))), _stripped(low, Span(*asked.span(2)))]
    return _cut(low, sentence)


def _cut(low: str, sentence: Span) -> list[Span]:
    if sentence.end - sentence.start < _SHORT and not low.endswith("?", *sentence):
        return [sentence]
    found: list[Span] = []
    start = skipped = sentence.start
    for joint in _JOINED.finditer(low, sentence.start, sentence.end):
        if joint.start() - start < _LEAST:
            continue
        if skipped == start and _leads(low, start, joint.start()):
            skipped = joint.start()
            continue
        found.append(Span(start, joint.start()))
        start = skipped = joint.start()
    found.append(Span(start, sentence.end))
    return [_stripped(low, span) for span in found]


# "Ich habe Zöliakie, was kann ich kochen?": what is asked stands behind the last comma.
_ASKING: Final = (
    r"was|wie|wo|wann|warum|welche[rns]?|que|qué|quién|cómo|dónde|cuál|cuánt\w+|quel\w*|comment|où"
    r"|combien|pourquoi|cosa|come|quale|dove|qual|como|onde|quanto|wat|hoe|waar|welke|что|как|где"
    r"|какой|какие|сколько|почему"
)
_ASKED_LAST = re.compile(
    rf"([^\n]{{3,}})(?:,\s+(?=(?:{_ASKING})\b)"
    rf"|(?<=[{UNSPACED}])[，、；,])([^，、；,\n]+(?:[？?]|[か吗嗎呢]。?))$"
)
_LEAST: Final = 3
_SHORT: Final = 24
_LEADING: Final = 160
_JOINTS = re.compile(
    r"(?:[\s,;–—-]+(?:(?:and|but|so|or|then|also|plus|yet|und|aber|et|mais|y|pero|e|ma|mas|en|maar"
    r"|considering|given that|especially since|especially because)\s+)?)"
)


def _leads(low: str, start: int, end: int) -> bool:
    """Whether this piece is only the condition of the next."""
    first = _FIRST.match(low, start, end)
    return first is not None and first[1] in _OPENS and end - start < _LEADING


def _stripped(low: str, span: Span) -> Span:
    start, end = span
    if joint := _JOINTS.match(low, start, end):
        start = joint.end()
    while end > start and low[end - 1] in " ,;–—-":
        end -= 1
    return Span(min(start, end), end)
