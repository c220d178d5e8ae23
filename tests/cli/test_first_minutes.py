"""What somebody types first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.cli.commands import Ran
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill_cli.app import app

ROOT = Path(__file__).parents[2]
WITHOUT_JSON = {
    "up": "runs until Ctrl-C, and its lines are for a person",
    "flower": "becomes Flower",
    "fake-llm": "becomes a server; its one line on stdout is the URL",
}


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its words, those of groups too."""
    for name, command in getattr(get_command(app), "commands", {}).items():
        if group := getattr(command, "commands", None):
            yield from ((f"{name} {word}", each) for word, each in group.items())
        else:
            yield name, command


def test_every_command_prints_json_for_programs() -> None:
    without = {
        name
        for name, command in commands()
        if not any("--json" in parameter.opts for parameter in command.params)
    }

    assert without == WITHOUT_JSON.keys()


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_group_without_a_command_lists_what_it_has(
    turnmill: Callable[..., Ran], options: tuple[str, ...]
) -> None:
    for group in ("policies", "templates"):
        alone, named = turnmill(group, *options), turnmill(group, "list", *options)

        assert (alone.exit_code, alone.stdout) == (0, named.stdout)
        assert "Usage:" in turnmill(group, "-h").stdout


def test_the_version_is_said(turnmill_process: Callable[..., Ran]) -> None:
    assert turnmill_process("--version").stdout == f"turnmill {metadata.version('turnmill')}\n"


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("sessions", "-h")])
def test_help_and_version_import_no_client(words: tuple[str, ...]) -> None:
    code = f"import sys; sys.argv = {['turnmill', *words]}\n"
    code += "import atexit; atexit.register(lambda: print(*sys.modules))\n"
    code += "from turnmill_cli import main; main()"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_plain()
    )

    heavy = {"celery", "openai", "redis", "pydantic_settings", "sqlalchemy", "jinja2", "kombu"}
    seen = heavy & set(done.stdout.split())
    # A command's own help knows what its results look like, and these know Redis.
    assert not seen - ({"redis"} if len(words) > 1 else set())


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


@pytest.mark.parametrize(
    ("typed", "offers"),
    [
        ("nam", "namespaces"),
        ("policies s", "show"),
        ("sessions --al", "--all-namespaces"),
        ("open s --preset m", "managed"),
    ],
)
def test_bash_completes_by_the_script_that_is_shown(typed: str, offers: str) -> None:
    words = ["turnmill", *typed.split()]
    pressed = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
    shown = 'eval "$(turnmill --show-completion)"'
    script = f'{shown}; {pressed}; _turnmill_completion turnmill; echo "${{COMPREPLY[@]}}"'

    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**_plain(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert offers in done.stdout.split(), done.stderr


def test_sessions_of_all_namespaces_are_listed(
    turnmill: Callable[..., Ran], redis_server: EmbeddedRedis, namespace: str
) -> None:
    for name in (namespace, f"{namespace}-too"):
        with ContextClient(redis_server.url, namespace=name) as client:
            client.push("s", {"role": "user", "content": "x"})

    rows = turnmill("sessions", "--all-namespaces", "--limit", "0", "--json").json
    listed = turnmill("namespaces", "--json").json
    table = turnmill("sessions", "-A", "--limit", "0").stdout

    assert {namespace, f"{namespace}-too"} <= {row["namespace"] for row in rows}
    counts = {row["namespace"]: row["sessions"] for row in listed}
    assert counts[namespace] == counts[f"{namespace}-too"] == 1
    assert f"{namespace}-too" in table
    assert f"{namespace}-too" in turnmill("namespaces").stdout
    only = turnmill("sessions", "--json").json
    assert {row["namespace"] for row in only} == {namespace}


def test_a_wrong_password_is_not_a_server_that_is_down(
    turnmill: Callable[..., Ran], tmp_path: Path, redis_server: EmbeddedRedis
) -> None:
    port = free_port()
    guarded = EmbeddedRedis(tmp_path / "redis", port=port, durable=False)
    with guarded:
        import redis  # noqa: PLC0415 - for this alone

        with redis.Redis(port=port) as admin:
            admin.config_set("requirepass", "right")
        try:
            wrong = f"redis://:wrong@127.0.0.1:{port}/0"

            sessions = turnmill("sessions", "--redis-url", wrong)
            both = turnmill("doctor", "--redis-url", wrong, "--json").json
            broker = ("--redis-url", redis_server.url, "--broker-url", wrong)
            one = turnmill("doctor", *broker, "--json").json
        finally:
            with redis.Redis(port=port, password="right") as admin:  # noqa: S106
                admin.config_set("requirepass", "")

    assert "password is missing or wrong" in sessions.stderr
    assert "→ correct --redis-url / TURNMILL_REDIS_URL" in sessions.stderr
    told = {check["name"]: check for check in both["checks"]}
    assert "password" in told["redis"]["found"]
    assert "start it" not in told["redis"]["advice"]
    told = {check["name"]: check for check in one["checks"]}
    assert told["broker"]["found"] == "refuses this client: its user or password is wrong"
    assert "start it" not in told["broker"]["advice"]


def test_flower_does_not_listen_to_others_without_a_password(turnmill: Callable[..., Ran]) -> None:
    ran = turnmill("flower", "--address", "0.0.0.0")  # noqa: S104 - which is refused

    assert ran.exit_code == 2
    assert "--basic-auth-file" in ran.stderr
