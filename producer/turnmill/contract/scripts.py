"""Lua scripts with a header that is their calling contract.

A script begins with comment lines of this form, and the loader makes named locals of them::

    -- Write the context only if no other compaction committed since it was loaded.
    -- KEYS: context, meta, log
    -- ARGV: expected_version:number, body, changes...
    -- returns: the new version, or 0 when expected_version is stale

``name:number`` is converted, ``name...`` (last) is the list of all remaining arguments. Among the
keys ``name...`` is one of ``KEY_GROUPS``: a local for each of its keys, and one for their list.
A script with the line ``-- full: goes on`` runs on a Redis at ``maxmemory``, too.
A call that names other keys or arguments than the header is refused before it reaches Redis.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from turnmill.contract.errors import ScriptContract
from turnmill.contract.keys import KEY_GROUPS

_HEADER = re.compile(r"^-- (KEYS|ARGV|full|returns): *(.*)$", re.MULTILINE)
_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_sources: dict[str, str] = {}

_GO_ON = "redis.pcall('HDEL', KEYS[1], '')"
"""Lets a script write at ``maxmemory``: Redis refuses only its first write, and none that removes.

It removes nothing, and fails without harm on a key that is no hash. 6.2 knows no flags of scripts.
"""


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua script: its header, and its source with the locals the header promises.

    Attributes:
        name: the file's stem.
        keys: attribute names of ``SessionKeys``, in the order of ``KEYS``.
        args: argument names, in the order of ``ARGV``.
        rest: the name of the list of remaining arguments, or None.
        source: what Redis runs.
        sha: SHA-1 of ``source``, for EVALSHA.
    """

    name: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    rest: str | None
    source: str
    sha: str

    def call(
        self,
        keys: object,
        rest: Sequence[str | bytes | int] = (),
        /,
        **args: str | bytes | int,
    ) -> list[str | bytes | int]:
        """The words after EVALSHA's digest: the number of keys, the keys, the arguments.

        ``keys`` is any object with the attributes the header's KEYS name.

        Raises:
            ScriptContract: an argument is missing or unknown, or a rest is given to a script
                that takes none.
        """
        if len(args) != len(self.args) or (rest and self.rest is None):
            raise ScriptContract(self._refusal(args))
        try:
            named = _named(self.keys)(keys) if self.keys else ()
            values = _valued(self.args)(args) if self.args else ()
            return [len(self.keys), *named, *values, *rest]
        except (KeyError, AttributeError) as error:
            raise ScriptContract(self._refusal(args)) from error

    def _refusal(self, args: dict[str, str | bytes | int]) -> str:
        return (
            f"{self.name}.lua takes keys ({', '.join(self.keys)}) and arguments "
            f"({', '.join(self.args)}{', ' + self.rest + '...' if self.rest else ''}); "
            f"got arguments ({', '.join(args)})"
        )


# The getters of `operator` are written in C, and return no tuple for a single name.
@cache
def _named(names: tuple[str, ...]) -> Callable[[object], tuple[Any, ...]]:
    return attrgetter(*names) if len(names) > 1 else lambda found: (getattr(found, names[0]),)


@cache
def _valued(names: tuple[str, ...]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    return itemgetter(*names) if len(names) > 1 else lambda found: (found[names[0]],)


@cache
def load_script(package: str, name: str) -> Script:
    """The script ``<name>.lua`` in ``package``.

    Raises:
        ScriptContract: its header is missing or not of the form above.
    """
    text = resources.files(package).joinpath(f"{name}.lua").read_text(encoding="utf-8")
    header = dict(_HEADER.findall(text))
    if not header.keys() >= {"KEYS", "ARGV", "returns"}:
        raise ScriptContract(f"{name}.lua: its header needs the lines KEYS, ARGV and returns")
    keys, groups = _keys(name, _names(header["KEYS"]))
    args = _names(header["ARGV"])
    rest = args.pop().removesuffix("...") if args and args[-1].endswith("...") else None
    lines = [*_locals(name, keys, args, rest), *groups]
    if header.get("full") == "goes on":
        lines.append(_GO_ON)
    source = "; ".join(lines) + "\n" + text
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    _sources[sha] = source
    return Script(
        name=name,
        keys=tuple(keys),
        args=tuple(arg.partition(":")[0] for arg in args),
        rest=rest,
        source=source,
        sha=sha,
    )


def source_of(sha: str) -> str | None:
    """The source of a script that was loaded here."""
    return _sources.get(sha)


def _names(line: str) -> list[str]:
    return [] if line.strip() == "none" else [part.strip() for part in line.split(",")]


def _keys(script: str, words: list[str]) -> tuple[list[str], list[str]]:
    """The names of all keys, and the Lua that makes lists of the groups among them."""
    names: list[str] = []
    groups = []
    for word in words:
        group = word.removesuffix("...")
        if group == word:
            names.append(word)
            continue
        if group not in KEY_GROUPS:
            raise ScriptContract(f"{script}.lua: {word!r} is none of {', '.join(KEY_GROUPS)}")
        names += KEY_GROUPS[group]
        groups.append(f"local {group} = {{{', '.join(KEY_GROUPS[group])}}}")
    return names, groups


def _locals(name: str, keys: list[str], args: list[str], rest: str | None) -> list[str]:
    lines = [f"local {key} = KEYS[{at}]" for at, key in enumerate(keys, 1)]
    for at, arg in enumerate(args, 1):
        word, _, kind = arg.partition(":")
        if kind not in ("", "number") or not _NAME.match(word):
            raise ScriptContract(f"{name}.lua: {arg!r} is not name, name:number or name...")
        lines.append(f"local {word} = " + (f"tonumber(ARGV[{at}])" if kind else f"ARGV[{at}]"))
    if rest is not None:
        # A loop: Lua's unpack gives up at some 8,000 values.
        given = f"for at = {len(args) + 1}, #ARGV do {rest}[#{rest} + 1] = ARGV[at] end"
        lines.append(f"local {rest} = {{}}; {given}")
    return lines


class Call(NamedTuple):
    """One script call: ``EVALSHA script.sha *words``."""

    script: Script
    words: list[str | bytes | int]


Command = tuple[str | bytes | int, ...]
"""A plain Redis command."""


def evals(calls: Sequence[Call], *, with_source: bool) -> list[Command]:
    """Calls of one script as commands; the first may take the script's source along."""
    commands: list[Command] = [("EVALSHA", call.script.sha, *call.words) for call in calls]
    if with_source:
        commands[0] = ("EVAL", calls[0].script.source, *calls[0].words)
    return commands
