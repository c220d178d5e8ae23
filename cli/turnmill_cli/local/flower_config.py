"""Flower's one configuration: of `turnmill flower`, `turnmill up` and docker-compose.yml.

Flower runs this file by its path (``--conf``) and takes the names it knows as options. A variable
``FLOWER_…`` of the environment goes before what is said here, and the command line before both.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path
from typing import Any

from flower import urls  # type: ignore[import-untyped]
from tornado.web import StaticFileHandler

from turnmill.contract.plural import count
from turnmill_cli.output import items_line

PASSWORDS = "FLOWER_BASIC_AUTH_FILE"
"""A file with ``user:password`` in each line: nothing of it stands on a command line."""

_SETTINGS = {
    # Who reaches Flower sees the names of all sessions.
    "address": "127.0.0.1",
    # To look. With `false`, Flower can also stop workers and send tasks.
    "read_only": True,
    # The usual columns show neither the session nor what became of it. The uuid opens the job.
    "tasks_columns": "uuid,state,name,args,result,received,runtime,worker",
    # Workers send events by themselves: it need not ask them to every few seconds.
    "enable_events": False,
    # Workers come and go under new names: those that are gone leave the list.
    "purge_offline_workers": 600,
    "max_tasks": 20_000,
}
globals().update(
    {name: value for name, value in _SETTINGS.items() if f"FLOWER_{name.upper()}" not in os.environ}
)

if _file := os.environ.get(PASSWORDS):
    basic_auth = Path(_file).read_text(encoding="utf-8").split()
    if not basic_auth or not all(":" in each.strip(":") for each in basic_auth):
        sys.exit(f"{PASSWORDS}: write user:password into it; Flower does not start open")


_STYLE = """
.tasks-table td.overflow-auto { max-width: none; white-space: normal !important; }
.tasks-table td.overflow-auto { overflow-wrap: anywhere; min-width: 7rem; }
.tasks-table { font-size: 0.8125rem; }
.tasks-table .task-uuid-full { display: none; }
.tasks-table .task-uuid-short { display: inline; }
"""
"""Flower cuts a sentence off at 400 pixels, and gives half as many to each uuid."""


class _Styled(StaticFileHandler):
    """Flower's own files; its style sheet has ours after it."""

    @classmethod
    def get_content(cls, abspath: str, start: int | None = None, end: int | None = None) -> Any:
        if not abspath.endswith("flower.css"):
            return super().get_content(abspath, start, end)
        return (Path(abspath).read_bytes() + _STYLE.encode())[start:end]

    def get_content_size(self) -> int:
        more = len(_STYLE.encode()) if str(self.absolute_path).endswith("flower.css") else 0
        return super().get_content_size() + more


urls.settings["static_handler_class"] = _Styled

STOOD_IN = "STOOD IN"
"""Shown in gray instead of SUCCESS: another than the model that was to be asked did the work."""


def format_task(task: Any) -> Any:
    """The task with its arguments, and its result or its error, readable in a table's cell."""
    task.args = _place(task.args)
    if task.state == "SUCCESS" and _told(task.result).get("failed"):
        task.state = STOOD_IN
    task.result = sentence(task.result or task.exception)
    return task


def _place(arguments: Any) -> Any:
    """Namespace and session, without the number of a question; what else it is stays."""
    try:
        return repr(tuple(ast.literal_eval(arguments))[:2])
    except (ValueError, SyntaxError, TypeError):
        return arguments


def sentence(result: Any) -> Any:
    """What a job did, in words; what is no outcome stays.

    What went wrong comes before the numbers:
    ``committed agent-7 by rolling (extractive after below-quality): 9,120 → 3,075 tokens``
    """
    told = _told(result)
    if "outcome" not in told:
        return result
    outcome = str(told.pop("outcome"))
    said = outcome
    # Not always the one among the arguments: a summary is written for whose turn it is.
    if session := told.pop("session", None):
        namespace, sessions = told.pop("namespace", None), told.pop("sessions", 1)
        said += f" {namespace}/{session}" if namespace else f" {session}"
        said += f" and {sessions - 1} more" if sessions > 1 else ""
    if strategy := told.pop("strategy", None):
        said += f" by {strategy}"
    failed = ", ".join(map(str, told.pop("failed", None) or ()))
    after = f" after {failed}" if failed else ""
    writer = told.pop("model", None)
    said += f" ({writer}{after})" if writer else after
    facts = [_MEANINGS[outcome]] if outcome in _MEANINGS else []
    facts += _facts(told)
    return f"{said}: {', '.join(facts)}" if facts else said


def _told(result: Any) -> dict[str, Any]:
    """The outcome that a result, or an error in its place, tells; empty for any other."""
    found = re.search(r"\{.*\}", str(result), re.DOTALL)  # in the words of an error, maybe
    try:
        return dict(ast.literal_eval(found[0])) if found else {}
    except (ValueError, SyntaxError, TypeError):
        return {}


_MEANINGS = {
    "skipped": "nothing to do",
    "no-plan": "nothing worth doing yet",
    "needs-summary": "left to the queue summarize",
    "leased": "another worker has it",
    "stale": "it changed meanwhile, and is looked at again",
    "batched": "its summary comes from a batch",
    "parked": "waits for turnmill retry",
    "below-quality": "the context stays as it was",
    "late": "nobody waits for it any more",
    "unknown": "there is no such session",
}


def _facts(told: dict[str, Any]) -> Any:
    if "tokens_before" in told and "tokens_after" in told:
        yield f"{told.pop('tokens_before'):,} → {told.pop('tokens_after'):,} tokens"
    yield from _counted(told)
    if refused := told.pop("rejected", None):
        yield f"refused: {', '.join(map(str, refused))}"
    if (pause_s := told.pop("retry_s", None)) is not None:
        yield f"tried again in {pause_s:g} s"
    if (quality := told.pop("quality", None)) is not None:
        yield f"quality {quality:.2f}"
    if cost_usd := told.pop("cost_usd", None):
        yield f"${cost_usd:,.4f}"
    if waited_s := told.pop("waited_s", None):
        yield f"waited {waited_s:,.0f} s to begin"
    for name, value in told.items():
        yield f"{name} {value}"


def _counted(told: dict[str, Any]) -> Any:
    for noun in ("turn", "token"):
        if f"{noun}s" in told:
            yield count(told.pop(f"{noun}s"), noun)
    if items := told.pop("items", None):
        yield items_line(items)
