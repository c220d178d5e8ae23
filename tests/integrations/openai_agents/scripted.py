"""A model endpoint that speaks the Responses API and answers what a test tells it to."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from agents import set_tracing_disabled

from turnmill.testing import FakeEndpoint
from turnmill.testing import api_shapes as shapes

__all__ = ["ScriptedResponses", "call", "message", "reasoning"]

Json = dict[str, Any]

set_tracing_disabled(disabled=True)


def message(text: str, at: int = 0) -> Json:
    """What a model says."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    said = {"type": "message", "id": f"msg_{at}", "role": "assistant", "status": "completed"}
    return {**said, "content": [part]}


def call(name: str, at: int, **arguments: object) -> Json:
    """A call of a function."""
    ids = {"id": f"fc_{at}", "call_id": f"call_{at}", "status": "completed"}
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments), **ids}


def reasoning(at: int) -> Json:
    """Reasoning, which only its provider can read."""
    return {"type": "reasoning", "id": f"rs_{at}", "summary": [], "encrypted_content": f"x{at}=="}


class ScriptedResponses(FakeEndpoint):
    """The usual endpoint; ``script`` are the outputs of its next responses, streamed if asked."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: deque[list[Json] | Callable[[Json], list[Json]]] = deque()

    @property
    def inputs(self) -> list[list[Json]]:
        """The input of each request so far."""
        return [request.body["input"] for request in self.requests]

    def answer(self, method: str, path: str, body: Json, key: str) -> Any:
        """The next output, in the shape of the API."""
        outcome = super().answer(method, path, body, key)
        if outcome.status != 200 or not self.outputs:
            return outcome
        output = self.outputs.popleft()
        response = shapes.responses(body, shapes.Reply(text="-"), prompt_tokens=1)
        response["output"] = output(body) if callable(output) else output
        told = _events(response) if body.get("stream") else json.dumps(response)
        return type(outcome)(outcome.fault, 200, told.encode())


def _events(response: Json) -> str:
    """The response as server-sent events, item by item."""
    events: list[Json] = [{"type": "response.created", "response": {**response, "output": []}}]
    for at, item in enumerate(response["output"]):
        events += [
            {"type": "response.output_item.added", "output_index": at, "item": item},
            {"type": "response.output_item.done", "output_index": at, "item": item},
        ]
    events.append({"type": "response.completed", "response": response})
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': at})}\n\n"
        for at, event in enumerate(events)
    )
