"""Answers agents' questions: takes a question, does what it asks, stores the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from turnmill.contract import jobs
from turnmill.contract.codec import decode_json, encode_exactly, encode_json
from turnmill.contract.errors import QuotaExceeded, TurnmillError
from turnmill.contract.formats import refuse_newer, stamp
from turnmill.contract.job_outcomes import Outcome
from turnmill.contract.names import session_id
from turnmill.contract.policy import stored_policy
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.requests.children import Children
from turnmill_worker.requests.erasure import Erasing
from turnmill_worker.requests.export import Exporting
from turnmill_worker.requests.forking import Forking
from turnmill_worker.requests.grounding import Remembering
from turnmill_worker.requests.rollback import Rollback, TakingBack
from turnmill_worker.store.agent_requests import RedisQuestions


class Answering:
    """Answers every kind of question there is."""

    def __init__(  # noqa: PLR0913 - about one for each kind
        self,
        *,
        questions: RedisQuestions,
        pipeline: Pipeline,
        rollback: Rollback,
        taking_back: TakingBack,
        forking: Forking,
        children: Children,
        exporting: Exporting,
        erasing: Erasing,
        remembering: Remembering,
    ) -> None:
        self._questions = questions
        self._pipeline = pipeline
        self._rollback = rollback
        self._taking_back = taking_back
        self._forking = forking
        self._children = children
        self._exporting = exporting
        self._erasing = erasing
        self._remembering = remembering
        self._kinds: Mapping[str, Callable[[SessionRef, Any], Any]] = {
            jobs.FORCE: self._force,
            jobs.ROLLBACK: self._roll_back,
            jobs.EXPORT: self._export,
            jobs.GROUND: remembering.search,
            jobs.REMEMBER: self._remember,
            jobs.ERASE: self._erase,
        }

    def answer(self, task: str, ref: SessionRef, ask: str) -> Outcome:
        """Answer the question; with the error when it cannot be done."""
        name = task
        try:
            body = self._questions.take(ref, ask)
            if body is None:
                return Outcome(outcome="late", session=ref.session)
            asked = decode_json(body)
            refuse_newer(asked, "a client's question")
            name = jobs.asked_for(task, asked)
            told: dict[str, Any] = {"answer": self._kinds[task](ref, asked), **stamp()}
        except TurnmillError as error:
            told = {"error": type(error).__name__, "message": str(error)}
            if isinstance(error, QuotaExceeded):
                told["about"] = vars(error)
        except BaseException:
            # The task's guard reports it; the agent need not wait until its time is up.
            told = {"error": "TurnmillError", "message": f"{name} failed; the worker's log says"}
            self._questions.answer(ref, ask, encode_json(told))
            raise
        self._questions.answer(ref, ask, encode_exactly(told))
        return Outcome(outcome="answered", session=ref.session)

    def _force(self, ref: SessionRef, body: Any) -> Any:
        return self._pipeline.force(ref, template=body["template"]).model_dump(mode="json")

    def _roll_back(self, ref: SessionRef, body: Any) -> Any:
        if "item_of" in body:
            taken = self._taking_back.take_back(ref, body["item_of"], body["dialect"])
            return taken.model_dump(mode="json")
        if "child" in body:
            new = SessionRef(ref.namespace, session_id(body["child"]))
            policy = stored_policy(body["policy"]) if body["policy"] else None
            return self._children.begin(ref, new, policy).model_dump(mode="json")
        if "fork" in body:
            new = SessionRef(ref.namespace, session_id(body["fork"]))
            return self._forking.fork(ref, new, body["at"]).model_dump(mode="json")
        if "rewind" in body:
            return self._forking.rewind(ref, body["rewind"]).model_dump(mode="json")
        return self._rollback.rollback(ref, body["to"]).model_dump(mode="json")

    def _export(self, ref: SessionRef, body: Any) -> Any:
        seq = body.get("turn")
        found = self._exporting.turn(ref, seq) if seq else self._exporting.trajectory(ref)
        # Clients of before know no such field, and refuse what they do not know.
        return found.model_dump(mode="json", exclude=None if found.lost else {"lost"})

    def _erase(self, ref: SessionRef, body: Any) -> Any:
        found = self._erasing.erase(ref, body)
        # As of an export.
        return found.model_dump(mode="json", exclude=None if found.forks else {"forks"})

    def _remember(self, ref: SessionRef, body: Any) -> Any:
        now_ms = self._questions.now_ms()
        return self._remembering.remember(ref.namespace, body["text"], now_ms)
