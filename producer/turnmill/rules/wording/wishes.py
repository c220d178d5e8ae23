"""How people say what they like, in English; data only.

Each pattern is searched in one clause in lower case that holds one of the words before it,
and one of the second list if there is one.
"""

from __future__ import annotations

from typing import Final

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.lexicon import words_of
from turnmill.rules.wording.things import GENERIC

__all__ = ["WISHES"]

_ADVERB: Final = (
    "(?:(?:really|much|very much|generally|usually|always|strongly|definitely|personally|actually"
    "|normally|typically|still|just|also|absolutely|greatly|honestly|simply|only"
    "|often|tend to) )?"
)
_GENERIC: Final = words_of(GENERIC)

WISHES: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    (
        Kind.PREFERENCE,
        "prefer",
        "",
        (
            rf"\b(?:i|we)(?:'d|'ll| would| will| do)? {_ADVERB}prefer\b(?! not to (?:say"
            r"|answer))"
        ),
    ),
    (
        Kind.PREFERENCE,
        "rather",
        "",
        rf"\bi(?:'d| would) {_ADVERB}rather (?!not say|be safe|know|hear|see|show|tell)",
    ),
    (
        Kind.PREFERENCE,
        "preference preferences",
        "",
        r"\b(?:my|our|the) (?:\w+ )?preferences? (?:is|are|for|would be)\b",
    ),
    (
        Kind.PREFERENCE,
        "preferred favorite favourite go usual default",
        "my",
        (
            r"\bmy (?:preferred|favou?rite|go-to|usual|default) [\w ]{2,40} (?:is"
            r"|are)\b.{0,40}(?:,|\bso\b|\bbook\b|\buse\b)"
        ),
    ),
    (
        Kind.PREFERENCE,
        "preferred usual default",
        "my",
        r"\bmy (?:preferred|usual|default) [\w ]{2,40} (?:is|are)\b",
    ),
    (
        Kind.PREFERENCE,
        "like",
        "my our",
        rf"\bi {_ADVERB}like (?:my|our)\b",
    ),
    (
        Kind.PREFERENCE,
        (
            "short brief simple concise formal plain clean direct quiet spicy hot cold"
            " done be in when"
        ),
        "like want love",
        (
            rf"\bi {_ADVERB}(?:like|want|love) (?:it|things|answers|code|them|all)"
            r" (?:short|brief|simple|concise|formal|plain|clean|direct|quiet|when you|to be"
            r"|in"
            r"|done|spicy|hot|cold)\b"
        ),
    ),
    (
        Kind.PREFERENCE,
        "hate dislike stand detest loathe despise bear",
        "i",
        (
            rf"\bi {_ADVERB}(?:hate|dislike|can't stand|cannot stand|detest|loathe|despise"
            r"|can't bear)\b"
            r"(?! (?:that|how|when|it|this|to|myself|the (?:fact|idea|way|thought)|having"
            r"|being"
            r"|waiting|seeing))"
        ),
    ),
    (
        Kind.PREFERENCE,
        "fan into keen comfortable fond interested",
        "not",
        (
            r"\bi(?:'m| am) not (?:a (?:big |huge )?fan of|into|keen on|comfortable with"
            r"|fond of"
            r"|interested in"
            r" (?:anything|any))\b"
        ),
    ),
    (
        Kind.PREFERENCE,
        "don't do never won't",
        "want need like wish",
        (
            r"\b(?:i|we) (?:don't|do not|never|won't) (?:ever )?(?:(?:need|like) (?:you to"
            r"|my)"
            r"|(?:want|wish) (?:you to|anyone|anybody|any\b|anything (?!else)|my"
            r"|to be (?:called|contacted|put|bothered|disturbed|emailed|charged|billed"
            r"|reminded"
            r"|seated|addressed|asked)"
            r"|to (?:receive|see|get|share|spend|pay|fly|travel|use|work|rely|depend on"
            r"|hear|stay"
            r"|deal)\b(?! (?:my hopes|another two))"
            r"|[a-z]+ (?:seats|flights|calls|emails|hotels|suggestions|food|meetings"
            r"|notifications|layovers|messages)))"
        ),
    ),
    (
        Kind.PREFERENCE,
        "don't",
        "like",
        r"\bi don't like (?:it when|my|spicy|[a-z]+ing\b|[a-z]+s\b)",
    ),
    (
        Kind.PREFERENCE,
        "best better",
        "me us",
        r"\b(?:work|works|suits?|is|are) (?:best|better) for (?:me|us)\b",
    ),
    (
        Kind.PREFERENCE,
        "usually generally always normally typically only",
        "i",
        (
            r"\bi (?:usually|generally|always|normally|typically|only) (?:want(?! to \w+"
            r" (?:that"
            r"|this|the|one))|need|fly|travel|book|use|stay|take|pay|work|eat"
            r"|drink|order|buy|shop|sit|prefer|expect|ask for)\b(?! to (?:ask|know|say"
            r"|check))"
        ),
    ),
    (
        Kind.PREFERENCE,
        ("prioritize prioritise value favor favour insist care stick refuse avoid abstain"),
        "i",
        (
            r"\bi (?:prioriti[sz]e|value|favou?r|insist on|care (?:most|more) about|stick to"
            r"|refuse to|avoid|abstain from)\b(?=.*[a-z])"
        ),
    ),
    (
        Kind.PREFERENCE,
        "always never all",
        "like love want",
        (
            r"\bi(?:'d| would) (?:like|love|want) (?:you to )?(?:always|never|all (?:my|your"
            r"|future))\b"
        ),
    ),
    (
        Kind.PREFERENCE,
        _GENERIC,
        "want need expect like",
        (
            r"\bi (?:want|need|expect|would like|'d like) (?:all |every |your |each "
            rf"|the )?(?:{GENERIC})\b.{{0,40}}"
            r"\b(?:in|to|with|as|at|under|without|only|short|brief)\b"
        ),
    ),
    (
        Kind.PREFERENCE,
        "avoid cut stay quit",
        "try trying",
        (
            r"\bi try to avoid\b|\bi(?:'m trying| try) to (?:cut (?:out|down on)|stay"
            r" (?:off|away from)|quit)\b"
        ),
    ),
    (
        Kind.PREFERENCE,
        "every each asked told informed notified consulted copied",
        "want need expect like",
        (
            r"\bi (?:want|need|expect|would like|'d like)(?: to have)? (?:every|each)"
            r" (?!time|one of|other|detail|possible|bit|step)[a-z]"
            r"|\bi(?:'d| would)? (?:want|like|need) to be (?:asked|told|informed|notified"
            r"|consulted|copied)\b(?! (?:why|how|what))"
        ),
    ),
    (
        Kind.PREFERENCE,
        "whenever every each when",
        "want need expect like",
        (
            r"\bi(?:'d)? (?:want|need|expect|would like|like) .{3,80}\b(?:whenever|every time"
            r"|each time"
            r"|when you (?:recommend|suggest|give|write|answer|reply|quote|cite|plan|book"
            r"|show|send))\b"
        ),
    ),
    (
        Kind.PREFERENCE,
        "answers replies responses explanations summaries",
        "want need expect like get have",
        (
            r"\bi(?:'d| would)? (?:want|need|expect|like|rather (?:get|have))"
            r" (?:(?!more|some|any|no|the|your|these|those|a|an|to|it|how|all|better)[a-z-]+,?"
            r" (?:and )?){1,3}(?:answers|replies|responses|explanations|summaries)\b"
        ),
    ),
    (
        Kind.COMMAND,
        "when whenever",
        "mean means",
        r"\bwhen(?:ever)? i (?:say|write|mention|type|use) .{2,80}\bmeans?\b",
    ),
    (
        Kind.PREFERENCE,
        "every each all",
        "want need",
        (
            r"\bi (?:want|need) .{3,60} (?:at|in|on|with) (?:every|each) (?!one\b|of\b)[a-z]"
            r"|\bi (?:want|need) all (?!of|the|my|these|those|that|your"
            r"|this)[a-z]+ (?:\w+ )?(?:in|to|as"
            r"|with|by)\b"
        ),
    ),
)
