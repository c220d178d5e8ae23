"""What shows that a clause lays nothing down: it tells, doubts, or quotes; data only."""

from __future__ import annotations

from typing import Final

__all__ = ["CHOICE", "REFUSED", "TELLS"]

# Said of the past, of a doubt, or of somebody else's words: no rule, whatever else is there.
REFUSED: Final = (
    r"\b(?:not sure (?:if|whether|which|what)|wonder(?:ing|ed)? (?:if|whether|why"
    r"|what|how)|don't know (?:if|whether)|asked (?:if|whether))\b"
    r"|\b(?:i|we)(?:'ve| have| had|'d) (?:never|always|only|ever|rarely) (?:\w+ed"
    r"|been|had|done|seen|used|written|made|gone|got|taken|thought"
    r"|known|worked|tried|heard|felt|met|liked|loved|wanted)\b"
    r"|\b(?:i|we|he|she|they) (?:never|always|only) (?:\w+ed|got|had|saw|went|did"
    r"|knew|thought|felt|met|found|heard|made|ran|was|were)\b"
    r"|\bi(?:'d| would) (?:hate|love) (?:for|to)\b"
    # An answer that explains, whoever pasted it: "here's an example", "this way could be a start".
    r"|^here(?:'s| is| are) (?:an?|some|one|the) (?:[a-z-]+ ){0,3}?(?:examples?|snippets?|outlines?"
    r"|versions?|implementations?|breakdowns?|overviews?|guides?|templates?|ways?|steps)\b"
    r"|\b(?:you|we) (?:can|could|may|might|should) (?:also |then |want to |wish to )*(?:consider"
    r"|explore|look into|think about)\b"
    r"|\bthis (?:[a-z-]+ )?(?:approach|example|solution|implementation|method|strategy|design"
    r"|technique|script|setup) (?:also )?(?:can|could|may|might|will|would|is|uses|lets|allows"
    r"|ensures|helps|keeps|provides)\b"
    r"|\bi (?:[a-z]+ )?make sure to\b|\b(?:can't|cannot) wait\b"
    r"|\bthe (?:user|customer|caller|assistant|agent|system|attacker|sender|email"
    r"|message|document)s? (?:also |now )?(?:demands?|wants?|says?|asks?"
    r"|asked|insists?|requires?|requested|instructs?|instructed|said|told|states?"
    r"|claims?|prefers?|needs?)\b"
    r"|\b(?:he|she|they) (?:said|says|told|wants|prefers|thinks)\b"
    r"|(?<!as )\bif (?:i|we) (?:had|were|could|would|don't want)\b"
    r"|\b(?:docs|documentation|manual|article|book|log|readme|spec|standard|website"
    r"|site|tutorial|error|warning|course|professor|teacher)s?"
    r" (?:say|says|said|states?|shows?|showed|claims?|tells?|told|recommends?)\b"
    r"|\b(?:if|since|because|why|understand|understood|know|knew|said|say|sorry"
    r"|thought|hear|heard|see|get that|told me|mentioned|claim|claimed"
    r"|though)\b.{0,30}"
    r"\byou (?:can't|cannot|can only|couldn't|may not|don't|do not|won't)\b"
    r"|\b(?:i|we)(?:'ve| have) (?:noticed|seen|observed|heard|read)\b"
    r"|\bused to\b(?! me)"
    r"|\b(?:lol|haha|lmao)\b"
    r"|\bif (?:i|we) (?:can|only|have|need)\b|^according to\b|^(?:please )?(?:prove"
    r"|suppose|find (?:an?|the|all)|compute|solve|how many)\b"
    r"|\b(?:yesterday|last (?:week|month|year|night|time|\w+day)|ago|when i was|back then"
    r"|in (?:19|20)\d\d)\b"
)

# What states a rule only if nobody else is said to have laid it down, and nothing is asked for.
TELLS: Final = (
    r"^(?:(?:can|could|please|now|then|ok|and|so),? )*(?:write|draft|create|compose|invent"
    r"|make up|help me"
    r" (?:write|draft|with)|prove|suppose) (?:me )?(?:an?|the|some|one|another|down)\b"
    r"|\b(?:must|could|should|might|would|may|can|ought to)(?:n't|'ve| not"
    r"| never)? ?(?:have (?:been|\w+ed"
    r"|\w+en|got|gone|had|done|made|lost|left|come|thought|known|told|said|put|cost)\b"
    r"|'ve\b)"
    r"|(?<!\bwhen i )(?<!doctor )(?<!physio )(?<!policy )(?<!lawyer )\b(?:says|states|claims"
    r"|insists|thinks|reckons|swears|reads"
    r"|believes|wonders|goes like)\b(?! (?:no|nothing|never|i (?:can|must|should|have))\b)"
    r"|^(?:my|our|the|his|her|their|a) (?:friend|neighbou?r|colleague|co-?worker|landlord|uncle"
    r"|aunt|cousin"
    r"|nephew|niece|grand\w+|roommate|flatmate|ex|customer|client|user|airline|hotel"
    r"|old \w+)(?:'s)?\b"
    r"|\bthey say\b|\bi (?:don't think|doubt|guess|hope|suppose)\b|\bbut (?:it|mine|they|he|she"
    r"|there|now it)\b"
    r"|\b(?:who|which) (?:forbids|requires|bans|allows)\b"
    r"|\bi (?:only )?(?:just )?(?:have|had) (?:one|a|two) (?:more |last |quick "
    r"|final )?(?:question|thing"
    r"|request|issue|problem)"
)

# An answer to a choice: "I'd prefer an SUV", "I prefer the second one".
CHOICE: Final = (
    r"(?:(?:and|but|so|no|yes|well|ok|okay|oh|actually|then)[, ]+)*(?:i|we)"
    r"(?:(?:'d| would) (?:prefer|rather (?:have|take|get|go with)) (?:an?|some|something|one)"
    r"|(?:'d| would)? (?:prefer|rather (?:have|take|get|go with)) (?:the|this|that(?! you)|it))\b"
    r"(?:[ -][\w']+){0,4}(?:,? please)?(?: if (?:it|that|there|they|possible|available)\b.*)?[.!]*"
)
