"""Which mistake ends a command with which code: the same one the same way, whatever the command.

0 done; 1 it could not be done, or was not agreed to; 2 the words given cannot be right; 130 Ctrl-C.
"""

from __future__ import annotations

from turnmill.contract.errors import (
    InvalidInput,
    InvalidTemplate,
    InvalidTurn,
    TurnmillError,
    UnknownEncoding,
    UnknownTemplate,
)
from turnmill_cli.output import CommandFailed

__all__ = ["WrongUsage", "exit_code"]


class WrongUsage(CommandFailed):
    """What was given on the command line cannot be used, whatever the state of things is."""

    exit_code = 2


_FOUND_OUT = (InvalidTurn, InvalidTemplate, UnknownTemplate, UnknownEncoding)
"""Invalid input that is no word of the command line: what a file holds, what there is not."""


def exit_code(error: TurnmillError) -> int:
    """2 where the words given cannot be right, such as a name that none can be; 1 for all else."""
    if isinstance(error, InvalidInput) and not isinstance(error, _FOUND_OUT):
        return WrongUsage.exit_code
    return error.exit_code if isinstance(error, CommandFailed) else CommandFailed.exit_code
