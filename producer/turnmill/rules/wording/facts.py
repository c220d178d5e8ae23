"""How people tell in passing what holds for them for good, in English; data only.

Each pattern is searched in one clause in lower case that holds one of the words before it,
and one of the second list if there is one.
"""

from __future__ import annotations

from typing import Final

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.lexicon import NUMBER

__all__ = ["FACTS"]

FACTS: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    (
        # "I don't own a blender", "I've given up caffeine", "I'm trying to quit sugar".
        Kind.IDENTITY,
        "own given quit quitting trying cut cutting sworn stopped have",
        "i i've i'm",
        (
            r"\bi (?:don't|do not) (?:own|have) (?:an? )?(?:blender|oven|car|microwave|freezer"
            r"|printer|mixer|tv"
            r"|smartphone|scale|grill|credit card|paypal|dishwasher|garden|gym|weights|passport)\b"
            r"|\bi(?:'ve| have) (?:given up|sworn off|stopped (?:eating|drinking)|quit"
            r"|cut out) (?!it"
            r"|that|on\b"
            r"|this|trying)[a-z]+|\bi(?:'m| am) (?:trying to (?:quit|give up|cut (?:out|down on))"
            r"|off"
            r"|quitting"
            r"|giving up) (?!it|that|this|the|to|on|of|work|for|tomorrow|today)[a-z]+"
        ),
    ),
    (
        Kind.PREFERENCE,
        "only",
        "can",
        r"\b(?:i|we) can only (?!imagine|hope|guess|assume|say|see|find|remember|think)[a-z]+",
    ),
    (
        Kind.IDENTITY,
        (
            "paid write act budget bill work read think handle review"
            " approve deal report type publish teach"
        ),
        "i we",
        (
            r"^(?:and |but |so |also )*(?:i|we) (?:only )?(?:get paid|write for|act for"
            r"|budget (?:in"
            r"|for)"
            r"|bill (?:in|by|at)|think in|(?:handle|review|approve|read|check) (?:all|every|each"
            r"|any)[a-z]*|publish (?:on|in"
            r"|every))\b"
            r"(?! (?:it|this|that|them|the (?:situation|stress))\b)(?!.*\b(?:last|yesterday"
            r"|today)\b)"
        ),
    ),
    (
        Kind.PREFERENCE,
        "called addressed",
        "like prefer want",
        r"\bi(?:'d| would)? (?:like|prefer|want) to be (?:called|addressed|known|referred)\b",
    ),
    (
        Kind.IDENTITY,
        (
            "count track measure weigh cook live shop skim tithe"
            " tip wear accept hold respond identify say like carry"
        ),
        "i we",
        (
            r"^(?:and |but |so |also |as a rule,? )*(?:i|we) (?:only |always |usually )?(?:(?:count"
            r"|track|measure"
            r"|weigh (?:things |food |it all )?|think|budget|bill|report) in (?!on\b|the\b|my)[a-z]"
            r"|cook (?:for"
            rf" (?:one|two|three|four|five|six|\d)|with )|live on {NUMBER}|shop (?:once|twice|on|at"
            rf"|for the week)|skim\b"
            rf"|tithe|tip {NUMBER}|wear (?:hijab|a hijab|glasses|contacts|hearing|size|a size"
            rf"|an? \d)"
            rf"|accept only|hold no"
            r"|respond (?:to|well to|better to) (?!it|this|that|the)|identify as|say _+ (?:for|when"
            r"|instead)|weigh in on"
            r"|like (?:my|our) [a-z]+s? (?!and|when|a lot|so much|best|too)[a-z]+|carry only)"
            rf"|\b(?:i'm|i am|we're|we are) on (?:a |the )?(?:prepaid|fixed|low|tight|blood"
            rf"|warfarin"
            rf"|insulin|metformin"
            r"|lithium|statins?|antidepressants|wagon|keto|[a-z]+ (?:plan|diet|budget|schedule))\b"
        ),
    ),
    (
        # "We eat at six", "I batch-cook on Sundays", "I reserve semicolons for lists".
        Kind.IDENTITY,
        "i we",
        "at on every each lists guests nothing no",
        (
            r"^(?:and |but |so |also )*(?:i|we) (?!(?:am|was|were|have|had|did|do|don't|didn't|got"
            r"|get|think|thought|feel|felt|know|knew"
            r"|see|saw|want|wanted|need|needed|like|liked|love|loved|hope|guess|mean|wish|enjoy"
            r"|remember|went|go|can|can't|could|will"
            r"|won't|would|should|might|may|must|just|really|still|also|always|even|never|only|said"
            r"|say|told|made|make|took|take|found"
            r"|find|came|come|try|tried|keep|kept|believe|agree|understand|look|understood|bought"
            r"|heard|hear|met|left|ran|cannot|appreciate|wonder"
            r"|suppose|forgot|forget|lost|spent|gave|began|play|played|and|or|bet|swear|promise"
            r"|care"
            r"|gotta|miss|admire|dream|used|plan|own"
            r"|live|lived|wanna|totally|definitely|recently|already|seem|put|read|used|both"
            r"|recommend"
            r"|suggest|request|understand|spoke"
            r"|received|see|prefer|rather|sometimes|often|usually|actually|honestly|currently"
            r"|apologize|authorize|confirm|accept|check"
            r"|checked|noticed|call|help|share|show|start|work|teach|support|give|paint|write|wrote"
            r"|feel|focus|set|use|learn|started"
            r"|[a-z]+ed|[a-z]+ly)\b)[a-z-]+ (?:[\w' -]{0,40}\b(?:at (?:\d|noon|six|seven|eight|nine"
            r"|ten|five)|(?:on|every|each) (?:[a-z]+days?"
            r"|morning|evening|night)|for (?:lists|guests|[a-z]+s$))|nothing|no [a-z]+)"
        ),
    ),
    (
        Kind.PREFERENCE,
        "interested nothing bust deal",
        "or not",
        r"\bor (?:i'm not interested|nothing|bust|no deal|it's a no|i walk|i'll pass)\b",
    ),
    (
        # "I return things in store, never by post", "household is our unit, not the person".
        Kind.PREFERENCE,
        "not never don't",
        "",
        (
            r"^(?:and |but |so |also )*(?:(?:i|we) (?!\w+ed\b|was|were|had|got|went|did|think"
            r"|thought"
            r"|mean|guess|said|am\b|feel"
            r"|just|love|hope|wish|know|see|saw|can|want|need|have)[a-z]+\b[\w' -]{0,40}"
            r"|(?!(?:the|this|that|these|those|it|he|she|they|you|i|we|there|what|which|my|a"
            r"|an)\b)[a-z'-]+(?: [a-z'-]+){0,2}"
            r" (?:is|are) (?:my|our|for) [\w' -]{2,30}), (?:never|not|we don't|i don't) (?!sure|yet"
            r"|now|bad|so|too)[\w' -]+[.!]*$"
        ),
    ),
    (
        Kind.PREFERENCE,
        "patience time energy stomach loyal supposed fine okay ok suit suits guard",
        "",
        (
            r"\b(?:don't|do not) have (?:the |any )?(?:patience|time|energy|stomach|budget"
            r"|nerves) for (?!it|this|that)"
            r"|\bi(?:'m| am) (?:loyal|faithful|partial) to\b|\b(?:i'm|i am) supposed to (?:keep"
            r"|avoid"
            r"|stay (?:off|away)|rest|limit"
            r"|drink|eat)\b|\b(?:is|are) (?:fine|ok|okay), [\w' -]{2,30} (?:isn't|aren't|is not"
            r"|are not|not)\b"
            r"|\bsuits? (?:me|us)(?: best| better)\b|\bi guard my\b"
        ),
    ),
    (
        # What something is written or done for.
        Kind.POLICY,
        (
            "audience syllabus curriculum reader readers readership"
            " jurisdiction board standard stack platform"
        ),
        "is are",
        (
            r"^(?:and |but |so )*(?:the|our) (?:[a-z]+ )?(?:audience|syllabus|curriculum|readers?"
            r"|readership|jurisdiction|exam board"
            r"|standard|stack|platform) (?:is|are) (?!wrong|broken|off\b|clear|unclear|not\b|too"
            r"|so\b"
            r"|very|down|great|nice|missing|hard)"
        ),
    ),
)
