"""How an order is of each of a kind, or of all that is said; data only."""

from __future__ import annotations

import re
from typing import Final

from turnmill.rules.wording.things import GENERIC, OUTPUTS

__all__ = ["ALL", "EVERY", "SHOWN", "WHEN_YOU"]

SINGULAR: Final = r"(?<=[a-z]{3})s(?=\||$)"
_ONE_OF: Final = f"{GENERIC}|{re.sub(SINGULAR, 's?', OUTPUTS)}"
EVERY = re.compile(
    rf"\b(?:every|each)\s+(?:[\w-]+\s+){{0,3}}?(?:{_ONE_OF}|menu|release|meeting|flight"
    r"|hotel|trip|meal|recipe|document|file|function|invoice|ticket|letter|report"
    r"|purchase|booking|payment"
    r"|change|call|date|price|number|name|paragraph|sentence|summary|suggestion"
    r"|recommendation|quote|photo"
    r"|picture|slide|chart)\b|\b(?:every|each) time\b"
)
ALL = re.compile(
    r"\b(?:all|any)\s+(?:of )?(?:your |my |our |future |new |outgoing )*(?:answers"
    r"|number|replies|responses|messages"
    r"|explanations|summaries|names|dates|times|prices|amounts|numbers|units|comments|code snippets"
    r"|code|documents|reports|letters|invoices|emails|suggestions|recommendations|temperatures"
    r"|distances|measurements|quotes|translations)\b"
)
# Of what the agent does again and again, not of what it will be done with soon.
WHEN_YOU: Final = re.compile(
    r"\bwhen(?:ever)? you (?!have|can|could|get|are|'re|were|find|finish|see|know"
    r"|want|need|got|feel|like)"
    r"(?!\w+ (?:it|this|that|them)\b)[a-z]"
)
# Bare plurals behind a verb of showing or saying: all there will be, not some that are there.
SHOWN: Final = re.compile(
    r"^ (?:all )?(?:answers|replies|responses|prices|dates|times|amounts|numbers"
    r"|names|units|distances"
    r"|temperatures|comments|summaries|titles|quotes|links|headings|measurements"
    r"|fractions|currencies"
    r"|totals|sources|citations|code|acronyms|abbreviations) (?:in|with|as|to|by"
    r"|without|out|using)\b"
)
