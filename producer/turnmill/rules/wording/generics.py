"""How people state what is always so: of kinds of things, of numbers, of themselves; data only.

Each pattern is searched in one clause in lower case that holds one of the words before it,
and one of the second list if there is one.
"""

from __future__ import annotations

from typing import Final

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.lexicon import NUMBER, NUMBER_HINTS, TIME_HINTS, words_of
from turnmill.rules.wording.norms import THING
from turnmill.rules.wording.things import GENERIC, MADE

__all__ = ["GENERICS"]

_BY_PERSON: Final = (
    r"\b(?:order|flight|reservation|booking|ticket|zip|phone|id|email|total|bill|number|address|age"
    r"|birthday|appointment|package|parcel|score|grade|son|daughter|sister|brother|car|dog|cat"
    r"|house"
    r"|name|answer|price|code|password|balance)\b"
)
GENERICS: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    (
        # "Client names stay out of emails", "exceptions get wrapped", "secrets belong in a vault".
        Kind.POLICY,
        (
            "stay stays remain remains get gets goes wait waits belong belongs count counts comes"
            " need needs makes gives matter matters beat beats trump trumps become trigger"
            " triggers comes default defaults govern governs takes lives wins"
        ),
        "",
        (
            # "Parcel 17 goes to 12 Long Street" is of one parcel.
            rf"^(?!\w+ #?\d){THING}(?:(?:stays?|remains?) (?!the same|with me|the night|home|there"
            rf"|here|up late)[a-z]+"
            r"|(?:gets|(?<=s )get) (?!lost|stuck|tired|bored|\w+ed (?:every time|when)|annoyed"
            r"|confused|excited)(?:\w+ed"
            r"|\w+en|fed|done|made|sent|shown|cut|put|kept|paid|read|run|built)\b"
            r"|goe?s? (?:to|through|into|via|last|first|under|before|after|only)\b(?! (?:bed|school"
            r"|sleep"
            r"|work|show|the (?:gym|beach|park)|college))"
            r"|needs? (?:an?|two|three|their|my|our|no|at least) (?!lot|break|rest|hand|moment"
            r"|minute"
            r"|few|new|bit|big|good|little|change\b)[a-z]"
            r"|makes? me (?:ill|sick|anxious|itch|nauseous|dizzy|break out|nervous|sneeze|bloated"
            r"|sleepy)"
            r"|gives? me (?:migraines?|headaches?|hives|a rash|cramps|heartburn|nightmares|reflux)"
            r"|matters? (?:to|most to) (?:me|us)|(?:beats?|trumps?) (?:every|all|any|everyone|a\b"
            r"|the\b)"
            r"|waits? (?:for|till|until)|belongs? (?:in|to|on|under)|counts? as|comes? (?:first"
            r"|last"
            r"|before"
            r"|after|with|out of)|defaults? to|governs?\b|takes? (?:priority|precedence)"
            r"|lives? (?:in"
            r"|under)"
            r" (?!my|a\b|the (?:city|country|house|us|uk)|[A-Z])[a-z/.]+|wins?[.!]*$)(?!.*\b(?:lol"
            r"|ago|last)\b)"
        ),
    ),
    (
        Kind.POLICY,
        "work works fit fits suit suits do does",
        "don't doesn't never for out",
        (
            rf"{THING}(?:don't|doesn't|never) (?:work|fit|suit|do it)\b(?: well)? (?:for (?:me|us)"
            rf"|me\b|us\b)"
            r"|\b(?:is|are) (?:not )?(?:for me|my thing|worth (?:telling|waking|calling|showing"
            r"|paging) me)\b"
            r"|\b(?:isn't|aren't) (?:for me|my thing|worth (?:telling|waking|calling|showing|paging"
            r"|it to) me)\b"
        ),
    ),
    (
        # "Line length is 88", "rest day is Thursday", "our minimum supported iOS is 15".
        Kind.LIMIT,
        "is are",
        NUMBER_HINTS + " " + TIME_HINTS + " p",
        r"^(?:and |but |so |also |please |note: )*(?!.*" + _BY_PERSON + r")(?:(?:my"
        r"|our) (?:[\w'-]+ )"
        r"{1,4}?|(?!it\b|this|that|there|here|he\b|she\b|what|when|where|how|which|who|one\b"
        r"|today|tomorrow"
        r"|yesterday|the\b|a\b|an\b|these|those|his\b|her\b|their\b|its\b|if\b|they\b|we\b|you\b"
        r"|i\b|mine\b|"
        r"\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day)(?:[a-z'-]+ ){1,3}?)(?:is|are) (?:now "
        r"|always |only"
        rf" |set to |fixed at |on |from |p )?(?:(?!one\b|half\b)(?:{NUMBER}|\.\d+)(?![\w-]*(?:st"
        rf"|nd|rd|th) (?:time|one))"
        rf"|(?:[a-z]+days?)\b|(?:below|under|above|over) {NUMBER})(?! (?:of the|year|years old"
        rf"|months old|hours? (?:late"
        r"|away)|minutes? (?:late|away)|more\b|kids|children|sisters|brothers))",
    ),
    (
        Kind.LIMIT,
        "max min minimum maximum",
        NUMBER_HINTS,
        (
            rf"^(?:[\w'-]+ ){{1,4}}(?:max|min|maximum|minimum)(?: of)? {NUMBER}"
            rf"|^{NUMBER} [a-z]+ (?:max|min|maximum|minimum|tops)\b"
        ),
    ),
    (
        # What is kept, fixed or counted so.
        Kind.POLICY,
        (
            "kept held fixed counted stored written measured billed"
            " charged singular plural paid fine double"
        ),
        "is are count counts gets",
        (
            rf"{THING}(?:is|are) (?:always |never |only )?(?:kept|held|fixed|counted|stored|written"
            rf"|measured|billed|charged|singular"
            r"|plural|(?:fine|ok|okay|good enough) (?:by|with|for) me)\b(?! (?:yet|up|back|wrong"
            r"|twice|by the))"
            rf"|{THING}counts? (?:double|half|twice|for|as)\b"
        ),
    ),
    (
        # "As a rule I tip 10 percent", "from this point on deal with my lawyer".
        Kind.COMMAND,
        "rule point onwards forward default future notice now here today henceforth principle",
        "as from going by in until",
        (
            r"^(?:and |but |so |please )*(?:as a (?:general )?rule|as a matter of principle"
            r"|on principle|from (?:now|this"
            r" point|here|today) (?:on(?:wards?)?|forward)|going forward|henceforth|by default"
            r"|until further notice|in"
            r" (?:the )?future)\b,? (?!i'll|we'll|i will|i want to|i'm|it\b|my life|i hope|i plan"
            r"|i might)[a-z]"
        ),
    ),
    (
        # Who the agent is to be.
        Kind.COMMAND,
        "you're you",
        "helping playing acting talking writing assisting representing play assume",
        (
            r"^(?:and |but |so |now )*(?:you(?:'re| are) (?:now )?(?:helping|playing|acting (?:as"
            r"|for)|talking to|writing (?:for"
            r"|as)|assisting|representing|to (?:act|be|play|stay|speak|write|answer|keep|treat|use"
            r"|work)) (?!me\b|with"
            r"|it|this|great|a lot)|you play (?!with|well|a lot)|you (?:can|may|should) assume)\b"
        ),
    ),
    (
        # "Dashboards: dark theme", "my style: dry, no puns".
        Kind.FORMAT,
        ":",
        words_of(GENERIC) + " tone style format language length voice spelling theme layout order",
        (
            rf"^(?:all |my |the |our )?(?:[a-z'-]+ )?(?:{MADE}|tone|style|format|language|length"
            rf"|voice|spelling|theme"
            r"|layout|flights|meetings|hotels|meals|dashboards|invites|calls)(?: (?:of|in|for|over"
            r"|under|with) [\w' ]{2,25})?:"
            r" (?!i\b|i'm|yes|no$|the\b|my\b|see\b|_|here|\W)[\w' ,-]{2,60}[.!]*$"
        ),
    ),
    (
        # "Trains over planes", "hints before answers", "X first, Y later".
        Kind.PREFERENCE,
        "over before first instead",
        "",
        (
            r"^(?:use |pick |choose |favou?r |please )?(?!(?:the|a|an|this|that|my|i|it|he|she|we"
            r"|they|you|just|come"
            r"|game|think|all|go|start|over|two|three|get|wait|and|is|was|not|right|day|shortly"
            r"|well"
            r"|long|years"
            r"|days|weeks)\b)(?:[a-z-]+ ){1,2}(?:over|before) (?!the|it|this|that|there|here|my"
            r"|your"
            r"|a\b|an\b|i\b"
            r"|we|you|\d|night|lunch|dinner|noon|going|we\b|he\b|she\b|they\b"
            r"|and)[a-z-]+(?: [a-z-]+)?[.!]*$"
            r"|^[a-z-]+ first, (?:then )?[a-z-]+ (?:later|second|after|next|last)\b"
        ),
    ),
)
