"""How people tell what they and theirs do, can and are held to, in English; data only.

Each pattern is searched in one clause in lower case that holds one of the words before it,
and one of the second list if there is one.
"""

from __future__ import annotations

from typing import Final

from turnmill.rules.kinds import Kind

__all__ = ["HABITS"]

_ADVERB: Final = r"(?:(?:really|absolutely|just|also|generally|simply|personally|strictly) )?"
# What is at hand is for once: "I can't eat this", "we don't need it any more".
_NOT_AT_HAND: Final = (
    r"(?! (?:it|this|that|these|those|them|him|her|you|me|any ?more|yet|either|so|too|much"
    r"|enough|anything else)\b)"
)
_NOT_THE: Final = r"(?! (?:the|my|your|his|their|a|an|to) )"
_WONT: Final = (
    r"invest|take|accept|allow|permit|use|buy|carry|eat|drink|fly|drive|travel|stay|pay|spend|work"
    r"|answer|pick up|sign|share|sell|borrow|lend|shop|wear|order|commit|deploy|merge|ship|push"
    r"|release|store|log|support|put|mix|touch|agree|tip|negotiate|reply|respond|reveal|publish"
    r"|post|trade|lift|run|climb|stand|serve|fry|host|do|book|care about|own|keep|wake|own|name"
    r"|mention|discuss|quote|promise|read|write"
    r"|cook|smoke|hire|compromise|rent|gamble|speak|tolerate|deal"
)
_CANT: Final = (
    r"eat|drink|digest|tolerate|lift|bend|wear|fly|drive|climb|kneel|squat|go (?:over|above|past"
    r"|below|under|beyond)|spend|afford|exceed|do|have|take|stay|start before|work (?:on|after"
    r"|before|past|with)|be (?:reached|quoted|named|disturbed|contacted)|travel|walk|stand|handle"
    r"|stomach|bear"
)
_WORK: Final = (
    r"use|follow|deploy|ship|release|target|log|support|standardi[sz]e|bill|invoice|report|count"
    r"|measure|round|spell|say|call|cite|abbreviate|capitali[sz]e|publish|squash|rebase|tag|branch"
    r"|write|format|name|indent|code|version|prefix|insist|review|test|wrap|file|stick"
    r"|settle|avoid"
)
_MINE: Final = (
    r"(?:[\w'-]+ ){0,2}?(?:limit|budget|cap|max|maximum|minimum|ceiling|threshold|allowance|quota"
    r"|tolerance|appetite|time ?zone|size|exam|test|deadline|pronouns?|readers?|audience"
    r"|fiscal year"
    r"|financial year|workdays?|work ?week|workday|hours|language|tongue|diet|brand|stack"
    r"|house style"
    r"|style|style guide|tone|priority|insurance|coverage|shift|shifts|lunch(?: hour| break)?"
    r"|bedtime"
    r"|wake-?up time|unit of analysis|client|retention|error budget|oven|screen|policy|convention"
    r"|currency|reading level"
    r"|risk|units?|setup|spelling|signature)"
)
_OURS: Final = (
    r"(?:wife|husband|partner|spouse|son|daughter|kids?|children|toddler|baby|family|guests?"
    r"|girlfriend|boyfriend|fianc[ée]e?|dog|cat|knees?|back|shoulder|stomach|eyes|doctor|parents"
    r"|mom|mum|mother|dad|father|team|users|customers|clients|readers|students|audience)"
)

HABITS: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    (
        Kind.PREFERENCE,
        "don't do never won't will refuse doesn't",
        "i we",
        (
            rf"\b(?:i|we) {_ADVERB}(?:don't|do not|never|won't|will not"
            rf"|refuse to) (?:ever )?(?:(?:{_WONT})"
            rf"\b{_NOT_AT_HAND}{_NOT_THE}(?! [a-z]+ (?:i|we|you)\b)|(?:use|do|say|write"
            rf"|allow) the [a-z]+ [a-z]+|go (?:over|above|past|below"
            r"|under|beyond|out|to bed)\b)(?!.*\b(?:anymore|any more|very (?:often|much)|a lot"
            r"|as much"
            r"|enough|lately|right now|today|yet|because i forgot)\b)"
        ),
    ),
    (
        Kind.PREFERENCE,
        "can't cannot",
        "i we",
        (
            rf"\b(?:i|we) {_ADVERB}(?:can't|cannot|can not) (?:{_CANT})\b{_NOT_AT_HAND}{_NOT_THE}"
            r"(?! (?:anything|everything|nothing|well|what|how|without|another|more|off|my|on)\b)"
            r"(?!.*\b(?:right now|any ?more)\b)"
        ),
    ),
    (
        Kind.PREFERENCE,
        "don't do never",
        "want",
        (
            rf"\b(?:i|we) {_ADVERB}(?:don't|do not|never) (?:ever )?want (?!to\b|it\b|this\b"
            r"|that\b|them\b|any ?more\b|anything\b|another\b|one\b|you\b|more\b|the\b|a\b|much\b"
            r"|help"
            r"|him\b|her\b|these|those|any (?:more|help|of)|either|my hopes)[a-z]+"
        ),
    ),
    (
        Kind.LIMIT,
        "allowed authorised authorized permitted supposed cleared",
        "i'm am we're are",
        (
            r"\b(?:i'm|i am|we're|we are) (?:not|only|never) (?:yet )?(?:allowed|authori[sz]ed"
            r"|permitted"
            r"|supposed|cleared) (?:to|after|before|on|from|for)\b"
        ),
    ),
    (
        Kind.LIMIT,
        (
            "doctor physio physiotherapist dietitian nutritionist"
            " cardiologist therapist midwife surgeon lawyer"
        ),
        "says said told wants recommends forbids insists forbade banned ordered",
        (
            r"\bmy (?:[a-z]+ )?(?:doctor|physio|physiotherapist|dietitian|nutritionist|cardiologist"
            r"|midwife"
            r"|surgeon|lawyer) (?:says|said|told me|wants me|forbids|insists|forbade|banned"
            r"|ordered) (?:that )?(?:no\b"
            r"|not to|never|nothing|to (?:avoid|keep|stay|stop|limit|cut)|i (?:can't|must|should"
            r"|have to|may)"
            r"|me (?:to|from|off)|i'm not)"
        ),
    ),
    (
        Kind.PREFERENCE,
        "not",
        "looking after asking",
        (
            r"\b(?:i'm|i am|we're|we are) not (?:looking for|after|asking for) (?!you to|the\b"
            r"|this\b"
            r"|that\b|it\b|anything else)[a-z]"
        ),
    ),
    (
        Kind.POLICY,
        "we",
        _WORK.replace("|", " ").replace("i[sz]e", "ise") + " standardize capitalize",
        (
            rf"^(?:and |but |so |also |here,? |our style is a bit odd: )*(?:at work,? "
            rf"|internally,? "
            rf"|here,? )?"
            rf"we (?:only |also |always )?(?:{_WORK})\b(?! (?:it|this|that|these|those|them|to|you"
            rf"|the same"
            r"|on (?:to|it)|up|off|getting|having|seeing|in touch|looking|going|wondering|if"
            r"|how)\b)"
            r"(?!.*\b(?:lol|today|tomorrow|tonight|last|but it|yesterday)\b)"
        ),
    ),
    (
        Kind.IDENTITY,
        (
            "wear file represent speak act work fast learn do focus concentrate understand get code"
            " program bill respond write"
        ),
        "i",
        (
            r"\bi (?:only )?(?:wear (?:a )?(?:size|an? \w+|\d)|file (?:as|jointly)|represent (?!a )"
            r"|(?:speak|act) for (?!a )|work (?:nights|days|weekends|shifts|part[- ]time|from home"
            r"|remotely|mon|until|till|\d)|fast (?:until|till|on|from|every)"
            r"|(?:learn|do|focus|concentrate|understand|respond|work) (?:best|better)\b"
            r"|get (?:car ?|sea ?|motion ?|air ?)sick|(?:code|program|write) in [a-z]+)\b"
        ),
    ),
    (
        Kind.PREFERENCE,
        "only",
        "i we",
        (
            r"\b(?:i|we) only (?!have|had|want(?:ed)? to|need to|know|see|saw|hope|wish|got|just"
            r"|ask"
            r"|said|say|mean|did|do\b|found"
            r"|came|went|was|were|made|found|remember|realise|realize|met|began|started|live once"
            r"|\w+ed\b)[a-z]+"
            r"(?! (?:it|that|this|one of)\b)"
        ),
    ),
    (
        Kind.IDENTITY,
        "language tongue",
        "my isn't",
        r"\b(?:is|isn't) (?:not )?my (?:first|second|third|native|mother|strongest)\b",
    ),
    (
        Kind.IDENTITY,
        "my our",
        "is are starts start begins ends end runs tops stops stop only covers can't cannot works",
        (
            rf"^(?:and |but |so |also |please |note that )*(?:my"
            rf"|our) {_MINE} (?:for [\w ]{{2,30}}? "
            rf"|is in"
            r" |in [\w ]{2,20} )?(?:is|are|'s|starts?|begins?|ends?|runs?|tops? out|stops?|only"
            r"|covers?|speaks?|forbids?|allows?|requires?"
            r"|can't|cannot|works?)\b(?! (?:going|so|too|killing|broken|wrong|gone|over|done|really"
            r"|great"
            r"|terrible|awful|tomorrow\?|up to date|not working|fine|expired|about to))"
        ),
    ),
    (
        Kind.IDENTITY,
        "can't cannot doesn't don't won't isn't aren't only hates needs walks never",
        "my our",
        (
            rf"^(?:and |but |so |also |please )*(?:my|our) (?:\w+ )?{_OURS} (?:(?:both"
            rf"|all) )?(?:can't|cannot"
            r"|doesn't|don't|won't|never) (?:eats?|drinks?|have|take|tolerate|do|fly|drive|use|read"
            r"|speak"
            r"|swim|walk|handle|digest|bend|touch|wear|like|stand)\b"
            rf"{_NOT_AT_HAND}(?! (?:the|my) )(?!.*\b(?:grew up|growing up|anymore)\b)"
        ),
    ),
)
