"""The words rules are made of, in English; data only."""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "ACTIONS",
    "CHATTER",
    "FORMATS",
    "GATES",
    "IDENTITIES",
    "NO_NOUN",
    "NUMBER",
    "NUMBER_HINTS",
    "SOFT",
    "STANDING",
    "STYLE",
    "TIMES",
    "TIME_HINTS",
    "VERBS",
    "words",
    "words_of",
]


def words(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


def words_of(pattern: str) -> str:
    """The words a list of alternatives can begin with, to look for before it is searched."""
    plain = _OPTIONAL.sub(r"\1\3|\1\2\3", pattern)
    return " ".join(word for word in _BEGINS.findall(plain) if word not in _TOO_COMMON)


_OPTIONAL: Final = re.compile(r"([a-z]+)([a-z])\?([a-z]*)")
_TOO_COMMON: Final = words("a an in on be to not non one first second third last like")
_BEGINS: Final = re.compile(r"(?:^|\|)(?:(?:an?|in a|on a|on) )?([a-z']+)")

# Base forms a command can open with.
VERBS: Final = words(
    "accept access acknowledge act add address adjust admit advise aim allow"
    " answer append apologize "
    "apply approach archive arrange ask assign assume attach authorize avoid back backup base be "
    "begin bill block bold book bring build bundle buy calculate call cancel cap"
    " capitalize carry cc "
    "change charge check choose cite clarify clean clear close code combine comment commit "
    "communicate compare complete compress compute confirm connect consider"
    " consult contact continue "
    "convert cook copy correct count create cross-check debug decline default"
    " delete deliver deploy "
    "describe design discuss display disclose divide do document double-check download draft drop "
    "edit email emit emphasize enable encrypt end end ensure enter escalate"
    " estimate exclude execute "
    "expand explain export expose fall favor favour fill filter find finish fix flag focus follow "
    "force forget format forward generate get give go greet group guess handle have help hide "
    "highlight hold ignore implement include indent inform insert insist install invite invoice "
    "issue italicize justify keep label lead leave let limit link list log look lowercase maintain "
    "make mark mask match measure mention merge message minimize minimise mix modify move name "
    "never note notify number offer omit open order organize output pass pause pay"
    " phone pick place "
    "plan point post prefer prefix prepare present price print prioritize"
    " prioritise proceed process "
    "produce promise proofread propose provide publish pull purchase push put quote rate read "
    "recommend record redact reveal refactor refer reference refrain refund reject"
    " release rely remember "
    "remind remove rename render repeat replace reply report request require reschedule reserve "
    "respect respond restate restrict restart return reuse review revert rewrite"
    " rotate round route "
    "run save say schedule scale search seat select send separate serve set share ship show sign "
    "simplify skip sort speak spell spend split squash stage start state stay stick stop store "
    "structure submit substitute suggest sum summarize summarise supply support surface switch tag "
    "take talk target tell test text think throw tie time title touch track"
    " transfer translate treat "
    "trim trust try turn type underline undo update upgrade upload use validate"
    " verify wait walk warn "
    "watch work wrap write"
)

# Ways of speaking and showing: with a form named, they are asked of all that follows.
STYLE: Final = words(
    "reply respond answer write speak talk use keep stick cite format include show give end begin "
    "start sign limit address call avoid prefer spell list round express output"
    " present render skip "
    "omit explain structure indent name label prefix default refer describe phrase quote make put "
    "display summarize summarise state report be stay wrap capitalize capitalise communicate "
    "translate convert cap drop order serve suggest recommend pick favor favour provide treat "
    "prioritize prioritise base measure order schedule book assume"
)

# What a style is named by.
FORMATS: Final = (
    r"bullets?|bullet points?|bulleted|numbered lists?|prose|paragraphs?|one-liners?|short|shorter"
    r"|brief|briefly|concise|concisely|terse|succinct|long|detailed|thorough"
    r"|verbose|in-depth|high-level|simple|plain|formal|formally|informal|casual"
    r"|polite|friendly|professional|neutral|direct|blunt|metric|imperial|celsius|fahrenheit"
    r"|kilometers|kilometres|miles|kilograms|kg|pounds|english|german|french"
    r"|spanish|italian|portuguese"
    r"|dutch|british|american|chinese|japanese|markdown|json|yaml|csv|xml|html"
    r"|latex|tables?|emojis?"
    r"|emoticons?|exclamation marks?|jargon|buzzwords|slang|acronyms|abbreviations|tone|style"
    r"|spelling|digits|numerals|words or less|decimals?|decimal places|significant figures|euros?"
    r"|dollars|usd|eur|gbp|24-hour|24h|12-hour|military time|iso|utc|gmt|cet|cest"
    r"|est|pst|pacific time|eastern time|central time|mountain time|local time|dd[/.-]mm"
    r"|mm[/.-]dd|yyyy"
    r"|day-month|month-day|sentences?|tabs|spaces|type hints?|docstrings?|snake_case|camelcase"
    r"|kebab-case|code blocks?|citations?|sources|apa|mla|chicago style|first person|third person"
    r"|second person|active voice|passive voice|present tense|oxford commas?|layman|lay terms"
    r"|non-technical|technical terms|step by step|step-by-step|headings|headers|footnotes"
    r"|lower ?case|upper ?case|title case|capital letters|dark mode|vegan|vegetarian|gluten-free"
    r"|halal|kosher|python|typescript|javascript|rust|java|first names?|surnames?|last names?"
    r"|pronouns|sir|madam|small talk|filler|disclaimers?|apologies|preamble|formalities|semicolons?"
    r"|pytest|unittest|async|large print|plain text|plain english|screen reader"
)

# Idle talk between people: never an order to an agent.
SOFT: Final = words(
    "worry forget hesitate give mind be let lose miss stress sweat panic apologize"
    " bother beat stop "
    "limit feel think doubt judge underestimate knock know get quit rush hate blame look need "
    "understand want have see believe hold take care sleep fret despair fear die cry tempt wait "
    "you we they i really even"
)

CHATTER: Final = (
    r"^(?:please )?(?:do not|don't|never) (?:tell me (?:it|that|you|he|she|we|they|i)"
    r"|forget (?:how|that you|to (?:take|have|be|enjoy|give|"
    r"smile|breathe|celebrate|treat|rest))|give up|lose|let|mind|worry|stop (?:believing|trying|"
    r"learning|dreaming|being)|be (?:afraid|shy|sad|angry|hard|scared|too|so)|get me wrong|hesitate"
    r"|say never|underestimate|look back|miss|take it)"
    r"|\byourself\b|^let me know"
    r"|\blet (?:me|us) know (?:if|when|whether) you(?:'d)? (?:need|want|like|ever|have any)\b"
    r"|^let's\b|\bcan't wait\b|\bhow \w+ (?:you are|i am)\b"
    r"|\bkeep (?:up the|it up)\b|\bkeep (?:pushing|going|moving forward|shining|smiling)[.!]*$"
    r"|^(?:just )?keep (?:pushing|going|moving forward|shining|smiling)\b"
    r"|\bstay (?:patient|positive|strong|true)\b"
)

# Said of an order, it makes it last.
STANDING: Final = (
    r"always|never|whenever|every ?time|each time|any ?time|from now on(?:wards?)?"
    r"|from (?:here|this point|today|tomorrow) on(?:wards?)?|from this point forward"
    r"|going forward|moving forward|henceforth|in (?:the )?future|until further notice"
    r"|(?:un)?til i (?:say|tell|ask)|unless i|for the rest of|rest of (?:this|the|our)"
    r"|throughout|by default|at all times|at any time|as a rule|as a general rule|in general"
    r"|next time|in all (?:my|your|our|future)|when(?:ever)? i (?:ask|say|mention"
    r"|request|want|need|write|send)"
    r"|if i (?:ask|say|mention|ever|forget|request)|without (?:asking|telling|checking|consulting"
    r"|my (?:permission|approval|consent|ok|okay|explicit|say-so|confirmation)|exceptions?)"
    r"|no matter (?:what|how|who|when)|under (?:no|any) circumstances|at all|on my behalf"
    r"|consistently|all future|by the end of (?:every|each)|(?:once|twice) an? (?:day|week|month)"
    r"|(?<!cost )(?<!price )(?<!rate )(?<!fee )(?:per|each|every) (?:message|reply|response"
    r"|answer|turn|day|week|month|time|commit|file)"
    r"|as long as|on (?:mon|tues|wednes|thurs|fri|satur|sun)days|on week(?:ends|days)"
    r"|in (?:your|all) (?:answers|replies|responses|messages|explanations|summaries|emails)"
)

# Verbs an agent can be kept from.
ACTIONS: Final = (
    r"use|modify|change|edit|delete|ask|share|contact|send|book|spend|touch|run|install|enter|open"
    r"|read|write|call|email|text|message|push|merge|commit|deploy|charge|cancel|order|buy|pay"
    r"|mention|include|disclose|reveal|store|save|access|add|remove|make|schedule|invite|reply"
    r"|respond|answer|go|exceed|skip|assume|guess|submit|post|publish|move|rename|create|wait|check"
    r"|do|give|tell|show|discuss|log|wait|respond|confirm|start|leave|bill|refund|exchange|return"
)

# To ask, or to wait for, before anything is done.
GATES: Final = (
    r"(?:ask|check(?: with)?|confirm(?: with)?|consult|warn|notify|tell|show|inform"
    r"|alert|ping|run it by)"
    r" (?:with )?(?:me|us)|get my (?:ok|okay|approval|permission|consent|confirmation|sign-off)"
    r"|wait for (?:me|my)|have me (?:confirm|approve)"
)

IDENTITIES: Final = (
    r"vegan|vegetarian|pescatarian|flexitarian|pescetarian|coeliac|celiac|diabetic"
    r"|type [12] diabetic"
    r"|asthmatic|epileptic|anaemic|anemic|hypertensive|pregnant|breastfeeding|colou?r-?blind|blind"
    r"|deaf|hard of hearing|dyslexic|autistic|visually impaired|left-handed|muslim|jewish|hindu"
    r"|buddhist|sikh|jain|mormon|teetotal|teetotaler|teetotaller|sober|kosher|halal|lactose|gluten"
    r"|wheelchair user|wheelchair-bound|in a wheelchair|non-binary|nonbinary|transgender|a minor"
    r"|a beginner|an absolute beginner|a complete beginner|a novice|a non-native|not a native"
    r"|a native|on a (?:\w+ )?(?:diet|budget|fixed income|tight)|keto|paleo|low-carb|fasting"
    r"|self-employed|exempt|vat exempt|a charity|an? (?:\w+ )?(?:visual|auditory) (?:person"
    r"|learner)|sighted|partially sighted"
    r"|low-vision|a light sleeper|an early riser|a night owl|a morning person|afraid of (?:flying"
    r"|heights)"
    r"|scared of (?:flying|heights)|claustrophobic|immunocompromised|hypersensitive|sensitive to"
)

NO_NOUN: Final = words(
    "thanks thank problem problems prob probs words worries way idea need doubt one longer i i'm "
    "i'd it it's that "
    "that's there there's rush issues wonder luck just not please you we actually sorry something "
    "wait nothing can could is was he she they my changes further further, matter"
    " kidding clue constraints hurry pressure stress part "
    "reservations more other, what how why don't do did didn't the this for but and or so never "
    "none action other any in on at to as if"
)

NUMBER: Final = (
    r"(?:[$€£¥]\s?)?(?:\d[\d.,]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|fifteen|twenty|thirty|forty|fifty|sixty|ninety|a hundred|hundred|half|a single|a dozen)"
)

TIMES: Final = (
    r"\d{1,2}(?:st|nd|rd|th)? (?:of )?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august"
    r"|september|october|november|december|tomorrow|tonight|today|noon|midnight|eod"
    r"|cob|eow|next week"
    r"|next month|end of (?:the |this )?(?:day|week|month|year|quarter)|christmas|easter"
    r"|thanksgiving|new year|the \d"
    r"|may \d|\d{1,2}(?::\d\d)?\s?(?:am|pm|a\.m|p\.m|h\b|o'clock)|\d{1,2}[/.]\d{1,2}|\d{4}-\d\d"
    r"|\d{1,2}(?:st|nd|rd|th)|q[1-4]\b|jan\b|feb\b|mar\b|apr\b|jun\b|jul\b|aug\b|sept?\b|oct\b"
    r"|nov\b"
    r"|dec\b|mon\b|tue\b|wed\b|thu\b|fri\b|sat\b|sun\b"
)

# To look for before numbers and times are; "#" stands for any digit.
NUMBER_HINTS: Final = (
    "# one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty "
    "fifty sixty ninety hundred half single dozen"
)
TIME_HINTS: Final = (
    "# monday tuesday wednesday thursday friday saturday sunday january february"
    " march april may june "
    "july august september october november december tomorrow tonight today noon"
    " midnight eod cob eow "
    "week month year quarter day christmas easter thanksgiving sept jan feb mar apr jun jul aug sep"
    " oct nov dec mon tue "
    "wed thu fri sat sun"
)
