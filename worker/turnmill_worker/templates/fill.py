"""Managed templates filled in: what a summarizer is asked by them, and what the archive keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnmill.contract.codec import encode_json
from turnmill.contract.estimate import CountText
from turnmill.contract.marks import DATA
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.ports.values import Summary
from turnmill_worker.reading.plain_text import readable
from turnmill_worker.templates.template import Template, parse_output, render, sections_found


def fill(
    request: SummaryRequest, template: Template, snapshot: Snapshot, count: CountText
) -> SummaryRequest:
    """The request with the template's text and, apart from it, what people and tools wrote.

    None of their words are in the text: it becomes a system message. Of the budget, what says that
    the answer is data takes its part.
    """
    if not request.template:
        return request
    names = {"recent_turns": "conversation", "previous_summary": "summary so far"}
    shown = {
        name: (names.get(name, name.replace("_", " ")), value)
        for name, value in _values(request, snapshot).items()
        if value and name in template.placeholders
    }
    pointers = {name: f'(given below, marked "{called}")' for name, (called, _) in shown.items()}
    return replace(
        request,
        budget_tokens=max(request.budget_tokens - count(DATA) - 1, 1),
        instructions=render(template, pointers).text,
        material=tuple(given for name, given in shown.items() if name not in names),
    )


def _values(request: SummaryRequest, snapshot: Snapshot) -> dict[str, str]:
    """What the placeholders stand for."""
    return {
        "recent_turns": readable(request.records),
        "previous_summary": request.previous,
        "system_prompt": snapshot.system,
        "session": snapshot.session,
        "memories": request.memories,
        "reflections": request.reflections,
        "latest_input": request.latest_input,
    }


def detail_of(
    template: Template,
    requests: Sequence[SummaryRequest],
    summaries: Sequence[Summary],
    snapshot: Snapshot,
    goal: int,
) -> bytes:
    """What the archive keeps about a managed view."""
    request, summary = requests[0], summaries[0]
    return encode_json(
        {
            "template": template.name,
            "source": template.source,
            "sha256": template.sha256,
            "model": summary.model,
            "raw_output": summary.text,
            "parsed_output": parse_output(template, summary.text),
            "input": render(template, _values(request, snapshot)).text,
            "sections": list(sections_found(template, summary.text)),
            "budget": {
                "summary_tokens": request.budget_tokens,
                "recent_turns": len({seq for seq, _ in request.records}),
                "history_tokens": snapshot.history_tokens,
                "context_tokens": snapshot.usage.total,
                "goal_tokens": goal,
            },
        }
    )
