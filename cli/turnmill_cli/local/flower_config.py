"""Flower's configuration under `turnmill up`: a task's outcome as a sentence, without its braces.

Flower runs this file by its path (``--conf``) and takes the names it knows as options.
"""

from __future__ import annotations

import ast
from typing import Any

from turnmill_cli.output import count

__all__ = ["format_task", "sentence"]


def format_task(task: Any) -> Any:
    """The task with its result readable in a table's cell."""
    task.result = sentence(task.result)
    return task


def sentence(result: Any) -> Any:
    """``committed by rolling: 9,120 → 3,075 tokens, 41 turns``; what is no outcome stays."""
    try:
        told = dict(ast.literal_eval(result))
        said = str(told.pop("outcome"))
    except (ValueError, SyntaxError, TypeError, KeyError):
        return result
    told.pop("session", None)  # it is among the arguments
    if strategy := told.pop("strategy", None):
        said += f" by {strategy}"
    facts = []
    if "tokens_before" in told and "tokens_after" in told:
        facts.append(f"{told.pop('tokens_before'):,} → {told.pop('tokens_after'):,} tokens")
    nouns = ("session", "turn", "token")
    facts += [count(told.pop(f"{noun}s"), noun) for noun in nouns if f"{noun}s" in told]
    facts += [f"{name} {value}" for name, value in told.items()]
    return f"{said}: {', '.join(facts)}" if facts else said
