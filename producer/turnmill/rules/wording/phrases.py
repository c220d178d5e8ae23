"""What orders are told by, compiled: how they open, what makes them last; data only."""

from __future__ import annotations

import re
from typing import Final

from turnmill.rules.wording.lexicon import (
    CHATTER,
    FORMATS,
    GATES,
    NUMBER,
    STANDING,
    words,
    words_of,
)
from turnmill.rules.wording.things import GENERIC, MADE

__all__ = [
    "AGREED",
    "ANAPHOR",
    "BEFOREHAND",
    "BY_ITSELF",
    "CHATTER_SAID",
    "COMPOSED",
    "CONDITIONS",
    "DOUBT",
    "EMBEDDED",
    "ENDS_ONLY",
    "FORMATS_SAID",
    "FORM_HINTS",
    "GATED",
    "GENERIC_IF",
    "GENERIC_WHEN",
    "HINTS",
    "IMPERATIVE",
    "LED_UP",
    "MINE",
    "NEGATED_TAIL",
    "NOTHING",
    "NO_FRAGMENT",
    "ONE_MADE",
    "ONE_THING",
    "ONLY_FRAGMENT",
    "OPENED",
    "PARTICIPLE",
    "PER",
    "STANDING_SAID",
    "TELL",
    "TELLERS",
    "TELLING",
    "THIS_ONCE",
    "TOLD",
    "TO_YOU",
]

# Without one of these words a sentence orders nothing that lasts.
HINTS: Final = words(
    "don't not never always avoid refrain stop quit only strictly nothing nobody no none whenever "
    "every each per consistently forward henceforth future default unless throughout without until "
    "anytime times rest general now next"
)
# With one of these, it may if it also has a verb to order with.
CONDITIONS: Final = words(
    "when before after while if all any alone out everything anything me things "
    "doubt stick skip mind around account"
)
FORM_HINTS: Final = frozenset(words_of(FORMATS).split()) | words(
    "hour person prices dates times amounts numbers names units distances "
    "temperatures comments summaries "
    "titles quotes links headings measurements fractions currencies totals"
)

# Opening with one of these, a clause tells or asks: an order can only follow a comma.
TELLERS: Final = words(
    "he she they it it's there there's that's my we i've i'm we're we've the a "
    "an this these our his "
    "her their what how why who where is are was were i'll we'll"
)

OPENERS: Final = (
    r"(?>(?:(?:and|but|so|also|then|ok|okay|oh|yes|yeah|hi|hey|hello|well|now|just|kindly|please"
    r"|pls"
    r"|remember(?: to| that)?|note(?: that)?|important(?:ly)?|nb|reminder|btw|fyi|first|second"
    r"|finally|lastly|additionally|again|plus|thanks|thank you|sure|great|perfect|alright|actually"
    r"|rule|rules|one more thing|by the way|for the record|this is an important constraint|simply"
    r"|instead|otherwise|therefore|in (?:addition|short|particular)|strictly|do please)"
    r"\b[,:.!;\s–—-]*)*)"
)
ASKED: Final = (
    r"(?:(?:make sure|be sure|see to it|ensure|try|remember|take care|be careful|i expect you"
    r"|i(?: would|'d)? (?:want|need|like|prefer)(?: for)? you|i(?:'d| would)?"
    r" (?:ask|request)(?: that)? you"
    r"|you (?:should|must|need|have|are|shall|ought)|could you|can you|would you|will you)\s+"
    r"(?:please |kindly |then )?(?:that you |to |that |you )?)?"
)
LED: Final = (
    r"(?:(?:from now on(?:wards?)?|from (?:here|this point|today) on(?:wards?)?|going forward"
    r"|moving forward|henceforth|in (?:the )?future|next time|by default|as a (?:general )?rule"
    r"|at all times|in general|under no circumstances?(?: should you)?|for the rest"
    r" of (?:this|the|our|my) [\w-]+)"
    r"[,.:]?\s+)?"
)
OPENED = re.compile(OPENERS)
IMPERATIVE = re.compile(
    rf"{OPENERS}{LED}{OPENERS}{ASKED}(?:please |kindly |just )*"
    r"(?P<not>(?:do not|don't|do n't|never|not to|not|avoid|refrain from|(?:stop"
    r"|quit)(?= [a-z]+ing\b)|no longer)\s+(?:ever |please )*)?"
    r"(?P<adverb>(?:always|only|consistently|strictly|generally|usually|simply|just"
    r"|please|kindly|ever)\s+)*"
    r"(?P<verb>[a-z-]+)\b(?P<rest>.*)",
    re.DOTALL,
)
LED_UP = re.compile(rf"{OPENERS}{LED}{OPENERS}")
PARTICIPLE = re.compile(
    r"(?:been|had|seen|heard|done|gone|thought|knew|felt|got|made|met|mind|again|once|\w+ed)$"
)
NEGATED_TAIL = re.compile(r"\s*$|\s+(?:it|that|this|them|so|yet|too much)\b[^a-z]*$|.*\byet\b")
STANDING_SAID = re.compile(rf"\b(?:{STANDING})\b")
EMBEDDED = re.compile(r"\b(?:that|which|who|whom|because|why|how|where|if it|said)\b[^,]*$")
CHATTER_SAID = re.compile(CHATTER)
FORMATS_SAID = re.compile(rf"\b(?:{FORMATS})\b")
# Orders that are never for once.
MINE = re.compile(r"(?:[a-z]+,? )?(?:i|we|i'd|i'll|i'm|i've)\b")
TO_YOU = re.compile(
    r"(?:so |but |and |then )*(?:please|kindly|always|never|only|don't|do not|no|nothing|make sure"
    r"|be sure|keep|avoid|refrain|stick|use|assume|skip|leave)\b"
)
TELLING = re.compile(
    r"(?:(?!when|if|before|after|until|once|while|as|unless|where|because|since)[a-z]+,? )?"
    r"(?:i|we|i'd|i'll|i'm|i've|we're|we've)\b"
)
AGREED = re.compile(r"(?:then |so )*(?:yes|yeah|yep)\b")
BY_ITSELF = re.compile(
    r"(?:make sure (?:that )?(?:every|each|no|nobody|nothing|only) (?!one)"
    r"|leave (?!me\b)[\w' -]{2,50} alone|leave (?!me\b)[\w' -]{2,40} out of"
    r"|leave out|treat (?:everything|anything"
    r"|all|every|any)|skip the [a-z]+s\b"
    r"|refer to me|speak to me|talk to me|address me|explain (?:things|everything)"
    r"|assume (?:that )?i\b"
    r"|stick to (?!.*\b(?:today|tonight|tomorrow|this (?:week|month|morning|weekend))\b)"
    r"|go easy on|spare me|in doubt|when in doubt|if in doubt"
    r"|(?:keep|bear) (?:that|this|it) in mind|(?:plan around|plan for|allow for|account for"
    r"|adjust for) (?:that|this|it)"
    r"|take (?:that|this|it) into account)"
)
ONE_THING = re.compile(
    r"\b(?:this|that|these|those|above|following|next|his|her|attached"
    r"|the (?:first|second|third)(?! person)|the (?:article|text|essay|report|email"
    r"|letter|story|paper|document|passage|chapter|page|file"
    r"|book|video|list|last|header|logo|class|function|app|site|website|code|data"
    r"|result|results|problem|steps|proof|same)"
    r"|my (?:resume|essay|letter|cover|code|app|site|website|portfolio|project|card"
    r"|account|order))\b"
)
COMPOSED: Final = words(
    "write give show make provide present describe explain summarize summarise "
    "list translate convert "
    "state report recommend suggest put display render treat order begin start end book schedule"
)
ONE_MADE = re.compile(r"\b(?:an?|one|it|some|me the|how)\b")
DOUBT = re.compile(
    r"^(?:when|if|where) (?:in doubt|unsure|not sure)\b|^(?:when|where)(?:ver)?"
    r" (?:possible|relevant|applicable|appropriate)\b"
)
GENERIC_WHEN = re.compile(
    r"^(?:and |but |so |also |please )*(?:when|whenever|every time|each time|any"
    r" ?time|before|after|while|if)\b"
    r"(?=.*\b(?:you|i|we|a|an|any|every|each|anything|someone|something|\w+s)\b)"
)
GENERIC_IF = re.compile(
    r"^(?:and |but |so |also |please )*if (?:you(?:'re| are) (?:going|about) to\b|(?:i"
    r"|you) (?:ever|need to|want to|have to|must|ask|say|mention"
    r"|forget|are un|'re un|aren't sure"
    r"|are not sure|are in doubt|don't know|do not know|cite|quote|recommend"
    r"|suggest|use|have to guess)"
    r"|you're (?:un|not sure|in doubt)|in doubt|unsure|not sure|uncertain|any"
    r"|someone|something|somebody"
    r"|an? |the [\w -]{2,30}? (?:is|are|goes|go|exceeds?|costs?|drops?|rises?"
    r"|takes?)\b.{0,14}(?:over|above|below"
    r"|under|more|less|longer|\d)|there (?:is|are) (?:an?|any|no)|nobody|no one|nothing)"
)
THIS_ONCE = re.compile(
    r"\b(?:it|this|that|these|those|them|chance|ready|done with|finished with|arrive|the)\b"
    r"|\b(?:you|i|we) (?:have (?:a|an|some|the)? ?(?:time|minute|moment|second|update|answer)"
    r"|can|get (?:home|there|back|to)|come to|find|pull)\b|'re (?:ready|done|finished)"
    # What is under way comes to its next step; "before you start a new task" is of each.
    r"|\bbefore (?:you|i|we) (?:proceed|submit|finali[sz]e|decide|continue|go (?:ahead|on)|move on"
    r"|start|begin|transfer|wrap up|sign off|hang up|close)\b"
    r"(?! (?:an?|any|each|every|another|new|with any|[a-z]+s)\b)"
)
TELL = re.compile(r"^(?:let|tell|give|contact|inform)\b")
GATED = re.compile(
    rf"\b(?:{GATES})\b.*\bbefore\b(?! (?:the|noon|\d|{NUMBER}|tomorrow|i |we ))"
    rf"|\bwithout (?:asking|my)\b"
    r"|\b(?:ask|check)(?: with)? me first\b|\bask (?:me |us )?(?:first )?before\b"
)
BEFOREHAND = re.compile(r"\b(?:first|beforehand|before|up front|in advance|ahead)\b")
ANAPHOR = re.compile(r"\b(?:it|this|that|them)\b")
NO_FRAGMENT = re.compile(
    r"(?:and |but |so |also |please |with )*(?:absolutely )?no (?:more )?([a-z-]+'?[a-z]*)(.*)",
    re.DOTALL,
)
TOLD = re.compile(
    r"\b(?:is|was|are|were|has|have|had|been|did|came|yet|for now|right now|today|from my)\b"
)
NOTHING = re.compile(
    r"(?:and |but |so |also |please )*(?:nothing|nobody|no one|none) (?:over|under"
    r"|above|below|with|that|from"
    rf"|before|after|on|at|until|for|but|except|more|less|else may|may|should|must|can|gets|is"
    rf" (?:allowed|to)|(?:over|under) {NUMBER})\b"
)
ONLY_FRAGMENT = re.compile(
    r"(?:and |but |so |also |please )*(?:only|strictly) (?!the\b|this|that|these"
    r"|one\b|two\b|if\b|when\b|then|a\b|an\b|because|i\b"
    r"|to\b|yesterday|today|about|some|in (?:19|20)|once|just|for\b)[a-z]+"
)
ENDS_ONLY = re.compile(
    r"^(?!.*\b(?:this|that|these|it|for|one|item)\b)[^?]{3,80}\bonly(?:[,.! ]+please)?(?:[.!]*$"
    r"|, (?!but|so|to\b|when|if|because))"
)
PER = re.compile(
    rf"(?:(?:{MADE}) in|(?:{GENERIC}) (?:always |only |never )?(?:in the [a-z]+|under|below"
    rf"|within|as|with"
    rf"|without|at most|no longer than))\b"
)
