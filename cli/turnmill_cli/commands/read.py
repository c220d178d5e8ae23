"""``turnmill read SESSION``: the context an agent would get."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from turnmill.contract.context import JsonMessage
from turnmill.read.context import Context
from turnmill_cli.options import Connection, JsonFlag, SessionName
from turnmill_cli.output import clean, count, print_json, stdout

__all__ = ["read"]

_STYLES = {"system": "magenta", "developer": "magenta", "user": "green", "assistant": "cyan"}


def read(session: SessionName, connection: Connection, as_json: JsonFlag = False) -> None:
    """Print the context as an agent reads it now. --json prints the bare list of messages."""
    with connection.client() as client:
        context = client.read(session)
    if as_json:
        print_json(context.messages)
    else:
        _print_pretty(context)


def _print_pretty(context: Context) -> None:
    console = stdout()
    # In chat's shape: the parts and items of other dialects hold their texts elsewhere.
    for message in context.messages_for("chat"):
        role = str(message.get("role", ""))
        name = message.get("name") or message.get("tool_call_id")
        console.print(
            clean(f"{role} ({name})" if name else role),
            style=f"bold {_STYLES.get(role, 'yellow')}",
            markup=False,
        )
        for line in _lines(message):
            console.print(clean(line), markup=False, soft_wrap=True)
        console.print()
    console.print(_footer(context), style="dim", markup=False, soft_wrap=True)


def _lines(message: JsonMessage) -> Iterable[str]:
    """The message's text, parts and calls, as lines."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        yield _part(part)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield f"→ {function.get('name', call.get('type'))}({function.get('arguments', '')})"


def _part(part: dict[str, Any]) -> str:
    if part.get("type") == "text":
        return str(part.get("text", ""))
    url = str((part.get("image_url") or {}).get("url", ""))
    if url.startswith("data:"):
        return f"[{part.get('type')}: {url[5:].partition(';')[0]}, {len(url):,} characters]"
    return f"[{part.get('type')}: {url}]" if url else f"[{part.get('type')}]"


def _footer(context: Context) -> str:
    basis = "exact" if context.exact else "at most"
    text = (
        f"{context.session}: {count(len(context.messages), 'message')}, "
        f"{count(context.tokens, 'token')} ({basis}), version {context.version}, "
        f"turns to {context.last_seq}, summary to {context.watermark}"
    )
    if unshown := context.left_out_for("chat"):
        text += f"; not shown: {', '.join(unshown)}"
    if left_out := context.projection:
        text += f"; this read left out {count(left_out.turns, 'turn')} to stay under the limit"
    return text
