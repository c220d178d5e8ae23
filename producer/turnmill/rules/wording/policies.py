"""How people say what holds in their house, in English; data only.

Each pattern is searched in one clause in lower case that holds one of the words before it,
and one of the second list if there is one.
"""

from __future__ import annotations

from typing import Final

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.houses import ANYTHING, DAY_WORDS, DAYS, OURS, PRESENT
from turnmill.rules.wording.things import GENERIC

__all__ = ["POLICIES"]

POLICIES: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    (
        Kind.POLICY,
        "always never only don't doesn't do does can't cannot can may must mustn't",
        "we our my team company office client policy house board school contract",
        (
            rf"\b{OURS} (?:(?:always|never|only) {PRESENT}|(?:do not"
            r"|don't|does not|doesn't|can't|cannot|can only"
            r"|may not|may only|must|must not|mustn't) (?!know|think|want|see|seem|find|get"
            r"|have any|have the|understand|remember|believe"
            r"|wait|be (?:so|more)|really|even|just|need any|feel|help|look|mind|care"
            r"|say)[a-z]+)\b"
        ),
    ),
    (
        Kind.POLICY,
        DAY_WORDS,
        "we our my team company office client policy house board school contract",
        (
            rf"\b{OURS} (?:(?:is|are|stays?|opens?|closes?|work|works|meet|ship|ships"
            r"|deploys?"
            r"|deliver|delivers|release|releases|operates?|runs?|pays?)\b"
            r"(?! (?:been|going|planning|so|all|having)))(?=.*\b(?:on|only|every|each|from"
            r"|until"
            rf"|closed|between)\b).*\b(?:(?:every|each|only) (?:{DAYS})|(?:mon|tues|wednes"
            r"|thurs|fri|satur|sun)days|weekends?|weekdays|holidays)\b"
        ),
    ),
    (
        Kind.POLICY,
        (
            "requires require forbids forbid prohibits prohibit mandates mandate insists "
            "insist expects expect uses use policy rule only"
        ),
        "we our my team company office client policy house board school guide contract",
        (
            rf"\b{OURS} (?:requires?|forbids?|prohibits?|mandates?|insists? on|expects?"
            r" (?:all"
            r"|every|us)|uses? .{1,40}(?:only|nothing)"
            r"|(?:has|have) a (?:strict )?(?:policy|rule)(?! (?:question|number|issue"
            r"|problem|holder))|only (?:ever )?(?:uses?|accepts?|takes?"
            r"|allows?|works?))\b"
        ),
    ),
    (
        Kind.POLICY,
        "policy rule rules convention practice",
        "",
        (
            r"\b(?:company|house|our|my|team) (?:[\w-]+ )?(?:policy|rule|rules|convention"
            r"|practice)(?: here)? (?:is|are|says?|:)"
        ),
    ),
    (
        Kind.POLICY,
        (
            "house home office company team family repo repository project codebase shop"
            " lab kitchen "
            "school we everything nothing nobody every"
        ),
        "our my this",
        (
            r"^(?:in|at|on) (?:our|my) [a-z]+(?: [a-z]+)?,? (?:we (?!were|had|went|did|used|got"
            r"|have|are|\w+ed\b)"
            r"[a-z]+|everything|nothing|nobody|all|every)\b|^(?:in|at|on) (?:our|my"
            r"|this) (?:house|home|office|company|team|family|repo"
            r"|repository|project|codebase|shop|lab|kitchen|school)\b"
            r"(?!.*\b(?:was|were|had|did)\b)(?=.* (?:is|are|must|only|never|always|no|stays?"
            r"|goes?|comes?|get|use|we)\b)"
        ),
    ),
    (
        Kind.POLICY,
        "must shall allowed permitted forbidden prohibited off mandatory negotiable",
        "",
        (
            ANYTHING
            + r" (?:must (?:not |never |always |only )?(?!have (?:been|left|gone|got|had|made"
            r"|forgotten|lost|come|taken|\w+ed)\b"
            r"|be (?:a (?:mistake|way)|some|so|something|wrong|very|really|quite|such|pretty))"
            r"|shall|(?:is|are) (?:not "
            r"|never |always "
            r"|strictly )?(?:allowed|permitted|forbidden|prohibited|off-limits|off limits"
            r"|mandatory"
            r"|non-negotiable|a must))\b"
        ),
    ),
    (
        Kind.POLICY,
        "has have need needs are",
        "to two three at",
        (
            ANYTHING
            + r" (?:(?:has|have) to (?!say|admit|be (?:something|a way)|do with)|needs? to be"
            r"|need (?:two|three|at least|an? )|are to be)\b"
        ),
    ),
    (
        Kind.POLICY,
        "should",
        "be have use start end follow go come contain include",
        (
            r"^(?:(?:all|every|each|any)\b [\w -]{2,60}?|[a-z-]+ names"
            r"|everything\b[\w -]{0,50}?|everyone|"
            + GENERIC
            + r") should (?:be|have|use|start|end|follow|go|come|contain|include)\b"
        ),
    ),
    (
        Kind.POLICY,
        (
            "dates times prices amounts names files branches commits"
            " tickets replies answers invoices reports"
            " titles numbers comments emails tests functions"
        ),
        "go get include start end come",
        (
            r"^(?:from (?:now on|today),? )?(?:all |the )?(?:dates|times|prices|amounts"
            r"|names|files|branches|commits|tickets|replies"
            r"|answers|invoices|reports|titles|numbers|comments|emails|tests|functions)"
            r" (?:go|get|include|start|end|come) "
        ),
    ),
    (
        Kind.POLICY,
        "nobody nothing no everyone all",
        "until unless while as before",
        (
            r"^(?:as long as|until|unless|while|before)\b.{3,80}, (?:nobody|nothing|no one"
            r"|no|everyone|all)\b"
        ),
    ),
    (
        Kind.POLICY,
        "from",
        "today now tomorrow monday",
        (
            r"^from (?:now on|today|tomorrow|monday)(?: on(?:wards)?)?,? (?!i\b|i'll|i'm|my"
            r"|it|to\b|until|we'll)[a-z]"
        ),
    ),
    (
        Kind.POLICY,
        "important essential crucial vital imperative",
        "that",
        (
            r"\b(?:it's|it is) (?:very |really |absolutely )?(?:important|essential|crucial"
            r"|vital|imperative)"
            r"(?: (?:to|for) (?:me|us))? that\b(?! (?:i|we)\b)"
        ),
    ),
    (
        Kind.POLICY,
        "always",
        "us me",
        r"\b(?:is|are) always .{2,40} (?:for|with) (?:us|me)\b",
    ),
    (
        Kind.POLICY,
        "should must need needs",
        (
            "every each all any longer shorter over under above below with without from for"
            " of in about"
        ),
        (
            r"^(?:every|each|all|any) [\w -]{2,50}? (?:should|must) (?!have been)[a-z]+"
            r"|^[a-z]+s (?:longer|shorter|over|under|above|below|with|without|from|about) "
            r"[\w -]{2,40}? (?:need|must|should)\b"
        ),
    ),
    (
        Kind.POLICY,
        "every each",
        "have must need",
        (
            r"\bi (?:have to|must|need to) .{3,60}\b(?:every|each) (?:day|morning|evening"
            r"|night|week"
            r"|weekday|month|\w+day)\b"
        ),
    ),
)
