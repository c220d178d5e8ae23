"""Prints the contexts a peer makes of sessions on stdin; run by the peers' own Python."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys

from benchmarks.steps.load import Load


async def play(made_by: str) -> None:
    """A line with the session's number and the messages' texts, before each answer."""
    asked = json.load(sys.stdin)
    module, _, make = made_by.partition(".")
    load = Load(window=asked["window"], model_url=asked["url"])
    peer = getattr(importlib.import_module(f"benchmarks.steps.peers.{module}"), make)(load)
    for at, messages in enumerate(asked["sessions"]):
        await peer.open(str(at), asked["window"])
        turn = []
        for message, after in zip(messages, [*messages[1:], {}], strict=True):
            turn.append(message)
            if after.get("role") == "assistant":
                await peer.append(str(at), peer.prepare(turn))
                turn = []
                texts = [peer.text(each) for each in await peer.context(str(at))]
                print(json.dumps([at, texts]))


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1]))
