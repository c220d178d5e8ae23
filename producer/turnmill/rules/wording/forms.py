"""How rules without a verb are worded, in English; data only."""

from __future__ import annotations

import re
from typing import Final

from turnmill.rules.wording.things import MADE

__all__ = [
    "AT_TIMES",
    "CONTRAST",
    "FORM_NAMED",
    "FRAGMENT_CUES",
    "NOTHING_SO",
    "OF_EACH",
]

# "Metric units", "plain language only", "first person, present tense throughout".
FORM_NAMED: Final = re.compile(
    r"(?:please |use )?(?!(?:the|this|that|what|which|a|an|my|in|on|no|some"
    r"|any)\b)(?:[a-z\d-]+ ){1,2}"
    r"(?:units|spelling|tense|person|voice|tone|case|clock|notation|language|english|wording)\b"
    rf"|(?:all |your |any |my )*(?:[a-z-]+ )?(?:{MADE}) (?:always |only |never )?(?:in|under|below"
    r"|within|as|with|without|at most|no longer than|by)\b(?! (?:the|this|that|my)\b)"
)
# A choice between two for good; "the blue one, not the red one" is of things at hand.
CONTRAST: Final = re.compile(
    r"(?!(?:the|this|that|these|those|a|an|no|yes|it|it's|i|if|well|maybe|probably|why|hopefully"
    r"|sorry|sure|ok|okay|one|and|but|or|actually|obviously|of|he|she|they|you|is|are|was|were)\b)"
    r"(?:(?!is\b|are\b|was\b|were\b|the\b|has\b|have\b|did\b|it\b)[\w'-]+ ){0,4}?[\w'-]+(?:, not"
    r"|, never|,? (?:instead of|rather than)"
    r"|,? but never) (?!the\b|this\b|that\b|a\b|an\b|sure|yet|now|so|too|just|really|to\b|only"
    r"|even|at"
    r"\b|in\b|on\b|my\b|for\b|because|been|when|if|have|having|be\b)(?:[\w'-]+ ){0,2}[\w'-]+[.!]*"
    r"|(?:just|only) (?!the (?:first|second|one)\b)[\w' -]{2,30}, no [\w' -]{2,40}[.!]*"
)
# "Bedroom at 18 degrees when we sleep", "Mandarin with pinyin underneath, always".
AT_TIMES: Final = re.compile(
    r"(?!.*\b(?:was|were|is|are|had|did|has|have|been|will|yesterday|i|today|tonight|tomorrow|you"
    r"|gonna|gotta|helps?|feels?|pays?|looks?|really|definitely)\b)"
    r"(?!(?:the|this|that|it|he|she|and|but|almost|nearly|not|as|my|our|we"
    r"|people)\b)[\w'% -]{3,50},? (?:always|throughout|at all times"
    r"|every time|everywhere|no exceptions|without exception|as a rule|from now on|going forward"
    r"|at night"
    r"|(?:after|before) (?:we|i) (?!proceed|start|begin|go|continue|do|get)[a-z]+|(?:when|while"
    r"|whenever) [\w' ]{2,25}|after (?:\d+|dark"
    r"|bedtime|hours)|each time|during the [a-z]+|on (?:school nights|week[a-z]+"
    r"|[a-z]+days))[.!]*"
)
# "Alt text for each image", "sprinklers never on windy days", "three facts, then a question".
_VERBLESS: Final = (
    r"(?!.*\b(?:was|were|is|are|am|had|did|do|does|has|have|been|be|will|would|can|could|might|i"
    r"|i'm|i've|i'll|it's"
    r"|you|he|she|they|it|went|got|came|said|made|took|saw|[a-z]+ed|looks?|sounds?|feels?|seems?"
    r"|helps?|pays?|love|hope|gonna|gotta|congrats|definitely|really|gets?)\b)"
    r"(?!(?:the|this|that|it|and|but|one|some|a|an|every time|each time|each of|every one|yes|no"
    r"|so|wow|oh|thanks|good"
    r"|great|nice|my|our|two|if|when|because|since|as|just)\b)"
)
OF_EACH: Final = re.compile(
    _VERBLESS + r"(?:(?:[\w'-]+ ){1,5}(?:for|with|in|on|to|from|after|before|at) (?:each|every"
    r"|all) [\w' -]{2,30}[.!]*$"
    r"|(?:each|every|all) [a-z]+ (?:in|as|with|at|under|by|on|to) [\w' -]{2,40}[.!]*$"
    r"|(?:[a-z'-]+ ){1,3}(?:never|always|only) (?:on|in|at|by|with|after|before|for"
    r"|to) [\w' -]{2,30}[.!]*$"
    r"|[\w' -]{3,30}(?: first)?, then [\w' -]{2,30}[.!]*$)"
)
NOTHING_SO: Final = re.compile(
    r"(?:please )?nothing (?!happened|changed|worked|helped)[a-z]+(?:ed|en) (?:in|for|from|over"
    r"|with|by|under|on|at)\b"
    r"|(?:please )?nothing (?:too |very |overly |that's )?(?!happens|happened|works|worked|else|new"
    r"|is|was|much|to|yet|really|special|wrong|like|ever|but|can|could|will|would|in|left|here"
    r"|there"
    r"|comes|came|fits|beats|serious|helps|helped|seems|has|had|more|and|just|at|so|about|of|better"
    r"|specific|major|fancy,? just)[a-z-]+(?:[.!]*$|,| please| for| or)"
)
FRAGMENT_CUES: Final = re.compile(
    r"\b(?:each|every|all|never|always|only|then|not|instead|rather|no|just|when|while|whenever"
    r"|after|before|at night"
    r"|throughout|everywhere|exceptions?|on|during|from now|going)\b"
)
