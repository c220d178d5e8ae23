"""The golden files: one of each stored and sent thing, as this version writes it.

``python -m tests.unit.contract.golden`` writes them anew. Whoever changes one changes what other
versions must read. A new field raises the minor of contract/formats.py; what older versions would
misread raises the major. Say either in CHANGELOG.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from turnmill import Policy, StoredContext, Turn
from turnmill.client.commands import Commands as Pushing
from turnmill.client.requests import ask
from turnmill.contract.context import Elision, OpenRequest, PinnedTurn, Receipt, SummaryEvent
from turnmill.contract.job_outcomes import Compaction, Outcome
from turnmill.contract.jobs import FORCE
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill.contract.policy import policy_body
from turnmill.contract.rules import Rule
from turnmill.contract.turns import encode_turn
from turnmill_worker.reading.digest import Digest
from turnmill_worker.reading.known import Known
from turnmill_worker.reading.passages import Passage, Reading
from turnmill_worker.reading.readings import Readings
from turnmill_worker.reading.said import Said
from turnmill_worker.store.sessions import encoded_known

__all__ = ["FOLDER", "OLDER", "golden"]

FOLDER = Path(__file__).with_name("golden_files")
OLDER = Path(__file__).with_name("older_files")
"""What versions before wrote otherwise, and this one reads."""

_MESSAGE: dict[str, Any] = {"role": "user", "content": "Ship order 4711 to Ålesund — today."}

_IMAGE: dict[str, Any] = {
    "type": "image_url",
    "image_url": {"url": f"blob:{'0' * 64};image/png;640x480"},
}
_REQUEST = OpenRequest(
    seq=Seq(8), text="Ship it.", first=True, earlier=True, images=(_IMAGE,), images_gone=2
)

_CONTEXT = StoredContext(
    version=Version(3),
    watermark=Seq(9),
    summary="The user ships parcels.",
    pins=(PinnedTurn(seq=Seq(2), messages=(_MESSAGE,)),),
    elisions=(Elision(seq=Seq(11), index=1, message=_MESSAGE, tokens_before=900, tokens_after=30),),
    receipts=(Receipt(by="window", first_seq=1, last_seq=4, turns=3, tokens=812),),
    tokens=120,
    strategy="rolling",
    events=(SummaryEvent(iteration=1, last_iteration=2, first_seq=1, last_seq=4, text="Began."),),
    managed=True,
    ledger="1 user: order 4711",
    rules=(
        Rule(
            seq=Seq(2),
            place=2,
            text="Never on Sundays.",
            revised=Seq(7),
        ),
    ),
    requests=(_REQUEST,),
    recall=True,
)

_RECORD = Compaction(
    session=SessionId("s"),
    version=Version(3),
    strategy="rolling",
    from_watermark=Seq(4),
    watermark=Seq(9),
    turns=5,
    elided=1,
    tokens_before=9120,
    tokens_after=3075,
    last_seq=Seq(12),
    quality=0.75,
    quality_parts={"facts": 0.5},
    model="extractive",
    prompt_tokens=10,
    completion_tokens=2,
    cost_usd=0.25,
    failed=("RateLimited",),
    rules_added=1,
    rules_ended=2,
)

_CALL: dict[str, Any] = {
    "id": "c",
    "type": "function",
    "function": {"name": "find", "arguments": '{"id": 4711}'},
}
_READ: tuple[tuple[dict[str, Any], ...], ...] = (
    (_MESSAGE, {"role": "user", "content": "Never ship on Sundays."}),
    (
        {"role": "assistant", "content": None, "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "c", "content": '{"id": 4711, "city": "Ålesund"}'},
    ),
)


def _known() -> bytes:
    """What is kept of these turns; a token is a character, to depend on no tokenizer."""
    readings = Readings(len)
    turns = [readings.of_turn(seq, messages) for seq, messages in enumerate(_READ, 1)]
    # Another fit of the rules changes no format.
    turns = [[each._replace(passages=_unfitted(each)) for each in turn] for turn in turns]
    said = Said()
    for seq, turn in enumerate(turns, 1):
        said.hear(seq, turn)
    digest = Digest(Known(), [each for turn in turns for each in turn], len, through=2)
    return encoded_known(replace(digest.after(500), said=tuple(said.up_to(2))))


def _unfitted(reading: Reading) -> tuple[Passage, ...]:
    return tuple(
        each._replace(rule=float(each.text.startswith("Never"))) for each in reading.passages
    )


def golden() -> Mapping[str, bytes]:
    """Each file's name and bytes."""
    turn = Turn.model_validate(
        {"messages": [_MESSAGE], "pinned": True, "iteration": 4, "metadata": {"source": "test"}}
    )
    messages, fields = encode_turn(turn)
    push = Pushing(namespace=Namespace("shop")).push("s", turn, new_id=lambda: "turn-1")
    question = ask(FORCE, Namespace("shop"), "s", {"template": ""}, timeout_s=1)
    outcome = Outcome(outcome="committed", session=SessionId("s"), turns=5, version=Version(3))
    return {
        "context.json": _CONTEXT.encode(),
        "context-empty.json": StoredContext().encode(),
        "record.json": _RECORD.encode(),
        "facts.json": _known(),
        "policy.json": policy_body(Policy()),
        "turn-messages.json": messages,
        "turn-fields.json": fields,
        "push-arguments.txt": "\n".join(map(_shown, push.call.words)).encode(),
        "question.json": question.body,
        "outcome.json": outcome.model_dump_json(exclude_none=True).encode(),
    }


def _shown(word: str | bytes | int) -> str:
    return word.decode() if isinstance(word, bytes) else str(word)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, body in golden().items():
        (FOLDER / name).write_bytes(body)
