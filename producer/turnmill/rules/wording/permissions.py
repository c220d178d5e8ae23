"""How people say what an agent may and may not do, in English; data only.

Each pattern is searched in one clause in lower case that holds one of the words before it,
and one of the second list if there is one.
"""

from __future__ import annotations

from typing import Final

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.lexicon import ACTIONS

__all__ = ["PERMISSIONS"]

PERMISSIONS: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    (
        Kind.PERMISSION,
        (
            "anytime time whenever without now long often up any unless until after "
            "before during groceries work all small if"
        ),
        "you you're",
        (
            r"(?:^|[,;:—–-] ?|\b(?:and|but|or|that|then|yes|also|please|where|if) )"
            r"you(?:'re| are)? (?:can|may|are (?:allowed|free|welcome|permitted) to|have"
            r" (?:my"
            r"|our) (?:permission|ok|okay|blessing|consent)"
            r"|allowed to|free to|welcome to)\b.{0,80}?\b(?:any ?time|whenever"
            r"|without (?:asking|my|checking)|from now on|as (?:long|often) as"
            r"|up to|at any|any of my|until|after|before|during|unless|for (?:groceries"
            r"|work|all"
            r"|any|small)|if you (?:ever|need to))\b"
        ),
    ),
    (
        Kind.PERMISSION,
        "permission ok okay consent may",
        "you you're",
        (
            r"\byou(?:'re| are)? (?:have (?:my |our )?(?:permission|consent)|may"
            r" (?:use"
            r"|access|share|contact|call|email|text|charge|spend|book|open"
            r"|read|edit|delete|reschedule))\b"
        ),
    ),
    (
        Kind.PERMISSION,
        "feel",
        "free",
        (
            r"\bfeel free to\b.{0,80}\b(?:any ?time|whenever|without asking|without my|as"
            r" long as"
            r"|up to|always|from now on)\b"
        ),
    ),
    (
        Kind.PERMISSION,
        "authorize authorise permit allow permission grant consent",
        "",
        (
            r"\bi (?:hereby )?(?:authori[sz]e|permit|allow|give you (?:my )?permission"
            r"|grant you"
            r"|consent)\b(?! (?:users|me|the user|it|for|them))"
        ),
    ),
    (
        Kind.PERMISSION,
        "ask confirm check double wait clear",
        "don't do needn't no",
        (
            r"\b(?:you )?(?:don't|do not|needn't|no) (?:have to |need to |need "
            r"|you need to )(?:to )?(?:ask|confirm|check with|double-check|wait for|clear)\b"
        ),
    ),
    (
        Kind.PERMISSION,
        "ok okay fine alright right cool",
        "you me",
        (
            r"\b(?:it's|it is|that's|i'm|i am) (?:ok|okay|fine|alright|all right"
            r"|cool) (?:with (?:you|it) |to |if you |for you to )+(?:me )?"
            r"(?:text|call|email|contact|use|book|share|charge|send|message|spend|reschedule"
            r"|ask)\b"
        ),
    ),
    (
        Kind.COMMAND,
        ("must cannot can't mustn't shouldn't should may shall only never always not don't"),
        "you you're",
        (
            r"\byou (?:must (?!be\b|have\b)|(?:can|may|should|must) only|should (?:always"
            r"|never"
            r"|only)|(?:must|should|may|shall) (?:not|never)"
            r"|mustn't|shouldn't|cannot|can't|(?:are|'re) (?:not|never) (?:to|allowed to"
            r"|permitted to)|(?:are|'re) to (?:always|only|never)"
            rf"|(?:don't|do not) (?:have|need) to) (?:\w+ )?(?:{ACTIONS})\b"
        ),
    ),
    (
        Kind.COMMAND,
        "not never under",
        "you're you",
        (
            r"\byou(?:'re| are) (?:not|never) (?:to|allowed|permitted)\b|\bare you (?:not"
            r" )?to\b"
        ),
    ),
    (
        Kind.PERMISSION,
        "my our me us",
        "you you're",
        (
            r"\byou (?:can|may) be (?:rude|blunt|harsh|frank|honest|direct|funny|silly|brutal"
            r"|informal|casual|strict|tough)\b|"
            r"\byou can (?:use|access|share|contact|call|email|text|charge|read|edit|open)"
            r" (?:my|our)\b"
            r"|\byou can always (?:call|email|text|phone|reach|contact|ask|message|use) (?:me|us)\b"
        ),
    ),
)
