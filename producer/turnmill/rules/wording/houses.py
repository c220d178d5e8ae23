"""Who lays down what holds in a house, and when; parts of the patterns in ``policies``."""

from __future__ import annotations

from typing import Final

from turnmill.rules.wording.lexicon import words_of

__all__ = ["ANYTHING", "DAYS", "DAY_WORDS", "OURS", "PRESENT"]

DAYS: Final = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekends?|weekdays?|holidays|bank holidays"
)
OURS: Final = (
    r"(?:we|our [\w-]+(?: [\w-]+){0,2}?|my (?:team|company|boss|manager|landlord"
    r"|wife|husband|doctor|school"
    r"|client|employer|partner|office|household|family|clinic|lab|bank|insurance)"
    r"|the (?:team|company"
    r"|office|client|policy|house|board|school|style guide|contract)|company policy|house rules?)"
)
PRESENT: Final = (
    r"(?:(?!\w+(?:ed|ught|ade|ent|ave|ame|ook)\b|had\b|was\b|were\b|got\b|did\b"
    r"|saw\b|went\b|met\b|won\b|lost\b"
    r"|found\b|knew\b|thought\b|felt\b|said\b|told\b|heard\b|ran\b|have (?:been|had)\b|really\b)"
    r"[a-z-]+)"
)
# What a policy is about: not "I", "it" or "there".
ANYTHING: Final = (
    r"^(?:and |but |also |please |note that |remember,? (?:that )?)*"
    r"(?:(?:all|every|each|any|no|only|our|the|my|your)\b [\w -]{2,60}?"
    r"|[a-z-]+ (?:[a-z-]+ )?[a-z]+s|whatever [\w -]{2,40}?|it(?= has to (?:fit|work"
    r"|run|be|stay|support)| must (?!be\b)| may not)"
    r"|(?!it's|this|always|there's|perhaps|yes|thanks)[a-z]+s|code|everything|everyone|anyone"
    r"|nobody|nothing)\b"
)
DAY_WORDS: Final = words_of(
    "monday|tuesday|wednesday|thursday|friday|saturday|sunday|mondays|tuesdays"
    "|wednesdays|thursdays"
    "|fridays|saturdays|sundays|weekends?|weekend|weekdays|holidays"
)
