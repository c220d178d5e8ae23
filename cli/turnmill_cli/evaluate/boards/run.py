"""Shows the boards that were asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turnmill.contract.policy import Policy
from turnmill_cli.evaluate.boards.beam import beam_board
from turnmill_cli.evaluate.boards.beam_chats import beam_chats
from turnmill_cli.evaluate.methods import MeteredSummarizer
from turnmill_cli.evaluate.options import EvaluateOptions
from turnmill_cli.evaluate.sheet import Sheet
from turnmill_cli.output import CommandFailed
from turnmill_worker.ports.models import Summarizer
from turnmill_worker.tokens import CountedOnce, counter_for

__all__ = ["boards"]


def boards(
    options: EvaluateOptions, summarizer: Summarizer
) -> tuple[list[Sheet], MeteredSummarizer]:
    """The tables of the boards, in the order they were asked for, and what texts cost.

    Raises:
        BadInput: a file or folder cannot be read.
    """
    counter = CountedOnce(counter_for("o200k_base", "gpt-4o"))
    metered = MeteredSummarizer(summarizer, counter, options.ledger)
    sheets = [sheet for name in options.boards for sheet in _BOARDS[name](options, metered)]
    if options.contexts is not None:
        options.contexts.mkdir(parents=True, exist_ok=True)
        lost = (f"{line}\n" for sheet in sheets for line in sheet.lost)
        (options.contexts / "lost.txt").write_text("".join(lost))
    return sheets, metered


def _beam(options: EvaluateOptions, metered: MeteredSummarizer) -> list[Sheet]:
    if options.beam is None:
        raise CommandFailed("the board beam needs --beam FOLDER")
    chats = beam_chats(options.beam, options.limit)
    policy = Policy(max_tokens=options.max_tokens, ledger_ratio=options.ledger)
    return [beam_board(chats, policy, metered, options.contexts)]


_BOARDS: Final[dict[str, Callable[[EvaluateOptions, MeteredSummarizer], list[Sheet]]]] = {
    "beam": _beam,
}
