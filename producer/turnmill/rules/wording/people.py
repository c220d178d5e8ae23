"""How people say who they are, in English; data only.

Each pattern is searched in one clause in lower case that holds one of the words before it,
and one of the second list if there is one.
"""

from __future__ import annotations

from typing import Final

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.lexicon import IDENTITIES, words_of

__all__ = ["PEOPLE"]

_FOOD: Final = "eat|drink|consume|smoke|tolerate|digest|cook with"
_IDENT: Final = words_of(IDENTITIES) + " intolerant allergic"

PEOPLE: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    (
        Kind.IDENTITY,
        _IDENT,
        "",
        (
            r"\b(?:i'm|i am|we're|we are|my (?:\w+ )?(?:wife|husband|son|daughter|kids?"
            r"|partner"
            r"|mother"
            r"|father|mom|dad|child|children|boss|colleague|guest|guests) (?:is|are))"
            r" (?:both |all |also |(?:a )?(?:strict |lifelong |severely |highly |very "
            r"|mildly "
            r"|slightly |partially |legally )*)?"
            rf"(?:an? )?(?:allergic|intolerant|[a-z]+ intolerant|{IDENTITIES})\b"
        ),
    ),
    (
        Kind.IDENTITY,
        (
            "allergy allergies intolerance celiac coeliac diabetes asthma epilepsy"
            " dyslexia "
            "adhd migraines heart pressure arthritis nut phobia"
        ),
        "",
        (
            r"\b(?:have|has|got|with|suffer from) (?:an? |severe |serious |mild |bad "
            r"|\w+ ){0,3}(?:allerg(?:y|ies)"
            r"|intolerance|celiac|coeliac|diabetes|asthma|epilepsy|dyslexia|adhd|migraines"
            r"|heart condition"
            r"|high blood pressure|arthritis|nut free|phobia)\b"
        ),
    ),
    (
        Kind.IDENTITY,
        "allergic",
        "",
        r"\ballergic to\b",
    ),
    (
        Kind.IDENTITY,
        "name name's",
        "my",
        r"\bmy (?:full |first |last |legal |preferred |real )?name(?:'s| is)\b",
    ),
    (
        Kind.IDENTITY,
        "go",
        "i",
        r"\bi go by\b",
    ),
    (
        Kind.IDENTITY,
        "called",
        "",
        r"\bi'm called\b",
    ),
    (
        Kind.IDENTITY,
        "pronouns",
        "",
        r"\bmy (?:preferred )?pronouns\b",
    ),
    (
        Kind.IDENTITY,
        "call address",
        "me",
        (
            r"\b(?:please |just |you can )?(?:call|address) me (?!back|at|on|when|if"
            r"|after|before|tomorrow|today|later|crazy|now|asap|anytime|again|any|once|at\b"
            r"|first)(?:as |by )?[a-z]"
        ),
    ),
    (
        Kind.IDENTITY,
        "wheelchair screen hearing walking",
        "",
        (
            r"\bi (?:use|rely on|need|am in|'m in) (?:a |an |my )?(?:wheelchair|screen"
            r" reader"
            r"|hearing aids?|walking stick)"
        ),
    ),
    (
        Kind.IDENTITY,
        "eat drink consume smoke tolerate digest cook",
        "i",
        (
            rf"\bi (?:don't|do not|can't|cannot|never|no longer) (?:{_FOOD}) (?!it|that|this"
            r"|the"
            r"|my|your|to|care|any (?:time|more"
            r"|other|idea)|part|place|much time|time|enough|access|long|a\b|an\b|any\b|one\b"
            r"|anything|on\b|with\b|in\b|for\b"
            r"|off\b|over\b|up\b|them)[a-z]"
        ),
    ),
    (
        Kind.IDENTITY,
        "have take",
        "can't cannot",
        (
            r"\bi (?:can't|cannot) (?:have|take) (?:gluten|dairy|lactose|nuts|peanuts|eggs"
            r"|soy"
            r"|sugar|salt|wheat|milk|alcohol|caffeine|meat|fish|seafood"
            r"|shellfish|aspirin|ibuprofen|penicillin|spicy|any (?:gluten|dairy|nuts|alcohol"
            r"|meat))\b"
        ),
    ),
    (
        Kind.IDENTITY,
        "speak eat drink",
        "",
        (
            r"\bi (?:only (?:speak|eat|drink)|speak only|(?:only )?eat only|don't speak"
            r"|do not speak)\b"
        ),
    ),
    (
        Kind.IDENTITY,
        "diet",
        "",
        r"\bi(?:'m| am) on a [\w-]+(?: [\w-]+)? diet\b",
    ),
    (
        Kind.IDENTITY,
        (
            "vegan vegetarian allergic diabetic coeliac celiac intolerant kosher halal"
            " pregnant deaf blind "
            "ramadan shabbat lent free"
        ),
        "",
        (
            r"\b(?:everyone[\w ]{0,25}?|everybody|all of us|both of us|my [\w ]{2,20}?|our"
            r" [\w ]{2,20}?|the kids|the children|she|he) (?:is|are)"
            r" (?:\w+ )?(?:vegan|vegetarian|allergic|diabetic|coeliac|celiac|intolerant"
            r"|pregnant|deaf|blind)\b"
            r"|\b(?:keeps?|eats?) (?:strictly )?(?:kosher|halal)\b|\bobserv(?:e|ing)"
            r" (?:ramadan|shabbat|lent)\b"
            r"|\b[a-z]+-free (?:household|home|kitchen|office|family|diet|house)\b"
        ),
    ),
    (
        Kind.IDENTITY,
        "can't cannot doesn't don't",
        "have eat drink speak do drive fly swim smoke gamble ski use read cook climb",
        (
            r"\b(?:my|our) [\w ]{2,20}? (?:can't|cannot|doesn't|don't) (?:have|eat|drink"
            r"|speak|drive|read|use|fly|swim)\b"
            r"|\bi can't do (?:mornings|evenings|afternoons|nights|weekends|\w+days|stairs"
            r"|spicy|dairy|gluten)\b"
            r"|\bi (?:don't|can't|cannot) (?:drive|fly|swim|smoke|gamble|ski|cook"
            r"|climb)\b(?! (?:it|that|this|to|the|there|off|by))"
            r"|\bi don't use (?!it|that|this|the|any|my|them|to)[a-z]+[.!]*$"
        ),
    ),
    (
        Kind.IDENTITY,
        "remember mind note aware know consider",
        "i i'm my we our i've we're",
        (
            r"^(?:please |also |and |but |just |so )*(?:remember|mind|consider|keep in mind"
            r"|bear in mind"
            r"|note|be aware|you should know)(?: that)?,?:? "
            r"(?:i|i'm|my|we|our|we're|the|all|there)\b(?! (?:remember|was|were|had|went"
            r"|did))"
        ),
    ),
    (
        Kind.IDENTITY,
        "mind",
        "that this it",
        (
            r"(?<!i'll )(?<!we'll )(?<!i will )\b(?:keep|bear) (?:that|this|it) in mind\b"
            r"(?! (?:that|and|the next))"
        ),
    ),
)
