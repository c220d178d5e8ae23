"""Forks, children and rewinds against twins that never compact, compared at every step.

``TURNMILL_FORK_PROGRAMS=10000 pytest tests/properties/test_forks.py`` runs as many.
"""

from __future__ import annotations

import os
import random
import re
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.properties.stepping import SentHints
from turnmill import ContextClient, InvalidInput, Policy, SilentWaker, Turn
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.erasure import erasing
from turnmill.contract.legality import violations
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.archive import SqlArchive
from turnmill_worker.pipeline.archive import Archiving
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.requests.children import Children
from turnmill_worker.requests.erasure import Erasing
from turnmill_worker.requests.export import Exporting
from turnmill_worker.requests.forking import Forking
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.outgoing import RedisOutgoing
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.store.summaries import RedisWaiting
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import counter_for

PROGRAMS = int(os.environ.get("TURNMILL_FORK_PROGRAMS", "25"))
STEPS = 14
POLICY = Policy(max_tokens=512, checkpoint_interval=4)
Message = dict[str, Any]


@dataclass
class Said:
    """A turn as it must be found again; ``origin`` is the one of which a child has the words."""

    seq: int
    turn_id: str
    messages: list[Message]
    state: str = "kept"
    is_erased: bool = False
    is_rule: bool = False
    origin: str = ""

    @property
    def key(self) -> str:
        return self.origin or self.turn_id

    @property
    def text(self) -> str:
        return str(self.messages[0]["content"])


@dataclass
class Twin:
    """A session that never compacts; ``seen`` is what was read at a turn, before the next."""

    turns: list[Said] = field(default_factory=list)
    forks: list[str] = field(default_factory=list)
    seen: dict[int, list[Message]] = field(default_factory=dict)
    last: int = 0

    @property
    def kept(self) -> list[Said]:
        return [turn for turn in self.turns if turn.state == "kept"]

    @property
    def rules(self) -> list[str]:
        rules = [turn for turn in self.kept if turn.is_rule and not turn.is_erased]
        return [message["content"] for turn in rules for message in turn.messages]

    def is_amid(self, place: int) -> bool:
        """Whether the place is between a call and a result of its batch."""
        kept = self.kept
        if place < len(kept):
            return bool(kept[place].messages[0]["role"] == "tool")
        return bool(self.waits())

    def waits(self) -> list[str]:
        """Calls of the newest batch that have no result."""
        open_calls: list[str] = []
        for message in (m for turn in self.kept for m in turn.messages):
            if message["role"] == "tool":
                open_calls.remove(message["tool_call_id"])
            else:
                open_calls = [call["id"] for call in message.get("tool_calls", ())]
        return open_calls


class Field:
    """Sessions with their twins, and the worker's stages over them."""

    def __init__(
        self, client: ContextClient, server: redis.Redis, archive: SqlArchive, dice: random.Random
    ) -> None:
        self.client, self.dice, self.archived = client, dice, archive
        self.twins: dict[str, Twin] = {}
        states, outgoing = RedisStates(server), RedisOutgoing(server)
        hints = SentHints()
        self.pipeline = Pipeline(
            templates=TemplateLoader(),
            sessions=RedisSessions(server, archive=archive),
            hints=hints,
            waiting=RedisWaiting(server),
            counters=counter_for,
            summarizers=lambda _policy: [ExtractiveSummarizer()],
        )
        self.archiving = Archiving(outgoing, states, archive, hints)
        self.forking = Forking(states, archive, counter_for)
        self.erasing = Erasing(states, archive, counter_for, hints)
        self.children = Children(
            self.forking,
            RedisSessions(server, archive=archive),
            self.pipeline.estimate,
            counter_for,
        )
        self.exporting = Exporting(states, outgoing, archive)
        self.words = iter(range(10**9))

    def ref(self, session: str) -> SessionRef:
        return SessionRef(Namespace(self.client.namespace), SessionId(session))

    def begin(self, session: str) -> None:
        self.client.open(session, POLICY, "You carry parcels.")
        self.twins[session] = Twin()

    def messages(self, twin: Twin) -> list[Message]:
        """What an agent might push next."""
        number = next(self.words)
        text = f"Parcel {number} goes to door {number * 7} " + f"by road {number} " * 25
        if waits := twin.waits():
            return [{"role": "tool", "tool_call_id": waits[0], "content": text}]
        if self.dice.random() < 0.4:
            calls = [
                {
                    "id": f"c{number}-{at}",
                    "type": "function",
                    "function": {"name": "find", "arguments": "{}"},
                }
                for at in range(self.dice.randint(1, 3))
            ]
            return [{"role": "assistant", "content": None, "tool_calls": calls}]
        return [{"role": self.dice.choice(["user", "assistant"]), "content": text}]

    def rule(self) -> list[Message]:
        number = next(self.words)
        return [{"role": "user", "content": f"Never leave Parcel {number} at door {number * 3}."}]

    def laid_down(self, session: str) -> list[str]:
        """The rules that were marked; a reader may find others in what was only said."""
        rules = [rule.text for rule in self.client.rules(session)]
        return [text for text in rules if text.startswith("Never")]

    def push(self, session: str) -> None:
        twin = self.twins[session]
        for _ in range(self.dice.randint(1, 6)):
            self._note_read(session)
            twin.last += 1
            lays_down = len(twin.rules) < 2 and self.dice.random() < 0.2 and not twin.waits()
            messages = self.rule() if lays_down else self.messages(twin)
            said = Said(twin.last, f"t{next(self.words)}", messages, is_rule=lays_down)
            mark = {"instructs": True} if lays_down else None
            turn = Turn(messages=said.messages, turn_id=said.turn_id, metadata=mark)
            done = self.client.push(session, turn)
            assert done.seq == said.seq
            twin.turns.append(said)

    def _note_read(self, session: str) -> None:
        context = self.client.read(session)
        twin = self.twins[session]
        twin.seen.pop(twin.last, None)
        if context.projection is None:
            twin.seen[twin.last] = context.messages

    def compact(self, session: str) -> None:
        self.pipeline.estimate(self.ref(session))
        self.pipeline.summarize(self.ref(session))

    def archive(self, session: str) -> None:
        self.archiving.archive(self.ref(session))

    def fork(self, session: str) -> None:
        twin, new = self.twins[session], f"s{len(self.twins)}"
        if not twin.kept:
            return
        self._note_read(session)
        place = self.dice.randrange(len(twin.kept)) + 1
        said = twin.kept[place - 1]
        at = said.seq if self.dice.random() < 0.5 else said.turn_id
        if twin.is_amid(place):
            with pytest.raises(InvalidInput, match="amid"):
                self.forking.fork(self.ref(session), self.ref(new), at)
            return
        done = self.forking.fork(self.ref(session), self.ref(new), at)
        assert done.seq == said.seq
        turns = [replace(turn) for turn in twin.turns if turn.seq <= said.seq]
        seen = {seq: read for seq, read in twin.seen.items() if seq <= said.seq}
        self.twins[new] = Twin(turns, [], seen, last=said.seq)
        twin.forks.append(new)
        context = self.client.read(new)
        if said.seq in seen and context.projection is None:
            assert context.messages == seen[said.seq]

    def child(self, session: str) -> None:
        """It begins with the rules, and with what the user said in some turns, of its parent."""
        twin, new = self.twins[session], f"s{len(self.twins)}"
        self.children.begin(self.ref(session), self.ref(new), None)
        assert self.laid_down(new) == twin.rules
        turns = []
        for turn in self.exporting.trajectory(self.ref(new)).turns:
            named = re.findall(r"Parcel \d+\b", str(turn.messages))[0]
            [origin] = (t for t in twin.kept if re.search(rf"{named}\b", t.text))
            assert not origin.is_erased
            messages = list(turn.messages)
            assert [message["content"] for message in messages] == [origin.text]
            is_rule = origin.is_rule
            said = Said(turn.seq, turn.turn_id, messages, is_rule=is_rule, origin=origin.key)
            turns.append(said)
        assert all(said.messages[0]["role"] == "user" for said in turns)
        self.twins[new] = Twin(turns, last=len(turns))
        twin.forks.append(new)

    def rewind(self, session: str) -> None:
        twin = self.twins[session]
        if not twin.kept:
            return
        place = self.dice.randrange(len(twin.kept))
        said = twin.kept[place]
        if twin.is_amid(place):
            with pytest.raises(InvalidInput, match="amid"):
                self.forking.rewind(self.ref(session), said.seq)
            return
        self._note_read(session)
        lost = twin.kept[place:]
        at = said.seq if self.dice.random() < 0.5 else said.turn_id
        done = self.forking.rewind(self.ref(session), at)
        assert done.turns_lost == len(lost)
        for turn in lost:
            turn.state = "rolled-back"
        before = twin.kept[-1].seq if twin.kept else 0
        context = self.client.read(session)
        if before in twin.seen and context.projection is None:
            assert context.messages == twin.seen[before]
        # Seqs are not given out again.
        twin.seen = {seq: read for seq, read in twin.seen.items() if seq <= before}

    def erase(self, session: str) -> None:
        twin = self.twins[session]
        if not twin.turns:
            return
        said = self.dice.choice(twin.turns)
        body = erasing([said.seq], None, None, repeats=False, by="", dry_run=False)
        self.erasing.erase(self.ref(session), body)
        self._erased(session, said.key)

    def _erased(self, session: str, key: str) -> None:
        twin = self.twins[session]
        for turn in twin.turns:
            turn.is_erased = turn.is_erased or turn.key == key
        twin.seen.clear()
        for fork in twin.forks:
            self._erased(fork, key)

    def compare(self) -> None:
        """Every session against its twin."""
        assert not self.archived.lost(Namespace(self.client.namespace))
        for session, twin in self.twins.items():
            found = self.exporting.trajectory(self.ref(session)).turns
            assert [(t.seq, t.turn_id, t.state) for t in found] == [
                (t.seq, t.turn_id, t.state) for t in twin.turns
            ], session
            for turn, said in zip(found, twin.turns, strict=True):
                if said.is_erased:
                    assert "Parcel" not in str(turn.messages)
                else:
                    assert list(turn.messages) == said.messages
            self._compare_read(session, twin)
            assert self.laid_down(session) == twin.rules, session

    def _compare_read(self, session: str, twin: Twin) -> None:
        context = self.client.read(session)
        assert violations(context.messages) == [], session
        text = str(context.messages)
        gone = [turn for turn in twin.turns if turn.is_erased or turn.state != "kept"]
        texts = [str(m["content"])[:40] for t in gone for m in t.messages if m["content"]]
        assert not [each for each in texts if each in text], session


@pytest.mark.parametrize("first", range(0, PROGRAMS, 25))
def test_forks_and_rewinds_are_as_twins_that_never_compact(
    first: int, redis_server: EmbeddedRedis, redis_client: redis.Redis, tmp_path: Path
) -> None:
    with closing(SqlArchive.open(f"sqlite:///{tmp_path}/archive.db")) as archive:
        for seed in range(first, first + 25):
            name = f"seed{seed}-{uuid.uuid4().hex[:8]}"
            with ContextClient(redis_server.url, namespace=name, broker=SilentWaker()) as client:
                _run(Field(client, redis_client, archive, random.Random(seed)))


def _run(run: Field) -> None:
    acts: list[Callable[[str], None]] = [run.push, run.push, run.push, run.compact, run.compact]
    acts += [run.archive, run.fork, run.fork, run.child, run.rewind, run.erase]
    run.begin("s0")
    run.push("s0")
    for _ in range(STEPS):
        run.dice.choice(acts)(run.dice.choice(list(run.twins)))
        run.compare()
