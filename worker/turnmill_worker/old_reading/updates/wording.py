"""How people say that something has a new value, and what only sounds like it; data only."""

from __future__ import annotations

import re
from typing import Final

from turnmill.rules.wording.english import STOP
from turnmill_worker.old_reading.any_case import AnyCase

__all__ = [
    "ADDS", "CHANGES", "CLOCK", "CONTRASTS", "COPIED", "DOES", "DONE", "DONE_BY", "EMPTY", "FROM",
    "GOAL_IS", "HYPOTHETICAL", "IN_BRACKETS", "IS", "JOINING", "JOURNEY", "LABEL", "LABELLED",
    "LABELS", "LIGHT", "LINK", "MARKED", "NAMED", "NAMING", "NEW", "NEW_ONE", "NOW_AFTER",
    "NOW_BEFORE", "NUMBER_OF", "OF_ONESELF", "OLD_GONE", "OPENING", "OWNERS", "PAST",
    "REPLACED", "REPLACING", "SAME", "TELLING", "TO", "WAS", "WISH",
]  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A change, and what it leads to behind a link: "raised the limit … to 7".
CHANGES: Final = AnyCase(
    r"\b(?:chang(?:ed?|ing)|mov(?:ed?|ing)|switch(?:ed|ing)?|migrat(?:ed?|ing)|rais(?:ed?|ing)"
    r"|re-?based"
    r"|lower(?:ed|ing)?|increas(?:ed?|ing)|decreas(?:ed?|ing)|reduc(?:ed?|ing)|cut(?:ting)?"
    r"|drop(?:ped|ping)?|extend(?:ed|ing)?|shorten(?:ed)?|postponed?|delayed|reschedul(?:ed?|ing)"
    r"|push(?:ed|ing)?|brought|bumped|upgrad(?:ed?|ing)|downgrad(?:ed?|ing)|revised|adjusted|grown"
    r"|grew|growth|rose|risen|fell|fallen|improved|expanded|updat(?:ed?|ing)|corrected|set|put"
    r"|went|gone|reset|re-?booked|renamed|transferred|agreed|settled"
    r"|geändert|verschoben|verlegt|erhöht|gesenkt|angehoben|gewechselt|umgestellt|gestiegen"
    r"|changée?s?|déplacée?s?|reportée?s?|passée?s?|augmentée?s?|baissée?s?"
    r"|cambi(?:ado|ó|amos|é)|movido|aplazad[oa]|subido|bajado|aumentado|pasado"
    r"|spostat[oa]|cambiat[oa]|aumentat[oa]|mudou|mudado|adiad[oa]|verplaatst|gewijzigd|verhoogd)\b",
)
LINK: Final = re.compile(
    r"(?:\b(?:to|onto|until|till|at|for|is|are|of|auf|zu|à|au|a|al|para|por|ad?|para|naar|tot|called"
    r"|named)|\bto be|:|→)"
    r"(?: (?:the|a|an|only|just|about|around|almost|over|nearly|den|dem|le|la|el|los|total|of)\b)*"
    r"(?: (?:branch|version|release|room|gate|seat|platform|terminal|number|plan))?"
    r"(?: (?-i:[A-Z])[\w-]{1,20})?[\s\"'“`*]*$",
    re.IGNORECASE,
)
# What makes the value behind it the new one, wherever it stands in the clause.
NOW_BEFORE: Final = AnyCase(
    r"\b(?:now|no longer|actually|correction|as of (?:today|now)|turns out|(?:was|were) wrong"
    r"|reach(?:ed|es)|turned|currently at|these days|from now on|agreed"
    r"|(?:am|are|is|'[mrs]e?|been) (?:up|down) to|make (?:it|that)"
    r"|jetzt|nun|nunmehr|mittlerweile|inzwischen|stattdessen|doch"
    r"|maintenant|désormais|finalement|ahora|en realidad|adesso|ora|agora|nu)\b",
)
# What is new, and what it is: "the new deadline of", "my new address is".
NEW: Final = AnyCase(
    r"\b(?:new|newest|updated|corrected|revised|wrong|neue[nrsm]?|nouveaux?|nouvelles?|nuev[oa]s?"
    r"|nuov[oaie]|nov[oa]s?|nieuwe?)(?:[ :,]+[\w'’-]+){1,5}$",
)
# What it is called stands between: "the new code 5521", "my new number 555-123-4567".
NEW_ONE: Final = AnyCase(
    r"\b(?:the|my|our|your|their) (?:new|updated|corrected|revised)(?: [\w'’-]+){1,3}\W{1,2}$",
)
# What was there before is gone: "…; the old one no longer works".
OLD_GONE: Final = AnyCase(
    r"[^.!?\n]{0,40}[;,.] (?:and )?(?:the|my|our) (?:old|previous|former|earlier)(?: [\w-]+){1,2}?"
    r" (?:no longer|is|was|has been|doesn't|does not|won't)\b",
)
DONE: Final = AnyCase(
    r"^(?!\W*[-*\d\"“])(?!.*\bmy\b).*\b(?:i've|i have|we've|we have|(?:has|have) been|(?:is|are)"
    r" now|agreed|ich habe|wurde|he|j'ai|ho|eu)\b",
)
NOW_AFTER: Final = AnyCase(
    r"^[^.;!?]{0,25}?(?<!\w)\b(?:now|instead|from now on|as of (?:today|now)|these days|after all"
    r"|jetzt|stattdessen|verschoben|verlegt|geändert|erhöht|gesenkt|maintenant|désormais|ahora"
    r"|adesso|agora)\b(?! (?:that|i|we|let|what|how)\b)",
)
HYPOTHETICAL: Final = AnyCase(
    r"\b(?:if|could|should|would|might|may|suppose|imagine|consider|recommend|suggest|maybe|perhaps"
    r"|say|let's say|example|wenn|falls|könnten?|sollten?|pourrait|podría)\b",
)
WISH: Final = AnyCase(
    r"\b(?:goal|aim(?:ing)?|target(?:ing)?|hope|hoping|plan(?:ning)?|want(?:ing)?|wish|tr(?:y|ying)"
    r"|how (?:do|can|to)|can (?:we|i|you)|help me|need(?:s|ing)?|way to|ways to|in order)\b",
)
ADDS: Final = AnyCase(
    r"\b(?:another|also|additional(?:ly)?|extra|besides|a second|as well|too|plus|auch|noch ein\w*"
    r"|aussi|un autre|también|otr[oa])\b",
)
# One more who is written to, beside others.
COPIED: Final = AnyCase(
    r"\b(?:b?cc(?:'?(?:ed|d))?|cop(?:y|ied)|also|too|as well|add(?:ed)?|auch)\b"
)
PAST: Final = AnyCase(
    r"\b(?:from|was|were|used to be|previously|formerly|originally|instead of|rather than|not|no"
    r" longer|than|von|statt|war)"
    r"(?: (?:the|a|an|at|in|on|about|around))*[\s\"'“`*]*$",
)
MARKED: Final = re.compile(r"^ ?\(until \d+\)")

# The old value is said, too: its own words are looked for. The first group that is not empty.
REPLACED: Final = re.compile(
    r"\b(?:chang|mov|switch|migrat|transfer|renam|convert|upgrad)\w{1,4}\b"
    r"(?:(?!\b(?:flight|trip|train|bus|route|ticket|journey|segment)s?\b)[^.;!?\n]){0,60}?"
    r"\bfrom ([^,.;!?\n]{2,40}?) (?:to|into|over to)\b"
    r"|\b(?:replac|swapp?)(?:ed|e|ing)?\b (?:the |our |my )?([^,.;!?\n]{2,40}?) (?:with|by|for)\b"
    r"|\b(?:instead of|no longer|rather than|nicht mehr|statt|au lieu de|en lugar de|en vez de"
    r"|invece di) ([^,.;!?\n]{2,40}?)(?=[,.;!?\n]| (?:for|as|in|on|at|but|since|because|we|i)\b|$)",
    re.IGNORECASE,
)

REPLACING: Final = (
    *("from", "replac", "swap", "instead of", "no longer", "rather than", "nicht mehr", "statt"),
    *("au lieu", "en lugar", "en vez", "invece"),
)
"""One of these stands in every text in which something above is found."""

EMPTY: Final = STOP | _words(
    "now new newest no longer actually correction instead updated update updating changed change "
    "changing moved move moving switched switch raised raise lowered increased increase decreased "
    "reduced cut dropped doubled extended shortened postponed rescheduled pushed back bumped "
    "upgraded revised adjusted grown grew growth improved reached recently currently currently "
    "turned total number around average averaging trying try want wanted wondering need needs "
    "help make sure having trouble figuring working using use used get going also still already "
    "today yet like old kinda kind worried curious can't take takes took put went gone corrected "
    "wrong sorry turns per each every day days week weeks month months year years last next a an "
    "reflect based considering including especially since which will must may least exactly "
    "onto "
    "another i'm i've der die das den dem ist sind wird wurde wurden beträgt beim am im um auf für "
    "jetzt nun verschoben geändert le la les est sont un une à au avec el los las es son una con "
    "de del ahora ha se al maintenant movido"
)

SAME: Final = {
    "due": "deadlin", "cost": "pric", "charg": "pric", "fee": "pric", "appointment": "meeting",
    "begin": "start", "walk": "step", "weight": "weigh", "wag": "salary", "pay": "salary",
    "remot": "remot", "maximum": "limit", "max": "limit", "frist": "deadlin",
    "cap": "limit", "quota": "limit", "ceil": "limit", "ceiling": "limit", "timing": "dat",
    "spend": "budget", "spending": "budget", "expens": "pric", "rebas": "bas",
    "codenam": "nam", "label": "nam", "designat": "nam", "call": "nam", "titl": "nam",
}  # fmt: skip
"""Roots that name one thing, each with the one they are read as."""

CONTRASTS: Final = {
    word: (group, value)
    for group, values in {
        "order": "first|1st second|2nd third|3rd fourth|4th fifth|5th",
        "often": "daily weekly monthly yearly|annual|annually hourly",
        "bound": "minimum|min|least maximum|max|most",
        "side": "left right", "way": "outbound|there return|back",
        "place": "north south east west", "height": "upper|top lower|bottom",
        "meal": "breakfast lunch dinner|supper", "edge": "start|begin|starts|begins end|ends",
        "in": "check-in checkin", "out": "check-out checkout",
        "whose": "his her|hers their|theirs",
        "age": "adult|adults child|children|kids|kid senior|seniors",
        "part": "morning evening afternoon night",
        "month": "january february march april june july august september october november "
        "december",
        "test": "dev|development staging production|prod",
    }.items()
    for value in values.split()
    for word in value.split("|")
}  # fmt: skip
"""Words of which a thing has one: of two statements with different ones, neither is newer."""

OWNERS: Final = {
    "my": "speaker", "our": "speaker", "i": "speaker", "we": "speaker",
    "his": "his", "her": "her", "their": "their", "your": "hearer",
}  # fmt: skip

LABELS: Final = _words(
    "sprint step room chapter dose test phase part section week day module order item option "
    "problem exercise question unit level team group lesson act scene floor line table figure "
    "round stage task issue ticket case flight train bus route exam quiz grade class player "
    "building house block apartment bedroom server node iteration milestone "
    "schritt kapitel zimmer étape chambre paso capítulo"
)
# What a text is called before it begins: "NOTE: …", "Hard limit: …".
LABEL: Final = re.compile(r"\W{0,4}[^\W\d_][\w'-]{0,20}(?: [^\W\d_][\w'-]{0,20})?: +(?=\S)")
# A value in brackets says the one before it again: "to 08-21 (August 21)".
IN_BRACKETS: Final = re.compile(r"\S+ \(\W?$")
LABELLED: Final = re.compile(r"(?<=[^\W\d_]) #?(\d{1,4}|[A-Z])(?!\w|[.,]\d|-\w)")
JOINING: Final = _words("for of to with from für von nach mit zu pour de à avec para con")
LIGHT: Final = _words(
    "now also still already currently jetzt ahora the a an my our der die das den dem le la les el "
    "los las"
)
NUMBER_OF: Final = AnyCase(
    r"\b(?:number|count|amount|growth|total|rise|drop|anzahl|nombre|número) (?:of|in|der|de|von) "
    r"(?:the |my |our |recent )?([^\W\d_]+)(?: ([^\W\d_]+))?",
)
# A name, and before it what says that it is one: "called", "at the", "is now".
NAMED: Final = re.compile(r"(?<=[\w:]) ((?:\d{1,5} )?[A-Z][\w'’-]*(?: [A-Z][\w'’-]*){0,3})")
NAMING: Final = _words(
    "is are called named to in at on with by from : ist heißt est es nach bei à en"
)
# Who does what: "Kim now runs the desk", "the desk was handed over to Lee".
DOES: Final = re.compile(
    r"(?:^|[.:;,] |\b(?:and|on|now|today) )([A-Z][\w'’-]*(?: [A-Z][\w'’-]*){0,2})"
    r"(?: is| was|'s| will be| has been)?(?: now| currently)? ("
    r"(?:handl|lead|runn?|manag|cover|own|overse|coordinat|chair)(?:e?s|e?ing)"
    r"|tak(?:es|ing) (?:over|care of)|took over|in charge of|responsible for|on duty for)\b"
)
DONE_BY: Final = re.compile(
    r"\b(belongs?(?: now)? to|falls(?: now)? to|handed(?: over)? to|assigned to"
    r"|(?:handled|led|run|managed|covered|owned|overseen|coordinated|chaired)(?: now)? by) $"
)
IS: Final = _words("is are called named : ist heißt est es")
CLOCK: Final = AnyCase(r"\b(?:it's|it is|today is|today's)(?: now| already)? $")
GOAL_IS: Final = AnyCase(r"\b(?:goal|target|aim|limit|plan) (?:is|was|of|:)\W*$")
WAS: Final = AnyCase(r"\b(?:was|were|used|instead|not)\b")
FROM: Final = AnyCase(r"\b(?:from|von|de|da|desde)\s+\W?$")
TO: Final = AnyCase(r"[^.;!?]{0,24}\b(?:to|auf|à|a|zu|naar|para)\s+\W?")
OF_ONESELF: Final = AnyCase(r"\b(?:i|we|my|our|ich|wir|je|nous|yo)\b")
JOURNEY: Final = AnyCase(
    r"\b(?:flights?|trip|train|bus|drive|ride|route|travel\w*|fly\w*|go(?:ing)?|back)\W+(?:\w+ )?"
    r"(?:to|from) $",
)
# How words begin of which one stands in each sentence that gives something a new name.
TELLING: Final = _words(
    "new newe now no actu took hand inst chan move movi swit migr rena corr make upda agre sett "
    "tran turn wron reac jetz nun neue stat geän verl umge main nouv dépl ahor nuev movi camb ades "
    "nuov agor novo nova nieu"
)
# A sentence that opens like this is told because something is no longer as it was said.
OPENING: Final = AnyCase(
    r"\W*(?:updates?|correction|change|edit|news"
    r"|revision|amendment|korrektur|änderung|neu|mise à jour|rectification|corrección|actualización"
    r"|cambio|aggiornamento|correzione|atualização|correctie|wijziging)\s?[:,–—-]\s"
    # What is new is named before the colon: "New limit for the trip: …".
    r"|\W*(?:(?:the|my|our) )?(?:new|updated|revised|changed) [^\W\d_][\w' -]{2,40}:\s",
)
