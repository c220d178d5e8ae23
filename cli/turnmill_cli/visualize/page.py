"""The page: values laid into the template, which escapes all of them."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from turnmill.contract.trajectory import Trajectory
from turnmill_cli.visualize.chart import chart, is_dense
from turnmill_cli.visualize.compactions import compaction_cards
from turnmill_cli.visualize.context_now import context_messages
from turnmill_cli.visualize.folded_lists import folded_groups
from turnmill_cli.visualize.headline import key_numbers, sentences
from turnmill_cli.visualize.images import PageImages
from turnmill_cli.visualize.messages import MessageFormatter
from turnmill_cli.visualize.token_curve import token_curve
from turnmill_cli.visualize.turn_list import turn_entries
from turnmill_cli.visualize.turn_outcomes import turn_outcomes
from turnmill_cli.visualize.visible_text import clock, short_label, text

__all__ = ["page"]

CLOSER = 12
"""Drops in the second drawing of a session with too many to be told apart."""


def page(trajectory: Trajectory) -> str:
    """The session as one HTML document that loads nothing and runs no script but its own.

    Complete: long texts and long sessions are folded, never cut. Encodes as UTF-8 whatever the
    conversation holds.
    """
    curve = token_curve(trajectory)
    outcomes = turn_outcomes(trajectory, curve)
    images = PageImages()
    # Turns first: they carry the images, and other places show these again.
    listed = list(turn_entries(trajectory, curve, outcomes, MessageFormatter(images)))
    commits = list(compaction_cards(trajectory, curve, MessageFormatter(images)))
    context = list(context_messages(trajectory, outcomes, MessageFormatter(images)))
    style, script = _file("page.css"), _file("page.js")
    return _template().render(
        style=Markup(style),  # noqa: S704 - a file of this package
        style_hash=_hash(style),
        script=Markup(script),  # noqa: S704 - a file of this package
        script_hash=_hash(script),
        trajectory=trajectory,
        source=short_label(trajectory.source or ""),
        question=text(trajectory.question) if trajectory.question else None,
        answer=text(trajectory.final_answer) if trajectory.final_answer else None,
        system=text(trajectory.system_prompt) if trajectory.system_prompt else None,
        missing=_missing(trajectory),
        sentences=list(sentences(trajectory, curve, outcomes)),
        key_numbers=list(key_numbers(trajectory, curve)),
        charts=[chart(trajectory, curve, wide=wide) for wide in (True, False)],
        closer=[chart(trajectory, curve.newest(CLOSER), wide=wide) for wide in (True, False)]
        if is_dense(curve)
        else [],
        curve=curve,
        kinds={change.kind for change in curve.changes},
        began=clock(trajectory.turns[0].at_ms) if trajectory.turns else "",
        ended=clock(trajectory.turns[-1].at_ms) if trajectory.turns else "",
        commits=folded_groups(commits, first=2, last=30),
        commit_count=len(commits),
        context=folded_groups(context, first=6, last=30),
        turns=folded_groups(listed),
    )


def _missing(trajectory: Trajectory) -> int:
    """Turns that were pushed and are in neither Redis nor the archive any more."""
    return max(0, trajectory.turns[-1].seq - len(trajectory.turns)) if trajectory.turns else 0


@cache
def _template() -> Template:
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["score"] = _score
    return environment.get_template("page.html.jinja")


def _score(value: float) -> str:
    return f"{value:.2f}"


@cache
def _file(name: str) -> str:
    return (files("turnmill_cli.visualize") / name).read_text(encoding="utf-8")


def _hash(inline: Any) -> str:
    """What the page's content security policy knows an inline element by."""
    digest = hashlib.sha256(str(inline).encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
