"""Shows the boards that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from turnmill.contract.policy import Policy
from turnmill_cli.evaluate.boards.beam import beam_board
from turnmill_cli.evaluate.boards.beam_chats import beam_chats
from turnmill_cli.evaluate.boards.compint import compint_board, constraints
from turnmill_cli.evaluate.boards.kit import kit_board
from turnmill_cli.evaluate.boards.task import task_board
from turnmill_cli.evaluate.boards.telephone import telephone_board
from turnmill_cli.evaluate.methods import MeteredSummarizer
from turnmill_cli.evaluate.options import EvaluateOptions
from turnmill_cli.evaluate.sheet import Sheet
from turnmill_cli.evaluate.survival import DataSet, load
from turnmill_cli.output import CommandFailed
from turnmill_worker.ports.protocols import Summarizer
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


def _kit(options: EvaluateOptions, metered: MeteredSummarizer) -> list[Sheet]:
    return kit_board(options.budget or (0.1, 0.2, 0.3), metered)


def _compint(options: EvaluateOptions, metered: MeteredSummarizer) -> list[Sheet]:
    if options.compint is None:
        raise CommandFailed("the board compint needs --compint FILE")
    rules, shares = constraints(options.compint), options.budget or (0.2, 0.1, 0.05)
    return [compint_board(data, rules, shares, metered) for data in _data(options)]


def _task(options: EvaluateOptions, metered: MeteredSummarizer) -> list[Sheet]:
    return [
        task_board(data, options.max_tokens, metered, options.contexts) for data in _data(options)
    ]


def _telephone(options: EvaluateOptions, metered: MeteredSummarizer) -> list[Sheet]:
    shares = options.budget or (0.2,)
    return [telephone_board(d, share, metered) for d in _data(options) for share in shares]


def _data(options: EvaluateOptions) -> Iterator[DataSet]:
    for path in options.files or ():
        yield load(path, values=options.values, limit=options.limit)


_BOARDS: Final[dict[str, Callable[[EvaluateOptions, MeteredSummarizer], list[Sheet]]]] = {
    "beam": _beam,
    "kit": _kit,
    "compint": _compint,
    "task": _task,
    "telephone": _telephone,
}
