"""How people take back what they laid down, in English; data as in ``people``."""

from __future__ import annotations

from typing import Final

from turnmill.contract.rules import Kind

__all__ = ["TAKING_BACK"]

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
