"""How people take back what they laid down, in English; data as in ``people``."""

from __future__ import annotations

import re
from typing import Final

from turnmill.rules.kinds import Kind

__all__ = ["MAY_CHANGE", "TAKING_BACK"]

MAY_CHANGE: Final = re.compile(
    r"^new\b|^now (?!let)|(?<!^)(?<!right )\bnow\b"
    r"|\b(?:instead|rather|no longer|any ?more|any longer|from (?:today|tomorrow|next|the \d)"
    r"|going forward|actually|after all|chang(?:e|es|ed|ing)|mov(?:e|es|ed|ing)"
    r"|switch(?:e[ds]|ing)?|rais(?:e[ds]?|ing)|lower(?:ed)?|bump(?:ed)?|extend(?:ed)?|postponed?"
    r"|pushed back|replaced?|wrong|forget|drop(?:ped)?|scrap(?:ped)?|skip|ignore|never ?mind"
    r"|cancel(?:l?ed)?|lift(?:ed)?|revert|except|fine|ok|okay|all ?right|may|enough"
    r"|(?:the|our|my) new|left|gone|over|out|off|allowed|welcome|quit|let's|let us|make it"
    r"|these days|by now|as of|free to|up to|whatever|whoever|whenever you"
    r"|as (?:many|much|long) as|in place of|no need"
    r"|(?:not|don't|needn't) need(?:ed)?|doesn't matter"
    r"|too (?:short|long|low|high|much|many|few|little|strict|tight|small|big|early|late)"
    r"|jetzt|ab sofort|nicht mehr|statt(?:dessen)?|doch|maintenant|désormais|plutôt|ahora|en vez"
    r"|ya no|adesso|invece|agora|em vez|já não|voortaan|niet meer|toch|теперь|больше не|вместо)\b"
    r"|\b(?:then|again|too)\b(?=[.!,]|$)|现在|改成|不用|不再|今後|代わり|もう|이제|대신|더 이상"
)
"""Words in which people end or change what they laid down; a sentence without one hardly does."""

TAKING_BACK: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    (
        Kind.REVOCATION,
        ("forget ignore disregard scratch drop scrap cancel lift remove undo strike void revoke"),
        (
            "rule rules instruction instructions preference preferences restriction"
            " restrictions limit limits constraint constraints requirement requirements"
            " ban said told asked mentioned wrote"
        ),
        (
            r"^(?:please |and |so |ok |okay |actually,? |oh,? )*(?:forget|ignore|disregard"
            r"|scratch|drop"
            r"|scrap|cancel|lift|remove|undo|strike|void|revoke)\b (?:about )?(?:what"
            r"|everything"
            r"|anything"
            r"|all|my|the|that|this)\b.{0,60}?\b(?:i (?:said|told|asked|mentioned|wrote)"
            r"|rules?"
            r"|instructions?|preferences?|restrictions?|limits?|constraints?|requirements?"
            r"|ban)\b"
        ),
    ),
    (
        Kind.REVOCATION,
        "rule instruction restriction limit preference constraint ban policy",
        "",
        (
            r"\b(?:rule|instruction|restriction|limit|preference|constraint|ban"
            r"|policy)\b.{0,30}\b(?:no longer"
            r"|does(?:n't| not) apply|is (?:lifted|gone|off|void|cancelled|over))"
        ),
    ),
    (
        Kind.REVOCATION,
        "again anymore more",
        "you",
        (
            r"\byou (?:can|may|are allowed to|don't (?:have|need) to) (?:now"
            r" )?.{1,60}\b(?:again"
            r"|any ?more)\b"
        ),
    ),
    (
        Kind.REVOCATION,
        "longer",
        "",
        (
            r"^(?:and |so |ok |actually,? )*i(?:'m| am) no longer (?!sure|getting|able"
            r"|having"
            r"|seeing)"
        ),
    ),
    (
        Kind.REVOCATION,
        "longer",
        "",
        (
            r"^(?:and |so |ok |actually,? )*i no longer (?:want|need|prefer|like|eat|drink"
            r"|use"
            r"|mind|work)"
        ),
    ),
    (
        Kind.REVOCATION,
        "changed",
        "",
        r"^(?:and |so |ok |actually,? )*i(?:'ve| have) changed my mind about",
    ),
    (
        Kind.REVOCATION,
        "again now",
        "it's it",
        (
            r"^(?:and |so |ok |actually,? )*(?:it's|it is) (?:ok|okay"
            r"|fine) (?:again )?to\b.{1,60}\b(?:again|now)\b"
        ),
    ),
)
