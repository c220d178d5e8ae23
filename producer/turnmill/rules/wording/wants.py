"""How people say what they want of all that an agent does, in English; data only.

Each pattern is searched in one clause in lower case that holds one of the words before it,
and one of the second list if there is one.
"""

from __future__ import annotations

from typing import Final

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.lexicon import words_of
from turnmill.rules.wording.things import OUTPUTS

__all__ = ["WANTS"]

_WANT: Final = (
    r"\bi(?:'d| would|'ll| will)? (?:really |always |also |just |only )?(?:want|need|expect|like"
    r"|prefer)"
)
_NOT_NOW: Final = (
    r"(?!.*\b(?:this time|for now|today|tonight|tomorrow|right now|for this|this (?:one|week"
    r"|weekend|morning|evening))\b)"
)

WANTS: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    (
        # Something of every one of a kind.
        Kind.PREFERENCE,
        "want need expect like prefer",
        (
            "every each all any anything everything always times"
            " twice whenever wherever whatever weekdays weekends"
            " mondays tuesdays wednesdays thursdays"
            " fridays saturdays sundays"
        ),
        (
            rf"{_WANT} (?!to\b|all (?:my|of|the|that|this|these|those)\b|it all\b|any\b|help\b"
            rf"|you to)"
            r"(?:(?:every|each|all) (?!one|of\b|time|bit|detail|step)[a-z]+"
            r"|[\w':, -]{2,60}? (?:(?:every|each"
            r"|any) (?!one of|of\b|other|detail|bit|step|possible|idea|help|advice|tips|more)[a-z]+"
            r"|anything|everything|wherever|whatever|always|at all times|twice|on"
            rf" (?:week(?:day|end)s|(?:mon|tues|wednes|thurs|fri|satur|sun)days)))\b{_NOT_NOW}"
        ),
    ),
    (
        # What the agent is to be like, or to do each time.
        Kind.COMMAND,
        "want need expect like prefer",
        "you",
        (
            rf"{_WANT}(?: it if)?(?: for)? you (?:to )?(?:(?:please|also|just|really|always"
            rf"|never) )?(?:be (?!able"
            r"|there|here)[a-z]+|act|treat|think|double[- ]?check|verify|cite|explain|ask|remind"
            r"|use"
            r"|keep"
            r"|avoid|stick|speak|talk|write|answer|respond|assume|challenge|push|correct|flag"
            r"|warn|call"
            r"|focus|sound|behave|play|stay|quiz|test|kept|used|didn't|avoided|called|stuck|not)\b"
            rf"(?! (?:it|this|that|these|those|them|the|my|a|an|to|me (?:to|a|the))\b){_NOT_NOW}"
        ),
    ),
    (
        Kind.COMMAND,
        "want need expect like prefer",
        "you",
        (
            rf"{_WANT} you to .{{2,80}}\b(?:every|each|any|always|never|whenever|before you"
            rf"|when you)\b"
            r"(?! (?:one of|possible|chance))"
        ),
    ),
    (
        # "I want hints, not solutions."
        Kind.PREFERENCE,
        "want need like prefer",
        "not over",
        (
            rf"{_WANT} (?!to\b|the\b|that\b|this\b|it\b|a\b|an\b"
            rf"|my\b)[\w' -]{{3,40}}(?:, (?:and )?not"
            rf"|,? rather than| over) (?!the\b|this\b|that\b|to\b|sure|now)[\w' -]+{_NOT_NOW}"
        ),
    ),
    (
        Kind.PREFERENCE,
        words_of(OUTPUTS)
        + " answers replies responses explanations summaries examples sources citations"
        " comments suggestions",
        "want need expect like prefer",
        (
            rf"{_WANT} (?!more|some|any|no\b|the\b|your|these|those|an?\b|to\b|it\b|how|all|better"
            rf"|my\b|two|three)"
            rf"(?:[a-z-]+,? (?:and )?){{0,2}}?(?:{OUTPUTS}|answers|replies|responses|explanations"
            rf"|summaries|examples"
            rf"|sources|citations|comments|suggestions)\b(?! (?:to|for|about|of|on) (?:my|the|this"
            rf"|that)\b){_NOT_NOW}"
        ),
    ),
    (
        # "I want eggs from free-range hens or none", "I need vegan leather".
        Kind.PREFERENCE,
        "want need",
        "none nothing everywhere understand",
        (
            rf"{_WANT} (?:.{{3,60}} or (?:none|nothing)\b|[\w' -]{{3,60}} everywhere\b"
            rf"|to understand (?:each|every)\b)"
        ),
    ),
    (
        # "I'd be grateful if you kept the old names"; "if you could cancel it" is for once.
        Kind.PREFERENCE,
        "appreciate grateful thankful love prefer rather great nice helps help glad happy",
        "you",
        (
            r"\b(?:appreciate|be (?:grateful|thankful|glad|happy|great|nice)|prefer|love|rather"
            r"|helps?)"
            r"(?: it)?(?: greatly| a lot| me)?(?: if| when)? you (?:didn't|don't|never|always"
            r"|kept|keep"
            r"|used|use|avoided|avoid|called|call|left|stuck|stick|stopped|stop|wouldn't"
            r"|would (?:not"
            r"|never"
            r"|always|stop|keep|use|avoid|refrain)|could (?:not|always|stop|avoid|refrain|keep)"
            r"|not)\b"
            r"(?! (?:me\b|mind))"
        ),
    ),
    (
        Kind.PREFERENCE,
        "glad grateful",
        "of for",
        (
            r"\bbe (?:glad|grateful) (?:of|for) (?!your|the\b|this|that|any\b|some\b|a\b|an\b"
            r"|it\b)(?:[a-z]+ )?[a-z]+s\b"
        ),
    ),
    (
        Kind.COMMAND,
        "let's",
        "keep avoid not leave stick always never do",
        (
            r"^(?:and |but |so |also |please |ok |then )*let's (?:(?:keep"
            r"|leave) [\w' -]{2,40} (?:out of"
            r"|off|under|below|between|away|professional|formal|short|brief|light|simple|civil"
            r"|alone"
            r"|aside"
            r"|in (?:english|plain))|do (?:one|two|three|four|five|six|ten|\d+) [\w ]+ (?:a|per"
            r"|each"
            r"|every) (?:day|week|session|lesson|time)|avoid|not (?:talk|discuss|mention|use|bring"
            r"|get into)|stick (?:to|with)"
            rf" (?!the\b|this|that|it\b)|always|never)\b(?! (?:this|that|it|give up)\b){_NOT_NOW}"
        ),
    ),
    (
        # "English or Dutch is fine", and who may do what.
        Kind.PERMISSION,
        "allowed free welcome permitted permission leave",
        "you you're",
        (
            r"\byou(?:'re| are| have)? (?:also |always )?(?:allowed|free|welcome|permitted"
            r"|permission"
            r"|leave"
            r"|cleared) to\b"
        ),
    ),
    (
        Kind.PERMISSION,
        "feel",
        "free",
        (
            r"\bfeel free to (?!ask|share|let|reach|contact|tell|say|give me|suggest|send"
            r"|add anything"
            r"|correct me if|call me|email me|elaborate|explain|recommend|include|skip (?:it"
            r"|this))[a-z]+"
        ),
    ),
    (
        Kind.PERMISSION,
        "fine ok okay happy good cool",
        "you your",
        r"\bi(?:'m| am) (?:fine|ok|okay|happy|good|cool) with (?:you|your) [a-z]+ing\b",
    ),
)
