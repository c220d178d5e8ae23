"""What a user calls a rule: "House rule: shoes off", whatever the words behind the colon are."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from turnmill.rules.clauses import Span
from turnmill.rules.kinds import Kind

__all__ = ["Declared", "declared"]

# At most two words say which: "hard constraint", "my dietary restrictions".
_LABEL = re.compile(
    r"\W{0,4}(?:(?!this\b|that\b|these\b|those\b|the\b|what|which)[^\W\d_][\w'-]{0,20} ){0,2}?"
    r"(?:(?P<wish>preferences?|préférences?|preferencias?|preferenz[ae]|preferências?"
    r"|wunsch|wünsche|voorkeur(?:en)?)"
    r"|rules?|constraints?|restrictions?|prohibitions?"
    r"|regeln?|vorgaben?|einschränkung(?:en)?"
    r"|règles?|contraintes?|reglas?|restricci(?:ón|ones)|regol[ae]|vincol[io]|regras?"
    r"|restriç(?:ão|ões)|regels?|beperking(?:en)?)"
    r"(?: \d{1,2})?[*_]{0,2}\s?:[*_]{0,2} +(?=\S)"
)
_LONGEST: Final = 240
"""In characters. What is longer is a text under a heading, and is read as any other."""


class Declared(NamedTuple):
    """A line that is called a rule: the words behind the label, and what it is called."""

    span: Span
    kind: Kind


def declared(low: str, start: int) -> Declared | None:
    """The rule that is declared in the line that starts there, or ``None``; in lower case."""
    label = _LABEL.match(low, start, start + _LONGEST)
    if label is None:
        return None
    end = low.find("\n", start)
    end = len(low) if end < 0 else end
    said = low[label.end() : end].rstrip()
    if not 0 < len(said) <= _LONGEST or "?" in said or "_" * 3 in said:
        return None
    kind = Kind.PREFERENCE if label["wish"] else Kind.COMMAND
    return Declared(Span(label.end(), label.end() + len(said)), kind)
