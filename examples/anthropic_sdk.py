"""A chat without an end, with Anthropic's own SDK.

    pip install '.[embedded]' anthropic
    python examples/anthropic_sdk.py

``TURNMILL_REDIS_URL`` says where Redis is, ``ANTHROPIC_BASE_URL`` and ``ANTHROPIC_API_KEY`` where
the model is. Workers keep the conversation short: ``turnmill up`` starts them.
"""

import os
import sys

from anthropic import Anthropic

from turnmill import ContextClient, Policy

MODEL = os.environ.get("MODEL", "claude-sonnet-4-5")

model = Anthropic()
with ContextClient(os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0")) as turns:
    turns.open("chat", Policy.for_model(MODEL, max_tokens=8192, cache_marks=True), "Be brief.")
    for line in sys.stdin:
        turns.push("chat", {"role": "user", "content": line.strip()})
        request = turns.read("chat").request_for("anthropic")
        answer = model.messages.create(model=MODEL, max_tokens=1000, **request)
        turns.push("chat", answer, usage=answer.usage)
        print(answer.content[0].text)
