"""How people say how things are to be, whoever does them, in English; data only.

Each pattern is searched in one clause in lower case that holds one of the words before it,
and one of the second list if there is one.
"""

from __future__ import annotations

from typing import Final

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.lexicon import NUMBER, NUMBER_HINTS

__all__ = ["NORMS", "THING"]

_LED: Final = r"^(?:(?:and|but|so|also|ok|please|note|remember|that|here|again),? )*"
# Nobody in particular, and no order: "dinner", "the narrator's name", "pushing to main".
_NO_SUBJECT: Final = (
    r"(?!(?:i|you|he|she|it|they|we|this|that|these|those|there|here|who|what|which|how|why|when"
    r"|where|if|whether|one|none|some|both|either|neither|maybe|perhaps|if|because|since|although"
    r"|though|while|after|before|until|as|in|at|on|for|with|from|to|by|of|than|so|and|or|but|not"
    r"|do|does|did|is|are|was|were|can|could|would|will|let|let's|he's|she's|it's|i'm|there's"
    r"|that's|they're|things|something|someone|somebody|people|yes|thanks|sorry|even)\b)"
)
THING: Final = (
    rf"{_LED}{_NO_SUBJECT}(?:(?!(?:me|you|us|i|can|will|gotta|gonna|is|are|was|were|it|that|so"
    rf"|not|had) )"
    r"[\w'/.&_-]+,? ){1,6}?(?<!and )(?<!to )"
)
_MANY: Final = (
    rf"{_LED}(?:(?:anything|everything|whatever|any|all|every)\b[^,]{{0,40}}?|{NUMBER} [a-z]+"
    rf"|{_NO_SUBJECT}(?!the\b|his\b|her\b|their\b|my\b)(?:[a-z'-]+ ){{0,2}}?"
    r"(?:[a-z'-]+(?<!this)(?<!ss)s|[a-z-]+ing)(?: (?:with|in|from|of|for|to|on|over|under)"
    r" [\w -]{2,30}?)?) "
)
_STRONG: Final = (
    r"(?:forbidden|prohibited|banned|verboten|taboo|off[- ]limits|out of bounds|hands[- ]off"
    r"|untouchable|sacred|read-only|confidential|privileged|mandatory|compulsory|non-negotiable"
    r"|off the (?:table|menu|list)|(?:reserved|only|just) for|capped|unacceptable"
    r"|useless to (?:me|us)|haram"
    r"|(?:not|never) (?:yours|mine|ours|to|named|shown|used|shared|mentioned|told)"
    r"|not (?:allowed|permitted|acceptable|negotiable|an option|up for (?:discussion|debate)|to be)"
    r"|never (?:allowed|permitted|acceptable|an option|to)"
    r"|(?:a|an absolute|a strict|a hard|a firm|a clear) (?:no|must|no-no|no-go|requirement"
    r"|deal[- ]?breaker|given)"
    r"|(?:my|our|the) (?:(?:\w+ )?(?:floor|preference|default|standard|norm|convention|limit"
    r"|maximum|target|goal|unit"
    r"|max|ceiling|cap|minimum|most|least|rule|policy)))(?=$|[.,;!:)]| (?:i|we|you|that|to|for|in"
    r"|at|of|per"
    r"|here|unless|until|when|and|so|with|on|by|please)\b)"
)
_WEAK: Final = (
    r"(?:out|fine|ok|okay|allowed|permitted|welcome|enough|plenty|required|expected|frozen"
    r"|acceptable|unacceptable|blocked"
    r"|reserved|preferred|optional)"
)
_MODAL: Final = (
    r"(?:must(?! have\b)(?! be (?:a (?:mistake|way|bug|joke)|some|so|something|wrong|very|really"
    r"|quite|such|pretty|nice|hard|tired|fun|great|awesome|amazing|tough|exciting|lovely|wonderful"
    r"|incredible|difficult|frustrating|rewarding|joking|kidding|the\b))(?! (?:feel|mean|bring"
    r"|seem|look|love|get|know)\b)|mustn't|may (?:not|only)|may be (?!able|some|a\b|wrong"
    r"|the\b|due\b|because)[a-z]+(?:ed|en|t)\b|should (?:always|never|only)|should(?:n't"
    r"| not) (?!have\b|be (?:a|an|any|too|so|much|that|hard|difficult)\b|it\b)[a-z]+"
    r"|shall|can only be|(?:has|have) to (?:be|stay|have|start|end|come|go|fit|match|keep|meet"
    r"|include|work|run|use|follow|comply|pass|support)\b(?! (?:something|a way|a mistake|so))"
    r"|needs? to (?:be|stay|have|start|end|come|go|fit|match|keep|meet|include|follow|comply"
    r"|pass|support)\b|(?:is|are) (?:not|never|always|only) to be|are to (?:be|stay|go)\b"
    r"|isn't to|aren't to)"
)

NORMS: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    (
        Kind.POLICY,
        (
            "forbidden prohibited banned verboten taboo off off-limits out hands hands-off"
            " untouchable sacred reserved capped useless unacceptable"
            " haram target goal unit floor read-only confidential"
            " privileged mandatory compulsory negotiable"
            " non-negotiable not no never must requirement dealbreaker preference default standard"
            " norm convention limit maximum max ceiling cap minimum most least rule policy"
        ),
        "",
        (
            rf"{THING}(?:(?:is|are|stays?) |(?<='s ))(?:\w+ly |also )?{_STRONG}\b|{THING}(?:isn't"
            rf"|aren't) (?:allowed"
            r"|permitted|acceptable|ok|okay|an option|negotiable|to be|welcome)\b"
        ),
    ),
    (
        Kind.POLICY,
        (
            "out fine ok okay allowed permitted welcome enough plenty required expected frozen"
            " acceptable unacceptable blocked reserved preferred optional"
        ),
        "",
        (
            rf"{_MANY}(?:(?:is|are|isn't|aren't) |(?<='s ))(?:not |always |never "
            rf"|strictly )?{_WEAK}\b(?! of\b)"
        ),
    ),
    (
        Kind.POLICY,
        "must mustn't should shouldn't shall",
        "",
        rf"{THING}{_MODAL}",
    ),
    (
        Kind.POLICY,
        "may can has have need needs isn't aren't is are",
        (
            "be only not never stay have start end come go fit match"
            " keep meet include work run use follow"
            " comply pass support always"
        ),
        rf"{THING}{_MODAL}",
    ),
    (
        Kind.POLICY,
        "nobody nothing no",
        "be gets get goes go leaves ships touches enters merges may can should must is lands runs",
        (
            r"^(?:and |but |so |also |please )*(?:nobody|no one|nothing)(?: (?:but|except|else|in"
            r"|on"
            r"|from|under|with|that|i|we|you) [\w' ]{2,40}?)? (?:gets?|goes|leaves|ships|touches"
            r"|enters|merges"
            r"|lands|runs|moves?|changes without|may|can(?= (?:be|go|get|touch|leave|enter|edit"
            r"|change))|should(?! have)"
            r"|must(?! have)|is (?:to|allowed))\b(?! (?:wrong|better|me\b|to me))"
        ),
    ),
    (
        Kind.POLICY,
        "anything everything whatever",
        (
            "is are needs need gets goes stays has requires counts belongs should must can may be"
            " comes stay"
        ),
        (
            r"^(?:and |but |so |also |please )*(?:anything|everything|whatever)\b(?! (?:is|was|are"
            r"|works|looks|seems|went|else)\b).{2,60}?\b(?:(?:is|are) (?:out|off|fine|not|never|to"
            r"|confidential|mine|hers|his|private|a no|ok|okay|for)|needs?|gets|goes|stays?|has to"
            r"|requires?|counts|belongs|should|must|can (?:go|stay|wait)|may|be)\b"
            r"(?! (?:well|wrong|on|better|worse))"
        ),
    ),
    (
        Kind.POLICY,
        (
            "only word sign-off signoff approval go-ahead consent"
            " permission say-so blessing okay ok yes say"
            " sign approve"
        ),
        "my our me i us i'm am",
        (
            r"\b(?:needs?|requires?|without|get|wants?|awaits?|waits? for"
            r"|subject to) (?:an? )?(?:my|our"
            r"|yes from (?:me|us)|(?:[a-z]+ )?(?:ok|okay|approval|sign-?off) (?:from|by) (?:me"
            r"|us))\b"
            r"|\bi (?:have|get|want) the (?:final|last) (?:say|word)\b|\bi(?:'m"
            r"| am) the only (?:one|"
            r"person) (?:who|that|to|allowed)\b|\bi (?:sign off on|approve) (?:every|each|all"
            r"|any)\b"
            r"|\bonly i (?:can|may|get to|am allowed)\b"
        ),
    ),
    (
        Kind.POLICY,
        "applies apply goes holds counts",
        "to for",
        rf"{THING}(?:appl(?:y|ies)|goes|holds|counts) (?:to|for) (?:all|every|any|each)\b",
    ),
    (
        Kind.POLICY,
        (
            "night nights weekdays weekends morning mornings"
            " evening evenings overnight daily weekly"
            " nightly mondays tuesdays wednesdays thursdays fridays"
            " saturdays sundays noon bedtime at"
        ),
        "goes go stays stay comes come turns opens closes shuts locks never runs starts ends",
        (
            rf"{THING}(?:go(?:es)?|stays?|comes?|turns?|closes?|shuts?|locks?|runs?|starts?|ends?)"
            r" (?:off|on|out|down|up|shut|closed|open|locked|dark|in|inside|outside|plugged|at)\b"
            r".{0,30}\b(?:(?:all|at|every|each|school|week) ?(?:nights?|mornings?|evenings?|days?)"
            r"|weekdays|weekends|mornings|evenings|overnight|daily|nightly|(?:mon|tues|wednes|thurs"
            r"|fri|satur|sun)days|before noon|bedtime|at \d)\b"
        ),
    ),
    (
        Kind.POLICY,
        (
            "mornings evenings afternoons nights weekends weekdays lunchtime lunch mondays tuesdays"
            " wednesdays thursdays fridays saturdays sundays"
        ),
        "are is i we count stay",
        (
            r"^(?:and |but |so |also |on |my |our )*(?:alternate |most |all )?(?:mornings|evenings"
            r"|afternoons|nights|weekends|weekdays|lunch(?:time)?|(?:mon|tues|wednes|thurs|fri"
            r"|satur"
            r"|sun)day(?:s| nights| mornings| evenings| afternoons))\b(?:,?"
            r" and [\w ]+?)?(?:(?: \w+){0,2} (?:are|is|count as|stay) (?!the\b|so\b"
            r"|hard\b|great\b|fun\b|best\b|always\b|my fav|nice|crazy|busy|usually|when|what|really"
            r"|like|a\b|just|good|bad|tough|pretty)|(?: (?:from|after|until|before) \w+)?,? (?:i"
            r"|we) (?!was|were|had|went|got|did|used"
            r"|love|would|always went|\w+ed\b)[a-z]+ )"
        ),
    ),
    (
        Kind.POLICY,
        "week weeks month months year quarter quarters sprint sprints day days",
        "start starts begin begins end ends run runs",
        (
            r"^(?:and |but |so |also |the |our |a |my )*(?:[a-z]+ )?(?:weeks?|months?|years?"
            r"|quarters?|sprints?"
            r"|days?) (?:starts?|begins?|ends?|runs?) (?:on|in|at|from|with)\b(?!.*\b(?:badly"
            r"|with a bang)\b)"
        ),
    ),
    (
        Kind.LIMIT,
        "all",
        "have get got need has",
        (
            r"(?<!that)(?<!this)(?<!it)(?<!which) is all (?:that )?(?:you|i|we) (?:have|'ve got|get"
            r"|need|can)\b"
        ),
    ),
    (
        Kind.LIMIT,
        "tops top maxes max out enough plenty minimum maximum limit ceiling most max least",
        NUMBER_HINTS,
        (
            rf"\b(?:tops?|max(?:es)?) out at .{{0,12}}{NUMBER}"
            rf"|\b(?!one\b){NUMBER}[\w ,€$£%-]{{0,40}} (?:is|are|will be) (?:\w+ )?(?:enough"
            rf"|plenty|all"
            rf"|(?:the|my"
            r"|our) (?:absolute )?(?:max|maximum|limit|ceiling|cap|most|min|minimum|least|upper)|as"
            r" (?:much|many|high|low|far) as)\b"
        ),
    ),
)
