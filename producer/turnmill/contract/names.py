"""Names and positions that cross a boundary, as types, and the rules for the names."""

from __future__ import annotations

import re
from typing import Final, NewType

from turnmill.contract.errors import InvalidName

SessionId = NewType("SessionId", str)
Namespace = NewType("Namespace", str)
TurnId = NewType("TurnId", str)

Seq = NewType("Seq", int)
"""The 1-based position a turn gets when admitted; never reused."""

MAX_SEQ: Final = 2**53 - 1
"""What every JSON parser reads as the number it is."""

Version = NewType("Version", int)
"""0 until the first commit; raised by one with each commit."""

# Braces would move the key to another cluster slot; white space and globs make keys unreadable.
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/#+=~-]{0,199}\Z")
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


RESERVED = "endpoint"
"""``turnmill:{endpoint/…}`` are the gates of models: an ACL for this name would open them."""

TEMPLATE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""No separator and no leading dot: a template's name never leaves its folder."""

SUMMARIZER_NAME = TEMPLATE_NAME
"""The rule for names of summarizers that packages offer."""

STRATEGY_NAME = TEMPLATE_NAME
"""The rule for names of strategies that packages offer."""


def session_id(value: object) -> SessionId:
    """The session name, checked.

    Raises:
        InvalidName: not 1-200 ASCII letters, digits or ``. _ : @ / # + = ~ -``, starting with a
            letter or digit.
    """
    if not isinstance(value, str) or not _SESSION.match(value):
        raise InvalidName(
            f"session name: got {_kind(value)}; allowed are 1 to 200 ASCII letters, digits and "
            "._:@/#+=~- with a letter or digit first"
        )
    return SessionId(value)


def namespace(value: object) -> Namespace:
    """The namespace name, checked.

    Raises:
        InvalidName: not 1-64 ASCII letters, digits or ``_ . -``, starting with a letter or digit;
            or a name that keys of all namespaces begin with.
    """
    if not isinstance(value, str) or not _NAMESPACE.match(value):
        raise InvalidName(
            f"namespace name: got {_kind(value)}; allowed are 1 to 64 ASCII letters, digits and "
            "_.- with a letter or digit first"
        )
    if value == RESERVED:
        raise InvalidName(f"namespace name: {RESERVED!r} is taken, by keys that all share")
    return Namespace(value)


def policy_name(value: object) -> str:
    """The name of a policy, checked like the name of a namespace.

    Raises:
        InvalidName: not 1-64 ASCII letters, digits or ``_ . -``, starting with a letter or digit.
    """
    if not isinstance(value, str) or not _NAMESPACE.match(value):
        raise InvalidName(
            f"policy name: got {_kind(value)}; allowed are 1 to 64 ASCII letters, digits and "
            "_.- with a letter or digit first"
        )
    return value


def template_name(value: object) -> str:
    """The name of a template, checked.

    Raises:
        InvalidName: not 1-64 ASCII letters, digits or ``_ . -``, starting with a letter or digit.
    """
    if not isinstance(value, str) or not re.fullmatch(TEMPLATE_NAME, value):
        raise InvalidName(
            f"template name: got {_kind(value)}; allowed are 1 to 64 ASCII letters, digits and "
            "_.- with a letter or digit first"
        )
    return value


def _kind(value: object) -> str:
    if not isinstance(value, str):
        return f"a value of type {type(value).__name__}"
    return f"{len(value)} characters, too many or not all allowed"
