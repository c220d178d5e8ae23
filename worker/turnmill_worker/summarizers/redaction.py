"""Takes out of a text what must not reach a model; off unless a setting asks for it.

Redaction is a filter, no guarantee: it finds what has the shape of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Final

from turnmill_worker.errors import SummarizerMisconfigured

Redactor = Callable[[str], str]
"""Gives back a text without what must not leave; the same text, the same result."""

GROUP: Final = "turnmill.redactors"
"""The entry point group a package offers its redactors in."""

BUILT_IN: Final = "built-in"

_LETTERS = "A-Za-z\u00c0-\u024f\u0400-\u052f"
_LABEL = (
    r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,24}[_-]){0,4}(?:(?:api|access|private|auth)[_-]?key|secret"
    r"|passwd|password|passphrase|passwort|token)(?![A-Za-z0-9])"
)

# Every repetition is bounded or ends where it cannot begin: hostile text costs linear time.
_RULES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (
        "private key",
        re.compile(
            r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]{0,8192}"
            r"(?:-----END [A-Z ]{0,32}PRIVATE KEY-----)?"
        ),
    ),
    (
        "key",
        re.compile(
            r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16,256}|(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{20,256}"
            r"|glpat-[A-Za-z0-9_-]{16,64}|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"
            r"|AIza[A-Za-z0-9_-]{30,64}|xox[abposr]-[A-Za-z0-9-]{10,256}"
            r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,128}|hf_[A-Za-z0-9]{20,64}"
            r"|npm_[A-Za-z0-9]{30,64}|pypi-[A-Za-z0-9_-]{30,512})"
        ),
    ),
    (
        "token",
        re.compile(
            r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{0,4096}"
        ),
    ),
    ("token", re.compile(r"(?i)(?<=\bbearer )[A-Za-z0-9._~+/=-]{8,4096}")),
    ("secret", re.compile(r"(?<=://)[^\s/@:\"']{0,128}:[^\s/@\"']{1,256}(?=@)")),
    (
        "secret",
        re.compile(
            r"(?i)(\bauthorization\\{0,2}[\"']?\s{0,3}[:=]\s{0,3}\\{0,2}[\"']?"
            r"(?:basic|digest|token)\s{1,3})[A-Za-z0-9._~+/=-]{8,4096}"
        ),
    ),
    (
        "secret",
        re.compile(
            # Between quotes, whatever is there.
            rf"(?i)({_LABEL}\\{{0,2}}[\"']?\s{{0,3}}[:=]\s{{0,3}}\\{{0,2}}[\"'])(?!\[redacted )"
            r"(?:(?<=\")[^\"\\\n]{1,256}|(?<=')[^'\\\n]{1,256})"
        ),
    ),
    (
        "secret",
        re.compile(
            rf"(?i)({_LABEL}\s{{0,3}}[:=]\s{{0,3}})(?!\[redacted )[^\s\"',;}}{{\\]{{6,256}}"
        ),
    ),
    (
        "email",
        re.compile(
            rf"(?<![{_LETTERS}0-9._%+-])[{_LETTERS}0-9._%+-]{{1,64}}@"
            rf"(?:[{_LETTERS}0-9-]{{1,63}}\.){{1,8}}[{_LETTERS}]{{2,24}}(?![{_LETTERS}0-9-])"
        ),
    ),
)
_CARD = re.compile(r"(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d-])")


def redact(text: str) -> str:
    """The built-in redactor: keys, tokens, passwords with a label, emails, card numbers (Luhn)."""
    for kind, rule in _RULES:
        mark = f"[redacted {kind}]"
        text = rule.sub(rf"\g<1>{mark}" if rule.groups else mark, text)
    return _CARD.sub(lambda card: "[redacted card]" if _is_card(card[0]) else card[0], text)


def load_redactor(name: str) -> Redactor | None:
    """The redactor of this name: ``""`` is none, ``built-in`` ours, any other an entry point.

    Raises:
        SummarizerMisconfigured: there is none of this name, or it cannot be loaded. Text must not
            leave unredacted because of a typing error.
    """
    if not name:
        return None
    if name == BUILT_IN:
        return redact
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join([BUILT_IN, *sorted(found)])
        raise SummarizerMisconfigured(f"no redactor {name!r}: there are {known}")
    try:
        loaded = found[name].load()
    except Exception as error:  # noqa: BLE001 - somebody else's module
        problem = type(error).__name__
    else:
        if callable(loaded):
            return safely(loaded, name)
        problem = f"a {type(loaded).__name__}, which cannot be called"
    raise SummarizerMisconfigured(f"redactor {name!r}: {problem}")


def safely(redactor: Redactor, name: str) -> Redactor:
    """The redactor; when it fails, nothing leaves and nothing of the text is told."""

    def guarded(text: str) -> str:
        try:
            result = redactor(text)
        except Exception as error:  # noqa: BLE001 - somebody else's code
            problem = type(error).__name__
        else:
            if isinstance(result, str):
                return result
            problem = f"it gave back a {type(result).__name__}, not a str"
        raise SummarizerMisconfigured(f"redactor {name!r}: {problem}")

    return guarded


def _is_card(digits: str) -> bool:
    """Whether the check digit is right (Luhn, ISO/IEC 7812-1), and it is not one digit repeated."""
    numbers = [int(char) for char in digits if char.isdigit()]
    if len(set(numbers)) == 1 or numbers[0] == 0:
        return False
    doubled = (sum(divmod(2 * number, 10)) for number in numbers[-2::-2])
    return (sum(numbers[-1::-2]) + sum(doubled)) % 10 == 0
