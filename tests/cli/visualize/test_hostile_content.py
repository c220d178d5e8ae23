"""Whatever a conversation holds, a page runs none of it, asks nobody, and stays readable."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.cli.visualize.browser import dom, requires_chromium
from tests.cli.visualize.sessions import commit, drawn, turn
from turnmill.contract.context import Elision, SummaryEvent
from turnmill.contract.trajectory import Trajectory
from turnmill_cli.visualize import page
from turnmill_cli.visualize.page import visible

RUN = "document.title='owned'"
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\u2060\ufeff\U000e0041]"
)
SVG = (
    f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="{RUN}">'
    f"<script>{RUN};parent.{RUN}</script>"
    '<image href="SERVER/from-svg" width="9" height="9"/><rect width="40" height="40"/></svg>'
)


def encoded(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data.encode()).decode()}"


def attacks(server: str) -> list[str]:
    return [
        f"<script>{RUN}</script>",
        f"</script><script>{RUN}</script>",
        f"</style><script>{RUN}</script><style>",
        f"</title></textarea></pre></details><img src=x onerror={RUN}>",
        f"<img src='{server}/img' onerror=\"{RUN}\">",
        f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe><iframe src={server}/frame>",
        f"<link rel=stylesheet href={server}/css><base href={server}/>",
        f"<meta http-equiv=refresh content='0;url={server}/away'>",
        f'<a href="javascript:{RUN}" id=turns>javascript:{RUN}</a>',
        f"<svg onload={RUN}><foreignObject><script>{RUN}</script></foreignObject></svg>",
        f"\"' onmouseover={RUN} autofocus onfocus={RUN} x='",
        f"--><!--<script>{RUN}</script>",
        f"<form action={server}/form><button autofocus onfocus={RUN}>",
        "{{ 7*191 }} {% raw %} {{ cycler.__init__.__globals__.os.system('id') }} {# #} ${7*191}",
        f"<style>@import url({server}/import);body{{background:url({server}/bg)}}</style>",
        "\x00\x01\x08\x1b]0;owned\x07 \x7f \x85",
        "\u202eevil\u202c \u2066x\u2069 \u200b\u2060\ufeff \U000e0041",
        "\ud800 lone",
        "x" * 300_000,
    ]


def images(server: str) -> list[str]:
    return [
        encoded("image/svg+xml", SVG.replace("SERVER", server)),
        encoded("text/html", f"<script>{RUN}</script>"),
        f"{server}/image.png",
        f'data:image/png;base64,AAAA" onerror="{RUN}',
        "data:image/svg+xml,<svg onload=alert(1)>",
        f"javascript:{RUN}",
        "file:///etc/passwd",
        encoded("image/png", "no image at all"),
    ]


def hostile(server: str = "http://127.0.0.1:9") -> Trajectory:
    """A session with every attack in every place of it."""
    turns, seq = [], 0
    for attack in attacks(server):
        seq += 1
        call = {"id": attack, "type": attack, "function": {"name": attack, "arguments": attack}}
        messages: tuple[dict[str, Any], ...] = (
            {"role": "user", "content": attack, "name": attack},
            {"role": "assistant", "content": None, "tool_calls": [call], attack: attack},
            {"role": "tool", "content": [{"type": attack, "text": attack}], "tool_call_id": attack},
            {"role": attack, "content": [{"type": attack, attack: attack}, attack, 7, None]},
        )
        turns.append(turn(seq, messages=messages, turn_id=attack, metadata={attack: attack}))
    for url in images(server):
        seq += 1
        parts = [{"type": "image_url", "image_url": {"url": url}}]
        turns.append(turn(seq, messages=({"role": "user", "content": parts},)))
    odd: tuple[dict[str, Any], ...] = (
        {"role": 7, "content": {"a": 1}, "tool_calls": ["x", {"function": "y"}, {}]},
        {},
    )
    turns.append(turn(seq + 1, messages=odd))
    every = " ".join(attacks(server))
    event = SummaryEvent(iteration=1, last_iteration=1, first_seq=1, last_seq=2, text=every)
    elision = Elision(
        seq=5, index=0, message={"role": "user", "content": every}, tokens_before=9, tokens_after=1
    )
    made = commit(
        1,
        (0, 3),
        tokens_before=150,
        tokens_after=125,
        summary=every,
        events=(event,),
        elisions=(elision,),
        strategy=every,
        model=every,
        quality_parts={every: 1.0},
    )
    shown = [message for each in turns for message in each.messages]
    return drawn(
        *turns,
        compactions=(made,),
        context=tuple(shown),
        system_prompt=every,
        question=every,
        source=every,
        final_answer=every,
    )


def test_a_page_of_hostile_content_encodes_and_escapes_all_of_it() -> None:
    html = page(hostile())

    html.encode()
    body = html.partition("<body>")[2]
    assert "<script" not in body
    assert "<iframe" not in body
    assert "javascript:" not in "".join(re.findall(r'(?:href|src)="[^"]*"', body))
    assert set(re.findall(r'(?<= src=")[^;"]*', body)) == {"data:image/svg+xml", "data:image/png"}
    assert "{{ 7*191 }}" in body
    assert "1337" not in body
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff]", html
    )


def test_no_attribute_handles_an_event_or_styles() -> None:
    tags = re.findall(r"<[a-zA-Z][^<>]*>", page(hostile()).partition("<body>")[2])

    assert tags
    assert not [tag for tag in tags if re.search(r"\s(on\w+|style|srcdoc|action)=", tag)]


def test_a_session_s_name_cannot_leave_the_title() -> None:
    session = hostile().model_copy(update={"session": "</title><script>", "namespace": "<b>"})

    assert "<title>&lt;/title&gt;&lt;script&gt; · turnmill</title>" in page(session)


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """An address, and the requests made to it."""
    asked: list[str] = []

    class Remember(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Remember) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}", asked
        listening.shutdown()


@requires_chromium
def test_a_browser_runs_no_script_of_the_content_and_makes_no_request(
    tmp_path: Path, server: tuple[str, list[str]]
) -> None:
    address, asked = server
    file, log = tmp_path / "hostile.html", tmp_path / "net.json"
    file.write_text(page(hostile(address)), encoding="utf-8")

    seen = dom(file, log=log)

    assert "<title>agent-7 · turnmill</title>" in seen
    assert asked == []
    assert address not in str(_requested(log))
    assert seen.count("<article") == len(hostile().turns)


@requires_chromium
def test_the_test_notices_scripts_and_requests(
    tmp_path: Path, server: tuple[str, list[str]]
) -> None:
    address, asked = server
    file, log = tmp_path / "unsafe.html", tmp_path / "net.json"
    file.write_text(f"<title>safe</title><img src={address}/seen><script>{RUN}</script>")

    seen = dom(file, log=log)

    assert "<title>owned</title>" in seen
    assert "/seen" in asked
    assert f"{address}/seen" in _requested(log)


def _requested(log: Path) -> set[str]:
    """Every URL the browser asked for, as its network log has them."""
    text = log.read_text()
    return set(re.findall(r'"url":"([^"]*)"', json.dumps(text).replace("\\", "")))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("a\x00b\x1b", "a⟦U+0000⟧b⟦U+001B⟧"),
        ("\u202eabc", "⟦U+202E⟧abc"),
        ("a\u200bb", "a⟦U+200B⟧b"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("\ud800", "\ufffd"),
        ("line\r\nline\rline", "line\nline⟦U+000D⟧line"),
    ],
)
def test_what_cannot_be_seen_is_made_visible(raw: str, shown: str) -> None:
    assert visible(raw) == shown
