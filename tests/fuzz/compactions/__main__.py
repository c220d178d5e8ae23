"""``python -m tests.fuzz.compactions``: compact sessions of every dialect, and check every context.

Each context must be valid for the provider of each dialect, within its limit, and have each
thought, each encrypted item, byte for byte as it was pushed or not at all. A fault says the seed it
was found with: ``--seed N --compactions 1`` plays that session again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tests.fuzz.compactions.agents import AGENTS
from tests.fuzz.compactions.play import Player, Tally
from tests.fuzz.compactions.recorded import recorded
from turnmill import Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.dialects.convert import DIALECTS

MOST_FAULTS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Play until there were so many compactions; 1 if a context was not what it must be."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.compactions", description=__doc__)
    parser.add_argument("--compactions", type=int, default=10_000, help="of made-up sessions")
    parser.add_argument("--seed", type=int, default=1, help="of the first session")
    parser.add_argument("--data", type=Path, help="a folder of *.jsonl.gz, to play in each dialect")
    asked = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedRedis(Path(folder), durable=False) as server,
        closing(Player(server.url)) as player,
    ):
        for said in _play(player, asked.compactions, asked.seed):
            _show(said, player.tally)
        if asked.data:
            for name in recorded(asked.data, DIALECTS, player.told, Policy(max_tokens=8192)):
                _show(name, player.tally)
        for fault, times in player.tally.faults.most_common(MOST_FAULTS):
            _say(f"{times} x {fault}")
        _say(str(dict(player.tally.compactions)))
        return bool(player.tally.faults)


def _play(player: Player, compactions: int, first: int) -> Iterator[str]:
    seed = first
    while player.tally.compactions.total() < compactions:
        for dialect in AGENTS:
            player.fuzz(dialect, seed)
        if seed % 20 == 0:
            yield f"up to seed {seed}"
        seed += 1
    yield f"seeds {first} to {seed - 1}"


def _show(name: str, tally: Tally) -> None:
    _say(
        f"{name}: {tally.turns} turns, {tally.compactions.total()} compactions, "
        f"{tally.contexts} contexts, {tally.projected} of them projected, "
        f"{tally.thoughts} thoughts shown, {tally.faults.total()} faults"
    )


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - it is a command


if __name__ == "__main__":
    sys.exit(main())
