"""Erasing what was said: how it is asked for, and what is told of it, which never quotes it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from turnmill.contract.errors import InvalidInput
from turnmill.contract.formats import Value
from turnmill.contract.names import Seq, SessionId

How = Literal["turn", "matching", "subject"]
"""By what the turns were chosen."""

_LONGEST_BY = 200


class Erased(Value):
    """What was erased of a session, or would be.

    Attributes:
        at_ms: when, by Redis' clock.
        by: who asked for it.
        turns: the turns whose words are gone; they keep their places in the conversation.
        earlier: how many turns were erased besides, of earlier incarnations of the session, and of
            what Redis lost when it went back.
        repeated_in: turns that have five words in a row of them, and were not erased.
        contexts: committed contexts made of them, which are empty now.
        checkpoints: those that are gone.
        memories: of all kinds, those that are gone.
        images: of the archive, those that nothing shows any more.
        remade: whether the context is made anew of the turns that remain.
        in_system_prompt: system prompt or tools have some of it, and stay as they are.
        forks: sessions forked from this one, in which turns they share were erased, too.
        rewritten: whether the database's files were written anew, so that they hold no old bytes;
            None where there is no archive.
    """

    session: SessionId
    dry_run: bool
    at_ms: int
    by: str
    how: How
    turns: tuple[Seq, ...] = ()
    earlier: int = 0
    repeated_in: tuple[Seq, ...] = ()
    contexts: int = 0
    checkpoints: int = 0
    memories: int = 0
    images: int = 0
    remade: bool = False
    in_system_prompt: bool = False
    rewritten: bool | None = None
    forks: tuple[SessionId, ...] = ()


def erasing(
    turns: Collection[int],
    matching: str | None,
    subject: str | None,
    *,
    repeats: bool,
    by: str,
    dry_run: bool,
) -> dict[str, Any]:
    """The request to erase turns, by their seqs, or by a text or name in them.

    Raises:
        InvalidInput: none of the three is given, or more than one; or one cannot be looked for.
    """
    given = [
        *([turns] if turns else []),
        *(text for text in (matching, subject) if text is not None),
    ]
    if len(given) != 1:
        raise InvalidInput("erase: exactly one of turns, matching and subject must be given")
    if not all(isinstance(turn, int) and not isinstance(turn, bool) and turn > 0 for turn in turns):
        raise InvalidInput("turns: must be whole numbers from 1 on")
    for name, text in (("matching", matching), ("subject", subject)):
        if text is not None and (not isinstance(text, str) or not any(map(str.isalnum, text))):
            raise InvalidInput(f"{name}: must be a str with a letter or digit in it")
    if not isinstance(by, str) or len(by) > _LONGEST_BY:
        raise InvalidInput(f"by: must be a str of at most {_LONGEST_BY} characters")
    return {
        "turns": sorted(turns),
        "matching": matching,
        "subject": subject,
        "repeats": repeats,
        "by": by,
        "dry_run": dry_run,
    }
