"""What an agent did: a call or command on one line with its object, and whether it only looked.

Told by structure and a few generic words, never by the names of one framework's tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from turnmill_worker.old_reading.sentences import one_line

__all__ = ["Action", "Role", "described", "ordered", "role_told", "without_purpose"]


class Role(Enum):
    """What a unit tells of an agent's work."""

    SAID = ""
    CHANGE = "change"
    RUN = "run"
    LOOK = "look"
    WRITTEN = "written"
    QUOTATION = "quotation"

    # Found by its name in Python code otherwise, and asked for with every unit.
    __hash__ = object.__hash__


class Action(NamedTuple):
    """One call or command, on one line.

    Attributes:
        name: the tool's, or ``""``.
        written: the lines it writes, where it tells the first ones only.
    """

    text: str
    role: Role
    name: str = ""
    written: tuple[str, ...] = ()


_LONGEST: Final = 240
_LONGEST_VALUE: Final = 100
_LOOKED_AT: Final = 2000
_LINES_SHOWN: Final = 2
"""Of a text of several lines, so many tell what it is."""

_COMMANDS: Final = frozenset({"command", "cmd", "bash", "script", "shell"})
_TOLD_BY: Final = frozenset({"description", "explanation", "reason"})
"""What an agent says a command is for: it stands first, and the command is told in fewer words."""

_PURPOSE = re.compile(r"\([^()]{0,240}\) ")
_PATH = re.compile(
    r"(?:^|[\s\"'=:(])(?:"
    r"(?:~|\.{1,2})?/[\w@+-][\w.@+-]{0,80}|(?:[\w.@+-]{1,80}/){1,20}[\w@+-]{1,80}\.[A-Za-z]\w{0,7}\b)"
)
_NAMES_FILE = re.compile(r"path|file", re.IGNORECASE)
_FILE = re.compile(r"[\w.-]{1,80}\.[A-Za-z]\w{0,7}")
_CHANGES = re.compile(
    r"(?:^|_|\b)(?:create|write|edit|insert|replace|update|delete|remove|rename|apply|patch|append"
    r"|save|undo|commit|overwrite)(?:$|_|\b)",
    re.IGNORECASE,
)
_LOOKS = re.compile(
    r"(?:^|_|\b)(?:view|read|open|show|list|ls|get|find|search|grep|glob|cat|look|browse|fetch|goto"
    r"|scroll|think|think_?aloud|inspect)(?:$|_|\b)",
    re.IGNORECASE,
)
_SHELL_CHANGES = re.compile(
    r"(?<![0-9&>=-])>{1,2}(?!&)\s{0,3}(?!/dev/null)[\w./~\"'$-]|<<|\bsed\b[^|;&\n]{0,80} -i"
    r"|\b(?:git (?:apply|commit|checkout|reset|stash|add|merge|rebase|restore|revert|push|rm|mv)"
    r"|patch|mv|cp|rm|mkdir|touch|tee|chmod|ln|install|uninstall|upgrade)\b"
)
_SHELL_LOOKS = re.compile(
    r"(?:ls|cat|head|tail|grep|egrep|rg|find|fd|tree|pwd|wc|file|stat|which|less|more|nl|sed -n|cd"
    r"|echo|env|type|du|df|ps|sort|uniq|strings|hexdump|xxd|od|whoami|date|true|printenv"
    r"|git (?:status|log|diff|show|branch|blame|ls-files|grep))\b"
)
_IN_SQL: Final = frozenset({"query", "sql", "statement", "stmt"}) | _COMMANDS
_QUERY = re.compile(
    r"(?:--[^\n]{0,200}\n\s{0,40}){0,9}(?:explain\s{1,9}(?:analyze\s{1,9})?)?"
    r"(?:select\b[^;]{1,2000}?\bfrom\b|with\s{1,9}\w{1,80}\s{1,9}as\b"
    r"|show\s{1,9}(?:tables|databases|schemas|columns|indexes)\b|(?:describe|pragma)\s{1,9}\w{1,80}\W*$)",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"\b(?:insert\s{1,9}into|delete\s{1,9}from|merge\s{1,9}into|update\s{1,9}[\w.\"]{1,80}\s{1,9}set"
    r"|(?:create|alter|drop|truncate)\s{1,9}(?:or|temp|unique|table|view|index|schema|database|role)"
    r"|(?:grant|revoke)\s{1,9}\w{1,40}\s{1,9}on)\b",
    re.IGNORECASE,
)
_IN_CODE: Final = frozenset({"code", "source", "snippet", "program", "expression"}) | _IN_SQL
_IMPORT = re.compile(
    r"import [\w.]{1,80}(?: as \w{1,40})?;?|import .{1,80} from ['\"].{1,80}"
    r"|from [\w.]{1,80} import .{1,200}|#include .{1,80}|us(?:e|ing) [\w:.{}*, ]{1,120};"
    r"|(?:const|let|var) .{1,80} = require\(.{1,80}"
)
_SEGMENT = re.compile(r"\s*(?:&&|\|\||[;|\n])\s*")


def described(name: str, arguments: Mapping[str, Any]) -> Action | None:
    """The call on one line; None if its arguments are fields of a record, which stand alone.

    It is one if an argument holds a path, a command or several lines.
    """
    texts = {str(key): value for key, value in arguments.items() if isinstance(value, str)}
    if any(isinstance(value, Mapping) for value in arguments.values()):
        return None
    if not any(_is_work(key, value) for key, value in texts.items()):
        return None
    is_told = not _COMMANDS.isdisjoint(map(str.lower, texts))
    purpose = [key for key in texts if key.lower() in _TOLD_BY] if is_told else []
    parts = [f"({_value(texts[key])})" for key in purpose if texts[key].strip()]
    most = _LONGEST // 2 if parts else _LONGEST
    others = ((str(key), value) for key, value in arguments.items() if str(key) not in purpose)
    parts += [_argument(key, value, most) for key, value in others]
    role = _role(name, texts)
    new = [
        text
        for key, text in texts.items()
        if not key.lower().startswith("old")
        and (role is Role.CHANGE or key.lower() not in _IN_CODE)
    ]
    return Action(_capped(" ".join(filter(None, parts))), role, name, _more_lines(new))


def ordered(command: str) -> Action:
    """A command an assistant wrote, as it would be typed."""
    return Action(
        _capped(_value(command)), _role_of_command(command), written=_more_lines([command])
    )


def _more_lines(texts: Iterable[str]) -> tuple[str, ...]:
    """The lines behind those that are shown."""
    return tuple(line for text in texts for line in _telling(text)[_LINES_SHOWN:])


def _telling(text: str) -> list[str]:
    lines = (one_line(line) for line in text.split("\n"))
    return [line for line in lines if any(map(str.isalnum, line))]


def without_purpose(text: str) -> str:
    """An action as it was told, without what an agent said that it is for."""
    purpose = _PURPOSE.match(text)
    return text[purpose.end() :] if purpose else text


def role_told(text: str) -> Role:
    """The role of an action as it was told on its line."""
    text = without_purpose(text)
    verb = text.partition(" ")[0]
    return Role.CHANGE if _CHANGES.search(verb) else _role_of_command(text)


def _is_work(key: str, value: str) -> bool:
    if "\n" in value.strip() or key.lower() in _COMMANDS or _is_sql(key, value):
        return True
    if _NAMES_FILE.search(key) and _FILE.fullmatch(value[:_LOOKED_AT]):
        return True
    return _PATH.search(value[:_LOOKED_AT]) is not None and "://" not in value[:_LOOKED_AT]


def _argument(key: str, value: Any, most: int) -> str:
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, str):
        is_command = key.lower() in _COMMANDS
        short = _value(value, most if is_command else _LONGEST)
        # A command, a verb or a path says what it is by itself.
        bare = is_command or ("path" in key.lower() and " " not in short)
        return short if bare else f"{one_line(key)[:40]}={short}"
    return f"{one_line(key)[:40]}={one_line(str(value))[:_LONGEST_VALUE]}"


def _value(text: str, longest: int = _LONGEST) -> str:
    """A text, or its first telling lines and how many more there are."""
    whole = _telling(text)
    if not whole:
        return one_line(text)[:_LONGEST_VALUE]
    lines = [line for line in whole if not _IMPORT.fullmatch(line)] or whole
    most = longest if len(lines) == 1 else _LONGEST_VALUE
    shown = [_cut(line, most) for line in lines[:_LINES_SHOWN]]
    more = f" … ({len(whole)} lines)" if len(whole) > len(shown) else ""
    return " ⏎ ".join(shown) + more


def _cut(line: str, most: int) -> str:
    if len(line) <= most:
        return line
    end = line.rfind(" ", most // 2, most)
    return f"{line[: end if end > 0 else most]} …"


def _capped(text: str) -> str:
    return _cut(text, 2 * _LONGEST)


def _is_sql(key: str, value: str) -> bool:
    start = value[:_LOOKED_AT].strip()
    is_sql = _QUERY.match(start) or _STATEMENT.match(start)
    return key.lower() in _IN_SQL and is_sql is not None


def _role(name: str, texts: Mapping[str, str]) -> Role:
    statements = [text for key, text in texts.items() if _is_sql(key, text)]
    if statements:
        return Role.CHANGE if any(map(_STATEMENT.search, statements)) else Role.LOOK
    command = next((text for key, text in texts.items() if key.lower() in _COMMANDS), "")
    is_verb = command.replace("_", "").isalpha()
    if command and not is_verb:
        return _role_of_command(command)
    verb = f"{name} {command}" if not is_verb else command
    writes = any("\n" in text.strip() for text in texts.values())
    if _CHANGES.search(verb) or (writes and any(map(_NAMES_FILE.search, texts))):
        return Role.CHANGE
    return Role.LOOK if _LOOKS.search(verb) else Role.RUN


def _role_of_command(command: str) -> Role:
    command = command[:_LOOKED_AT].strip()
    if _SHELL_CHANGES.search(command) or _CHANGES.match(command):
        return Role.CHANGE
    segments = [segment for segment in _SEGMENT.split(command) if segment]
    looks = all(_SHELL_LOOKS.match(each) or _LOOKS.match(each) for each in segments)
    return Role.LOOK if looks else Role.RUN
