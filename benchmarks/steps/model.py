"""The model's process: a fake endpoint that answers after a while.

For a line on its standard input it says what it was asked so far: how often, and about which turns.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from turnmill.testing import FakeEndpoint

CHAT = "/v1/chat/completions"
COMPACT = "/v1/responses/compact"
_MARK = re.compile("#s[0-9]{4}t[0-9]{5}#")


SUMMARY = "\n".join(
    f"- Step {at}: the order was looked up, and what it holds was agreed with the customer."
    for at in range(1, 16)
)
"""Some 300 tokens, for prompts that the fake model cannot read: it writes for turnmill's own."""


class Endpoint(FakeEndpoint):
    """One that also compacts, as the Responses API does: one item stands for all."""

    def answer(self, method: str, path: str, body: dict[str, Any], key: str) -> Any:
        compacts = path == COMPACT
        outcome = super().answer(method, "/v1/responses" if compacts else path, body, key)
        if compacts:
            item = {"id": "cmp_1", "type": "compaction", "encrypted_content": SUMMARY}
            changed = {"object": "response.compaction", "output": [item]}
        elif path == CHAT and len(outcome.body) < len(SUMMARY):
            message = {"role": "assistant", "content": SUMMARY}
            changed = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        else:
            return outcome
        answered = json.dumps(json.loads(outcome.body) | changed).encode()
        return type(outcome)(outcome.fault, outcome.status, answered)


def main(latency_s: float) -> None:
    with Endpoint(latency_s=latency_s) as endpoint:
        print(endpoint.base_url, flush=True)
        for line in sys.stdin:
            requests = list(endpoint.requests)
            marks = {mark for each in requests for mark in _MARK.findall(json.dumps(each.body))}
            told = sorted(marks) if line.strip() == "marks" else []
            print(json.dumps({"asked": len(requests), "marks": told}), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
