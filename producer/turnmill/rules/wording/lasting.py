"""Orders that are meant to last by what is ordered, and rules without a verb; data only."""

from __future__ import annotations

import re
from typing import Final

from turnmill.rules.wording.lexicon import FORMATS, words

__all__ = [
    "BARE",
    "FOLLOWS",
    "FOR_ONCE",
    "KEPT",
    "KEPT_VERBS",
    "MANNER",
    "NOTIFY",
    "NOT_A_VERB",
    "OFTEN_VERBS",
    "OF_ANY",
    "OPEN",
    "OPENING",
    "POINTED",
    "POINTING",
    "PREMISE",
    "RATHER",
    "STAND_VERBS",
]

# Done again and again, to any one of a kind; "delete every file" is done once.
OFTEN_VERBS: Final = words(
    "flag cite decline treat swap cap default mark log round label number note mention warn alert"
    " suppress redact mask anonymize anonymise verify double-check cross-check remind quiz escalate"
    " ignore skip avoid reject prefix sign address refer include"
    " attach cc exclude ship count document"
    " test run dry-run lint credit sort wrap question challenge encrypt sanity-check   speak"
    " start begin end lead close open follow respond answer reply ask tag link justify rate spell"
    " capitalise capitalize introduce format phrase name date seed pin annotate   announce"
    " pronounce refuse allow deny approve water lock charge limit restrict "
)
# Of any one of a kind.
OF_ANY: Final = re.compile(
    r"\b(?:every|each|anything|anyone|any|everything|everyone|all)\b(?! (?:the|of|my|this|these"
    r"|those|that|your|his|her|time|right|set|day|alone|over|one|good|done|other)\b)"
    r"|\b(?:between|for|from|in|on) (?:all|any|every|each)\b"
)
POINTING: Final = re.compile(
    r"\b(?:this|these|those|above|following|attached|the (?:second|third|other)(?! person)"
    r"|the (?:first|last)(?! (?:line|page|time|mention|column|row|person))"
    r"|now|today|tonight|tomorrow)\b"
)
# What such an order is of and how it is to be: for once, too, if it points at one thing.
KEPT_VERBS: Final = words(
    "treat keep leave use refer default assume lead open end sign address contact reach ship count"
    " swap substitute round exclude cap speak stick call exclude flag decline number cut drop skip"
    " lose ditch spare explain hold bear respond answer reply"
    " write talk aim focus favor favour cite"
    " put respect be prioritize prioritise read mask redact pronounce spell format label mark quiz"
    " give name page ping nudge wake warn alert notify remind"
    " correct contact phone message swap state list place mind ditch number"
)
_PLURAL: Final = r"(?!this\b|these\b|those\b|as\b|is\b|its\b)(?:[a-z'-]+ ){0,2}?[a-z-]+[^s\W]s"
KEPT: Final = re.compile(
    r"(?:treat (?!me to\b|yourself|it\b|this\b|that\b)[\w' -]+ (?:as|like)\b"
    r"|keep (?!in touch|[a-z]+ing\b|me\b|us\b|on\b|it up|up\b|an eye|the (?:rest"
    r"|change|receipt|original|first|second|last)|track|this|that|these|those|one|all of)"
    r"[\w' -]{2,40} (?:in|at|below|above|under|within|out|to|on|for|off|between|private|secret"
    r"|short"
    r"|brief|simple|formal|light|easy|low|quiet|minimal|intact|unchanged|separate|as is)\b"
    r"|keep it (?:factual|light|simple|short|brief|clean|formal|professional|casual|private|civil"
    r"|that way|between us"
    r"|to the point|under|below|concise|polite|kind)\b|keep my [a-z]+,|keep at least"
    r"|leave (?!a (?:message|note|review|comment)|me|it\b|this|that|the (?:house"
    r"|room))[\w' -]{2,40}"
    r" (?:alone|as (?:is|are|it is|they are)|with|untouched|intact|between|in place|blank|out)\b"
    r"|leave (?:at least )?an? [\w -]*(?:buffer|gap|break|margin|space)"
    r"|use (?!the\b|this|that|these|those|it\b|another|an?\b|one\b|some\b)(?:[\w'-]+ ){1,4}?(?:for"
    r" (?!this|that|it\b|the\b|today|tonight|now)|over\b|instead|unless|whenever|everywhere)"
    r"|use (?:my|our) [\w' -]+ for (?:all|any|every|each)"
    r"|refer to (?!the (?:attached|following)|this|that|it\b)[\w' -]+ (?:as|by)\b"
    r"|call (?!me\b|it a|the (?:store|restaurant|hotel))[\w' -]+ _+"
    r"|default to|assume\b(?!.*\b(?:the graph|for contradiction|without loss|for this|in this))"
    r"|(?:lead|open|close|end|sign off|sign) (?:every [a-z]+ )?with (?!the following|it\b|this\b)"
    r"|(?:address|contact|reach|phone|message|email) (?:me|us) (?:as|by|at|on|via|through|only"
    r"|in)\b"
    r"(?! (?:the (?:hotel|airport|station)|noon|\d|once|soon))"
    r"|ship (?:everything|all|any)|(?:swap|substitute) (?:out )?(?:any|all|every|[a-z]+ for)"
    r"|round (?:up |down |off )?to the (?:nearest|closest)"
    r"|exclude (?!the\b|this|that|these|those|it\b)[a-z]"
    rf"|(?:cut|drop|skip|lose|ditch|spare me) the (?:[a-z]+ )?(?:[a-z]+[^s\W]s|jargon|fluff"
    rf"|preamble"
    r"|flattery|small talk|chit-?chat|filler|praise|commentary|intro|fuss)[.!,]*(?= |$|,)"
    r"(?! (?:in|from|on|at|and|of)\b)"
    r"|explain (?:things|everything|concepts|it|stuff|all)?(?: to me)? ?(?:as if|as though"
    r"|like) (?:i|to|you)"
    r"|hold off on|(?:put|list|place|start with|state|give me) the [a-z]+ (?:first|up front|last"
    r"|at the"
    r" (?:top|start|end))\b"
    r"|say _+ (?:when|if|instead|whenever|not)|count [\w ]+ as\b"
    r"|number your|put [\w' -]{2,40} (?:in|at|on|into) the (?:first|last|top|end|pr|footnotes?"
    r"|appendix|subject)"
    r"|give (?:every|each|all|prices|weights|amounts|times|dates|names|sizes|temperatures"
    r"|distances)|write for (?!me|the"
    r"|this)[a-z]|ask (?:me )?(?:how|what|whether|if) .{2,40}\b(?:before|first|every|each)\b"
    r"|start from|(?:spell|write) out"
    r"|name (?:the|each) [\w ]+ too|stay (?:on|out|off|in|within|at|under|below|away)"
    r"|correct my|(?:respect|mind) (?:my|our)"
    rf"|be (?:as )?(?:{FORMATS}|honest|kind|gentle|patient|critical|strict|harsh|tough"
    rf"|encouraging|frank"
    r"|candid|precise|specific|explicit|thorough|conservative|realistic|literal|playful|funny|warm"
    r"|nice to me|rigorous|skeptical|sceptical|straight|supportive|creative)\b(?! (?:about|with)"
    r" (?:it|this|that))"
    rf"|(?:flag|decline|mask|redact|cite|label|mark|number) (?:{_PLURAL}|your|my)\b)"
)
# Of a manner or a principle whatever their object is: "grade me harshly", "kill the semicolons".
STAND_VERBS: Final = words(
    "cap spell grade mind silence teach anonymise anonymize categorise"
    " categorize treat loop double stick kill ban"
    " forbid prefer favour favor prioritise prioritize default tone round respect honour honor"
    " capitalise capitalize mirror steer err lean cite"
)
POINTED: Final = re.compile(
    r" ?(?:it|this|that|these|those|him|her|them|around|tuned|there|here|safe|strong|home"
    r"|in touch|positive|well|cool|calm"
    r"|the (?:same|course)|with me|one of)\b"
)
# "Give weights, not cups", "ask me questions rather than lecture".
RATHER: Final = re.compile(
    r"(?:give|send|show|tell|use|write|call|ask|say|put|round|speak|talk|keep|name|choose|pick"
    r"|make|offer|read|print"
    r"|quote|cite|mark|explain|list|count) (?!it\b|this|that|these|those|the (?:red|blue|first"
    r"|second|last|other))"
    r"[\w' -]{2,50}(?:, (?:but )?(?:not|never)|,? rather than|,? instead of) (?!the (?:red|blue"
    r"|first|second|last|other)"
    r"|this|that|now|yet|sure)[\w' -]+[.!]*$"
)
# Done for once to some that are there or are to be found: "find hotels", "add tests".
FOR_ONCE: Final = words(
    "find show list search suggest recommend write create generate"
    " make add get buy book order compare"
    " count look check give draft fix delete remove explain describe"
    " summarize summarise cancel return"
    " exchange refund change update proceed process provide plan"
    " do go see need want let tell please"
    " help come try read open think forget imagine miss enjoy"
    " love like take have thank build set pay"
    " compute calculate solve move transfer turn select translate"
    " convert pull bring implement happen"
    " consider discuss develop design browse compile apply continue"
    " confirm handle include use rename"
    " replace click press type enter reset restart install download"
    " upload revert swap play print send"
    " run submit share complete purchase reserve schedule wait watch ask visit listen clear analyze"
    " modify edit test authenticate verify sign meet feel point"
    " stay work reorder rearrange bump merge sum"
)
# An order of what is not done for once, which points at nothing that is there.
OPEN: Final = re.compile(
    r" (?!(?:it|this|that|these|those|them|him|her|the|me|us|up|on|off|out|around|over|down|back"
    r"|in|your|some|one|two|three"
    r"|four|five|another|more|much|is|are|was|isn't|aren't|of|will|can|has|well|hard|strong|safe"
    r"|care|fun|easy|ahead|forward|so|too|with you|with the)\b)[a-z]"
    r"(?!.*\b(?:it|them|this|that|these|those|today|tonight|tomorrow|now|here|there|your (?:day"
    r"|time|life|self|dreams?"
    r"|goals?)|yourself)\b)"
)
# "Quote returns net of fees", "announce visitors by name".
BARE: Final = re.compile(
    r" (?!(?:this|its|his|as|is|us|was|yes|less|plus|across|towards|always|perhaps|besides"
    r"|sometimes"
    r"|thanks|congrats|lots|tons|things|guys|minus|\d)\b)(?:(?!(?:the|my|your|his|her|their|our|a"
    r"|an|this"
    r"|that|these|those|me|us|it|to|of|on|in|at|up|out|off|for|with|and|or|two|three|four|five"
    r"|some|more"
    r"|both|about)\b)[a-z-]+ )?[a-z-]{2,}[^s\W\d]s\b(?! (?:of|#?\d|and #))"
)
NOTIFY: Final = re.compile(
    r"(?:warn|alert|page|notify|ping|remind|nudge|stop|interrupt|wake|correct|challenge|cc|copy"
    r"|tell(?! (?:me|us) (?:about|of|on|for)))"
    r" (?:me|us) (?:only |first |right away |immediately |straight away )?(?:(?:about|of|on"
    r"|for) (?!it\b|this"
    r"|that\b|the\b|your|yourself|my\b|how\b|what\b|a\b|an\b)|(?:if|when|whenever|before|once"
    r"|as soon as)"
    r" (?!it\b|this|that\b|the\b|my\b|he\b|she\b|they\b|there's|there is|it's|you(?:'re"
    r"| are) (?:done|ready"
    r"|finished|free)|you (?:have|get|can|find|know|see|need|want)\b|we\b|i can\b|i need to\b))"
    r"|(?:flag|tell|stop|warn|say|shout|remind|point|call)\b.{0,14} (?:if|when|whenever) (?:i|i'm"
    r"|you're) (?:about to|ever"
    r"|going to|start|seem|sound|mis[a-z]+|make|get [a-z]+ wrong)\b|(?:let"
    r"|make) me [a-z]+ .{0,40}\b(?:before you|on my own|myself|first)\b|make me (?:show|explain"
    r"|work"
    r"|try|prove|justify)\b"
)
MANNER: Final = re.compile(
    r"(?:speak|talk|write|reply|answer|respond|explain|type) (?:to me |with me "
    r"|back )?(?:[a-z]+ly\b"
    r"|softly|slow|like (?:a|an|you|we)\b|as (?:if|though|a|an)\b|at an? [\w -]*level)"
)
# Behind a condition of always, any word may be the order's verb but these.
NOT_A_VERB: Final = words(
    "i you he she it we they the a an this that these those my your his her its our their there"
    " here who what which how why when where if whether and or but so because as than to of in on"
    " at for with from by about into over after before is are was were be been am has have had do"
    " does did can could will would shall should may might must not no nobody nothing everyone"
    " everything something someone people some any all every each both one two three more most then"
    " it's i'm i'd i'll i've we're you're they're that's there's"
    " well yes ok okay sorry thanks maybe"
    " perhaps usually often sometimes especially even also just still too either neither"
)
# A premise of always and what follows from it: "I have a stutter, so give me time".
PREMISE: Final = re.compile(
    r"(?:and |but |also |well )*(?:i'm|i am|i have|i've got|i get|i use|i can't|i don't|i only"
    r"|i work"
    r"|i live|i do|i read|i take|i wear|i tend|i eat|i never|i always|i go|i share|we|we're"
    r"|we have|my|our"
    r"|a [a-z]+ a (?:day|week)|english|[a-z]+s (?:make|give|trigger|bother|scare|confuse) me)\b"
    r"(?!.*\b(?:today|tonight|tomorrow|yesterday|now|was|were|had|got|just|looking"
    r"|trying to (?:find|get"
    r"|book)|going to|about to|[a-z]+ing the|waiting|stuck|late|lost|missed|broken|cancell?ed"
    r"|went|did|didn't"
    r"|took|[a-z]+ed)\b)[^?]{4,90}"
)
FOLLOWS: Final = re.compile(
    r"(?:please |just |do )*(?:(?:no|nothing|never|only|don't|do not|every|all [a-z]+s|any)\b"
    r"|(?:give me (?:time|a)"
    r"|use (?!that\b|the\b|it\b|my)|tell me (?:before|if|when)|write (?:it|things|everything)"
    r"|plan|schedule"
    r"|show (?:me )?[a-z]+s|describe|explain|work|point)\b)"
)
# Where an order can begin.
OPENING: Final = re.compile(
    r"(?:^|[,;:.?!–—\n-] ?| and | but | so |please |just |kindly |also |then )([a-z-]{3,})"
)
