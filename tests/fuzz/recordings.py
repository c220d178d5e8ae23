"""``python -m tests.fuzz.recordings --sessions FOLDER``: recorded conversations in each dialect.

Each conversation of the folder's ``.jsonl`` and ``.jsonl.gz`` files is pushed turn by turn as an
agent of each dialect would, and compacted as it goes. What is read after each turn and each
compaction is checked as ``tests.fuzz.compactions`` does; it must also have each turn after its
watermark, as pushed or with notes that say how much is gone, and in the end each is stored once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.fuzz.compactions import NAMESPACE, Json, Player, any_policy, run
from turnmill import Context, Policy
from turnmill.contract.codec import decode_json
from turnmill.contract.names import Namespace
from turnmill.contract.turns import encode_turn, to_turn
from turnmill.dialects.convert import DIALECTS, from_chat, turn_in_chat
from turnmill.dialects.native import RESPONSES_CALLS
from turnmill_cli.conversations import Conversation, load
from turnmill_cli.promises import (
    CheckedRead,
    TokenCache,
    Transcript,
    check_context,
    check_store,
    fingerprint,
)
from turnmill_cli.redis_view import RedisView
from turnmill_worker.tokens import count_message, counter_for


def turns_of(conversation: Conversation, dialect: str) -> Iterator[list[Json]]:
    """The turns as an agent of the dialect pushes them; items that a model put out are one."""
    said = from_chat(conversation.messages, dialect).messages
    apart = [dialect != "responses" or not _is_put_out(item) for item in said]
    for _, run_of in groupby(range(len(said)), lambda at: at if apart[at] else -1):
        yield [said[at] for at in run_of]


def _is_put_out(item: Mapping[str, Any]) -> bool:
    is_answer = item.get("role") == "assistant"
    return is_answer or item.get("type") == "reasoning" or item.get("type") in RESPONSES_CALLS


class Pushed:
    """What a session must have of its turns."""

    def __init__(self, system_prompt: str, count: TokenCache) -> None:
        self._count = count
        self._transcript = Transcript(system_prompt)
        self._stored: dict[int, bytes] = {}
        self._last: CheckedRead | None = None

    def add(self, turn: list[Json]) -> None:
        """Note what was pushed."""
        stored = decode_json(encode_turn(to_turn(turn_in_chat(turn)[1]))[0])
        seq = self._transcript.last_seq + 1
        self._stored[seq] = fingerprint(_bare(stored))
        self._transcript.add(seq, *from_chat(stored, "chat").messages)

    def missing(self, context: Context, policy: Policy) -> Iterator[str]:
        """What a read lacks of it, or counts wrongly."""
        seen = replace(
            context,
            messages=context.messages_for("chat"),
            # What another dialect says beside is counted, and stands nowhere in chat.
            exact=context.exact and context.dialect == "chat",
        )
        self._last = check_context(
            seen,
            self._transcript,
            hard_limit=policy.hard_limit,
            count=self._count,
            previous=self._last,
        )
        yield from (f"{kind}: {what}" for kind, what in self._last.faults)

    def unstored(self, view: RedisView) -> Iterator[str]:
        """What became otherwise of the turns, or of some."""
        stored = view.stored("s")
        log = [(int(name.partition(b"-")[0]), _body(entry)) for name, entry in stored.log]
        covered = [(int(entry[b"seq"]), _body(entry)) for _, entry in stored.covered]
        found = check_store(self._stored, log, covered, watermark=stored.watermark)
        yield from (f"{kind}: {what}" for kind, what in found)


def _body(entry: Mapping[bytes, bytes]) -> bytes:
    return fingerprint(_bare(json.loads(entry[b"messages"])))


def _bare(value: Any) -> Any:
    """Without the bytes of images, which are stored beside it."""
    if isinstance(value, dict):
        return {name: "" if name == "image_url" else _bare(of) for name, of in value.items()}
    return list(map(_bare, value)) if isinstance(value, list) else value


def unsaid(context: Context) -> Iterator[str]:
    """What the context says in chat, and not in another dialect."""
    chat = context.messages_for("chat")
    texts = {text.strip() for message in chat for text in _texts(message.get("content"))}
    for dialect in DIALECTS:
        said = json.dumps(context.request_for(dialect))
        for _ in (text for text in texts if json.dumps(text)[1:-1] not in said):
            yield f"{dialect}: lacks a text"


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif content:
        yield from (part["text"] for part in content if part.get("type") == "text")


def replay(player: Player, conversation: Conversation, dialect: str) -> None:
    """One conversation, with a worker that comes now and then."""
    where, prompt = f"{conversation.name}, {dialect}", conversation.system_prompt
    random = Random(where)
    counter = counter_for(Policy().encoding)
    policy = any_policy(random, dialect, counter.count(prompt) + MARGIN)
    pushed = Pushed(prompt, TokenCache(partial(count_message, counter)))
    player.begin(policy, prompt)

    def look(at: str) -> None:
        context = player.client.read("s")
        found = [*pushed.missing(context, policy), *unsaid(context)]
        player.note(f"{where}, {at}", context, policy, found)

    for at, turn in enumerate(turns_of(conversation, dialect), 1):
        player.push(turn)
        pushed.add(turn)
        look(f"turn {at}")
        if random.random() < WORKED and player.work() == "committed":
            look(f"turn {at}, compacted")
    for what in pushed.unstored(RedisView(player.redis, Namespace(NAMESPACE))):
        player.tally.faults[f"{what} ({where})"] += 1


MARGIN: Final = 64
"""Tokens around a system prompt, at most."""
WORKED: Final = 0.3
"""How often a worker comes after a turn."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play all of a folder; 1 if a context was not what it must be."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.recordings", description=__doc__)
    parser.add_argument("--sessions", type=Path, required=True, help="the folder of the files")
    files = sorted(parser.parse_args(arguments).sessions.glob("*.jsonl*"))
    return run(partial(_played, files))


def _played(files: Sequence[Path], player: Player) -> Iterator[str]:
    for file in files:
        for conversation in load([file]):
            for dialect in DIALECTS:
                replay(player, conversation, dialect)
        yield f"up to {file.name}"


if __name__ == "__main__":
    sys.exit(main())
