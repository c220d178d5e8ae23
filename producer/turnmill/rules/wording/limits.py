"""How people say how much, and by when, in English; data only.

Each pattern is searched in one clause in lower case that holds one of the words before it,
and one of the second list if there is one.
"""

from __future__ import annotations

from typing import Final

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.lexicon import NUMBER, NUMBER_HINTS, TIME_HINTS, TIMES
from turnmill.rules.wording.things import GENERIC

__all__ = ["LIMITS"]


LIMITS: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    (
        Kind.LIMIT,
        "budget limit cap ceiling maximum bound range",
        NUMBER_HINTS,
        (
            r"\b(?:my|our|the|a|an|on a|with a|total|monthly|weekly|daily"
            r"|max(?:imum)?) (?:\w+ )?(?:budget|spending limit|price limit"
            r"|limit|cap|ceiling|maximum|upper bound|price range)\b.{0,30}(?:is|of|at|are"
            r"|stays"
            rf"|:).{{0,20}}{NUMBER}"
        ),
    ),
    (
        Kind.LIMIT,
        (
            "more less fewer longer later earlier higher lower bigger larger older over"
            " above "
            "under below"
        ),
        NUMBER_HINTS,
        (
            r"\b(?:no|not|nothing|never) (?:more|less|fewer|longer|later|earlier|higher"
            r"|lower"
            r"|bigger|larger|older|over|above|under|below)"
            rf"\b(?: than)?.{{0,12}}{NUMBER}"
        ),
    ),
    (
        Kind.LIMIT,
        "most least max maximum minimum up",
        NUMBER_HINTS,
        (
            r"\b(?:must|should|may|can|shall|to|please|spend|pay|need|want|use|take|allow"
            r"|only) (?:\w+ ){0,3}?(?:at (?:most|least)"
            rf"|a (?:max|maximum|minimum) of|up to)\b.{{0,12}}{NUMBER}"
        ),
    ),
    (
        Kind.LIMIT,
        "less within under only",
        NUMBER_HINTS,
        (
            r"\b(?:must|should|may|shall|please|spend|pay|need|want|use|take"
            rf"|allow) (?:\w+ ){{0,3}}?(?:less than|within|under|only) {NUMBER}"
        ),
    ),
    (
        Kind.LIMIT,
        "most least max maximum min minimum up under",
        NUMBER_HINTS,
        (
            r"^(?:please |and |but |so )*(?:at (?:most|least)|max(?:imum)?|min(?:imum)?|up"
            r" to"
            rf"|under|a (?:max|maximum|minimum) of) {NUMBER}\b(?! of)"
        ),
    ),
    (
        Kind.LIMIT,
        "most least max maximum tops less fewer under minimum",
        NUMBER_HINTS,
        (
            # "That one is Max" has neither a number nor a most.
            rf"(?!one (?:is|was)\b){NUMBER}[\w\s$€£%]{{0,30}}\b"
            r"(?:at (?:the )?(?:most|least)|max(?:imum)?|tops"
            r"|or (?:less|fewer|under)|minimum)(?=$|[.,!;:)]| per)"
        ),
    ),
    (
        Kind.LIMIT,
        ("keep keeping stay staying remain limit limited cap capped restrict restricted hold"),
        NUMBER_HINTS,
        (
            # "…, capped at 30" only describes; what "is capped at 30" is bound.
            r"\b(?:(?<!i'll )(?<!we'll )(?<!i will )keep(?:ing)?|stay(?:ing)?|remain|limit|cap"
            r"|restrict|hold"
            r"|(?:is|are|be|am|'m|'re|gets?) (?:\w+ )?(?:limited|capped|restricted)"
            r")\b.{0,60}\b(?:under|below|within"
            rf"|to|at|above|over|between|less than)\b (?:\w+ )?{NUMBER}"
        ),
    ),
    (
        Kind.LIMIT,
        "exceed spend pay go afford surpass use",
        NUMBER_HINTS,
        (
            r"\b(?:can't|cannot|won't|must not|mustn't|shouldn't|should not|may not|can not"
            r"|don't"
            r"|do not|never) (?:want to |ever )?"
            r"(?:exceed|spend|pay|go (?:over|above|beyond|under|below)|afford|surpass"
            rf"|use)\b.{{0,30}}{NUMBER}"
        ),
    ),
    (
        Kind.LIMIT,
        "only",
        NUMBER_HINTS,
        (
            r"\b(?:i|we) (?:can )?only (?:have|got|get|spend|afford|allow|accept|carry|need"
            r"|work"
            rf"|take|pay)\b.{{0,30}}{NUMBER}"
        ),
    ),
    (
        Kind.LIMIT,
        "only",
        NUMBER_HINTS,
        rf"\bi(?:'ve| have) only (?:got )?{NUMBER}",
    ),
    (
        Kind.LIMIT,
        "time per under within",
        NUMBER_HINTS,
        (
            rf"^(?:please )?(?:only |just )?{NUMBER} [\w ]{{2,30}}? (?:at a time|per"
            r" [a-z]+)\b"
            rf"|^(?:{GENERIC}) (?:under|within|below) {NUMBER}"
        ),
    ),
    (
        Kind.DEADLINE,
        "deadline due cutoff cut",
        TIME_HINTS,
        (
            r"\b(?:(?:my|our|the|a|an|hard|submission) )(?:[\w-]+ ){0,3}?(?:deadline|due"
            r" date"
            r"|cut-?off)\b.{0,50}(?:is|of|on|for|by|to meet|:)"
            rf".{{0,40}}?\b(?:{TIMES})"
        ),
    ),
    (
        Kind.DEADLINE,
        "moved postponed pushed shifted extended rescheduled",
        TIME_HINTS,
        (
            r"\b(?:deadline|due date|cut-?off|(?:launch|release|delivery|start|end|target|ship"
            r"|go-live) date|launch|release) (?:has |have |was |is |got )?(?:been )?(?:now )?"
            r"(?:moved|postponed|pushed|shifted|extended|rescheduled)\b.{0,30}?\b(?:to|until"
            r"|till)\b"
            rf".{{0,20}}?\b(?:{TIMES})"
        ),
    ),
    (
        Kind.DEADLINE,
        "deadline due",
        TIME_HINTS,
        rf"\b(?:deadline|due date)(?: is|:| of| on) .{{0,20}}\b(?:{TIMES})",
    ),
    (
        Kind.DEADLINE,
        "each every",
        "due expire expires close closes end ends",
        (
            r"\b(?:due|expires?|closes?|ends) (?:on |by |at |before |the )?(?:the"
            rf" )?(?:{TIMES}"
            r"|first|last|1st)\b.{0,30}\b(?:each|every)\b"
        ),
    ),
    (
        Kind.DEADLINE,
        "due",
        TIME_HINTS,
        (
            r"\b(?:is|are|'s) due (?:on |by |at |before |in )?(?:the |every |each"
            rf" )?(?:{TIMES})"
        ),
    ),
    (
        Kind.DEADLINE,
        "later",
        "",
        rf"\b(?:no|not) later than\b.{{0,20}}(?:{TIMES})",
    ),
    (
        Kind.DEADLINE,
        "latest",
        "",
        rf"\b(?:{TIMES})[\w\s,]{{0,20}} at the (?:very )?latest\b",
    ),
    (
        Kind.DEADLINE,
        "latest",
        "",
        rf"\bat the (?:very )?latest\b.{{0,15}}(?:{TIMES})",
    ),
    (
        Kind.DEADLINE,
        "by before until",
        TIME_HINTS,
        (
            r"\b(?:must|has to|have to|needs? to|should|got to) (?:all )?(?:be|ship|arrive"
            r"|leave"
            r"|finish|go out|get|reach|hand|submit|send|deliver"
            rf"|launch)\b.{{0,50}}\b(?:by|before|until)\b (?:the )?(?:end of )?(?:{TIMES})"
        ),
    ),
    (
        Kind.DEADLINE,
        "until",
        TIME_HINTS,
        rf"\b(?:we|i|they)(?:'ve)? (?:only )?(?:have|got) until\b.{{0,25}}(?:{TIMES})",
    ),
    (
        Kind.DEADLINE,
        "by before later",
        "need want",
        (
            r"\b(?:need|want) (?:it|this|that|everything|the \w+|them|all \w*) (?:\w+"
            r" )?(?:by"
            rf"|before|no later)\b (?:{TIMES})"
        ),
    ),
)
