# Generated from _async/erasing.py: change that, then run `make sync`.
"""Erasing what was said: the part of a client that asks workers for it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from turnmill.contract import jobs

if TYPE_CHECKING:
    from turnmill.contract.erasure import Erased
    from turnmill.contract.results import RollbackResult

__all__ = ["Erasing"]


class Erasing:
    """What a client erases."""

    def _ask(self, task: str, session: str, body: dict[str, object], timeout_s: float) -> Any:
        """What a worker answers."""
        raise NotImplementedError

    def erase(
        self,
        session: str,
        *,
        turns: Collection[int] = (),
        matching: str | None = None,
        subject: str | None = None,
        repeats: bool = False,
        by: str = "",
        dry_run: bool = False,
        timeout_s: float = 60.0,
    ) -> Erased:
        """Erase turns from Redis and the archive, with all that was made of them. This is final.

        Turns are chosen by their seqs, by a text in them, or by a name in them as whole words. They
        keep their places, with neutral messages in them. The context is made anew of what remains.

        Args:
            session: also one that only the archive has.
            turns: seqs.
            matching: a text; case and white space do not matter.
            subject: a name, an address or an id.
            repeats: erase turns, too, that repeat five words in a row of those.
            by: who erases; the record of the erasure says it.
            dry_run: change nothing, and say what would go.
            timeout_s: longest wait for a worker.

        Raises:
            InvalidInput: nothing, or more than one thing, to choose turns by; or no such turn.
            UnknownSession: neither in Redis nor in the archive.
            SessionBusy: compactions came between at every attempt.
            NotAnswered: no worker was done in time; says whether one is at it.
        """
        from turnmill.contract.erasure import Erased, erasing  # noqa: PLC0415 - few erase

        body = erasing(turns, matching, subject, repeats=repeats, by=by, dry_run=dry_run)
        return Erased.model_validate(self._ask(jobs.ERASE, session, body, timeout_s))

    def take_back(
        self, session: str, seq: int, *, dialect: str = "chat", timeout_s: float = 10.0
    ) -> RollbackResult:
        """Take the last message of the newest turn out of the session; the turn, if it was all.

        ``seq`` is that turn's, as in ``Context.last_seq``: so nothing pushed meanwhile is taken.
        In the dialect ``responses`` it is the last item. What a summary covers stays.

        Raises:
            InvalidInput: there is a newer turn.
            NoCheckpoint: a summary covers all turns, or there are none.
            UnknownSession: never opened nor pushed to, forgotten, or expired.
            SessionBusy: compactions came between at every attempt.
            NotAnswered: no worker was done in time; says whether one is at it.
        """
        from turnmill.contract.results import RollbackResult  # noqa: PLC0415 - few take back

        body: dict[str, object] = {"item_of": seq, "dialect": dialect}
        answer = self._ask(jobs.ROLLBACK, session, body, timeout_s)
        return RollbackResult.model_validate(answer)
