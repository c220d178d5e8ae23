"""What hostile bytes may do to each parser: nothing but raise the errors that it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from turnmill.client.commands import Commands
from turnmill.client.transcript import markdown
from turnmill.contract.codec import decode_json
from turnmill.contract.context import StoredContext
from turnmill.contract.errors import (
    CorruptContext,
    InvalidInput,
    InvalidPolicy,
    InvalidTemplate,
    TurnmillError,
)
from turnmill.contract.image_tokens import FORMULAS, dimensions, part_tokens
from turnmill.contract.images import data_url, inline_images, refs_of, split_images
from turnmill.contract.log_entry import decode_turns
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.policy import Policy
from turnmill.contract.trajectory import Trajectory, TrajectoryTurn
from turnmill.contract.turns import encode_turn, to_turn
from turnmill.read.view import META_FIELDS
from turnmill_worker.compaction.items import items_of, told
from turnmill_worker.summarizers.openai.answers import items_in
from turnmill_worker.summarizers.redaction import redact
from turnmill_worker.templates.template import outline, parse_template


def _json(data: bytes) -> Any:
    """The bytes as JSON, or as the text they are."""
    try:
        return decode_json(data)
    except ValueError:
        return data.decode("utf-8", "surrogateescape")


def turns(data: bytes) -> None:
    """A turn that is accepted is stored and read as it is."""
    with suppress(InvalidInput):
        turn = to_turn(_json(data), turn_id="t")
        messages, _ = encode_turn(turn)
        assert decode_turns([messages, messages])[0] == json.loads(messages)


def contexts(data: bytes) -> None:
    """A context that is read is written as one that reads the same."""
    with suppress(CorruptContext):
        stored = StoredContext.parse(data)
        assert StoredContext.parse(stored.encode()) == stored


def policies(data: bytes) -> None:
    """A policy that is read is written as one that reads the same."""
    with suppress(InvalidPolicy):
        policy = Policy.from_json(data)
        assert Policy.from_json(policy.model_dump_json()) == policy


def items(data: bytes) -> None:
    """A model's answer is taken apart, whatever it is."""
    found = [item._replace(quote="") for item in items_in(data.decode("utf-8", "replace"))]
    cited = [item for item in found if item.seqs and item.text]
    assert sorted(items_of(told(cited))) == sorted(cited)


def templates(data: bytes) -> None:
    """A template is used as it is or refused."""
    with suppress(InvalidTemplate):
        assert parse_template("t", "t.md", data).text


def images(data: bytes) -> None:
    """Images leave a turn and come back to the byte."""
    dimensions(data)
    given = _json(data)
    with suppress(InvalidInput):
        turn = to_turn(given, turn_id="t")
        stored, blobs = split_images(turn)
        [messages] = decode_turns([encode_turn(stored)[0]])
        refs = refs_of(messages)
        urls = {ref.sha256: data_url(ref, blobs[ref.sha256]) for ref in refs if ref.sha256 in blobs}
        inline_images(messages, urls)
        for part in (part for one in messages for part in one.get("content") or ()):
            if isinstance(part, dict) and part.get("type") == "image_url":
                assert all(part_tokens(part, formula) >= 0 for formula in FORMULAS.values())


def transcripts(data: bytes) -> None:
    """What a turn says begins no turn of its own in a transcript."""
    with suppress(InvalidInput):
        turn = to_turn(_json(data), turn_id="t")
        [messages] = decode_turns([encode_turn(turn)[0]])
        pushed = TrajectoryTurn(seq=Seq(1), messages=tuple(messages))
        trajectory = Trajectory(namespace=Namespace("n"), session=SessionId("s"), turns=(pushed,))
        trajectory.model_dump_json()
        headings = outline(markdown(trajectory).encode("utf-8", "replace").decode()).headings
        assert [heading.title for heading in headings] == ["Session s", "Turn 1"]


def replies(data: bytes) -> None:
    """What Redis' keys hold gives a context or a typed error: someone else may write to them."""
    fields, body, *pushed = [*data.split(b"\xff"), b"", b""]
    parts = fields.split(b"\xfe")
    meta = [part or None for part in parts[: len(META_FIELDS)]]
    meta += [None] * (len(META_FIELDS) - len(meta))
    entries = []
    for at, entry in enumerate(filter(None, pushed)):
        messages, noted, bound, *_ = [*entry.split(b"\xfe"), b"{}", b"9"]
        stored = [b"m", messages, b"b", bound, b"i", b"t", b"f", noted, b"a", b"1"]
        entries.append((b"%d-0" % (at + 1), stored))
    reply: list[Any] = [meta, body or None, {}, entries, meta[:2]]
    flat = [word for pair in zip(META_FIELDS, meta, strict=True) if pair[1] for word in pair]
    reading = Commands.of("n", 1 << 20)
    with suppress(TurnmillError):
        reading.context("s", reply)
    with suppress(TurnmillError):
        reading.rules("s", reply)
    with suppress(TurnmillError):
        reading.context_info("s", [flat, body or None, *[0] * 5, None, None, None, 1.0])


def secrets(data: bytes) -> None:
    """Redaction takes every text."""
    redact(data.decode("utf-8", "replace"))


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    each.__name__: each
    for each in (
        turns, contexts, policies, items, templates, images, transcripts, replies, secrets,
    )
}  # fmt: skip

_MESSAGE: Final = b'{"role":"user","content":"hi"}'
_CALL: Final = (
    b'[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":'
    b'{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"1"}]'
)
_PNG: Final = (
    b'{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,'
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    b'rkJggg==","detail":"low"}}]}'
)
SEEDS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "turns": (_MESSAGE, _CALL, b'{"messages":[%b],"pinned":true}' % _MESSAGE),
    "contexts": (
        b'{"version":3,"watermark":9,"summary":"s","tokens":7,"ledger":"l"}',
        b'{"events":[{"iteration":1,"last_iteration":2,"first_seq":1,"last_seq":3,"text":"t"}]}',
        b'{"watermark":2,"pins":[{"seq":1,"messages":[{"role":"user","content":"x"}]}]}',
    ),
    "policies": (b'{"max_tokens":8192}', b'{"strategies":["window"],"soft_ratio":0.5}'),
    "items": (b"## Done\n- a (#1)\n", b'{"items": [{"kind": "done", "text": "a", "seqs": [1]}]}'),
    "templates": (b'# T\n\n{{ conversation }}\n\n```json contract\n{"a": 1}\n```\n',),
    "images": (
        _PNG,
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\xff\xd8\xff\xc0",
        b"RIFF\0\0\0\0WEBPVP8 ",
    ),
    "transcripts": (_CALL, _PNG, b'[{"role":"user","name":"n","content":"# a\n```\n## Turn 9"}]'),
    "replies": (
        b"1-1\xfe3\xfe2\xfe9\xfe9\xfesystem\xfe5\xfe5\xfe5\xfe900\xff"
        b'{"version":3,"watermark":2,"summary":"s"}\xff[%b]\xff%b' % (_MESSAGE, _CALL),
    ),
    "secrets": (b"key sk-proj-0123456789abcdef0123456789abcdef me@example.com 4111111111111111",),
}
"""By target, inputs that get far into it."""
