"""What holds for every command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

import turnmill_cli
from tests.cli.commands import Ran
from tests.processes import wait_until
from turnmill.connection.embedded import EmbeddedRedis
from turnmill_cli.app import COMMANDS
from turnmill_cli.output import safe_url


def test_a_command_imports_what_it_needs_and_not_what_others_need() -> None:
    code = "import sys; sys.argv = ['turnmill', 'push', '--help']\n"
    code += "import atexit; atexit.register(lambda: print(*sys.modules))\n"
    code += "from turnmill_cli import main; main()"

    words = [sys.executable, "-c", code]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()

    heavy = {"jinja2", "sqlalchemy", "openai", "structlog", "pydantic_settings", "flower"}
    assert not heavy & set(loaded)
    assert not [name for name in loaded if name.startswith("turnmill_worker")]


def test_what_has_options_is_imported_without_a_client_of_redis() -> None:
    # It takes longer than all the rest, and neither help nor completion needs it.
    run = {"up", "demo", "replay"}
    every = {name: place for group in COMMANDS.values() for name, place in group.items()}
    places = {place for name, place in every.items() if name not in run}
    code = "import sys; from importlib import import_module\n"
    code += f"for place in {sorted(places)}:\n"
    code += "    import_module('turnmill_cli.' + place.partition(':')[0])\n"
    code += "print(*sys.modules)"

    words = [sys.executable, "-c", code]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()

    assert not {"redis", "celery", "openai", "sqlalchemy"} & set(loaded)


def test_without_typer_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "turnmill_cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)

    with pytest.raises(SystemExit, match=r"pip install '\.\[cli\]' in turnmill's folder"):
        turnmill_cli.main()


def test_a_url_that_is_none_is_refused_without_repeating_it(turnmill: Callable[..., Ran]) -> None:
    ran = turnmill("sessions", "--redis-url", "http://user:hunter2@host")

    assert ran.exit_code == 2
    assert "hunter2" not in ran.stderr


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://user:pa@ss/word@host:1/0", "redis://***@host:1/0"),
        ("rediss://host/0?password=secret", "rediss://host/0"),
        ("sentinel://:secret@a:1;sentinel://:secret@b:2", "sentinel://***@b:2"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert safe_url(url) == shown


@pytest.fixture
def in_the_foreground() -> Iterator[None]:
    """Processes begun obey Ctrl-C, also where tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_the_foreground")
def test_ctrl_c_is_exit_code_130_without_a_traceback(redis_server: EmbeddedRedis) -> None:
    command = [sys.executable, "-m", "turnmill_cli", "push", "s", "--redis-url", redis_server.url]
    line = b'{"role": "user", "content": "x"}\n'
    with subprocess.Popen(
        [*command, "--namespace", f"ctrl-c-{os.getpid()}-{time.monotonic_ns()}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline() == b"1\n"  # it waits for the next line now

        process.send_signal(signal.SIGINT)
        wait_until(lambda: process.poll() is not None, what="end after Ctrl-C")

        assert process.returncode == 130
        assert process.stderr.read() == b"pushed 1 turn to s\n"


def assert_unknown(ran: Ran) -> None:
    assert ran.exit_code == 1
    assert ran.stdout == ""
    assert ran.stderr.startswith("UnknownSession: ")
    assert ran.stderr.count("\n") == 2  # what is wrong, and what to do


@pytest.mark.worker
@pytest.mark.parametrize("command", ["compact", "transcript", "export", "history"])
def test_a_session_that_workers_do_not_know_is_two_lines(
    served: Callable[..., Ran], command: str
) -> None:
    assert_unknown(served(command, "nobody"))
