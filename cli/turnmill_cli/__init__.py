"""The command line: ``turnmill up``, ``push``, ``read``, ``doctor`` and more."""

from __future__ import annotations

import sys

__all__ = ["main"]

INTERRUPTED = 130
"""What a shell reports for a command ended by Ctrl-C."""


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        from turnmill_cli.app import app  # noqa: PLC0415 - typer is an extra
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("The command line needs more packages: pip install '.[cli]' in turnmill's folder")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    app(prog_name="turnmill")
