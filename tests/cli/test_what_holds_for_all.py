"""What holds for every command, and what somebody types first."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import turnmill_cli
from tests.cli.commands import Ran
from tests.processes import wait_until
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill_cli.app import COMMANDS, app
from turnmill_cli.output import safe_url

# --- every command --------------------------------------------------------------------------------


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
    # It says when it is at work, and leaves Ctrl-C to what is around all commands.
    command = [sys.executable, "-m", "turnmill_cli", "top", "--json", "--every", "3600"]
    command += ["--redis-url", redis_server.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith(b"{")  # it waits now

        process.send_signal(signal.SIGINT)
        wait_until(lambda: process.poll() is not None, what="end after Ctrl-C")

        assert process.returncode == 130
        assert process.stderr.read() == b""


# --- first minutes --------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
WITHOUT_JSON = {
    "up": "runs until Ctrl-C, and its lines are for a person",
    "flower": "becomes Flower",
    "mcp": "speaks a protocol of its own, in JSON",
    "serve": "becomes a server; its one line on stdout is the URL",
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
    assert told["broker"]["found"] == (
        f"redis://***@127.0.0.1:{port}/0 refuses this client: its user, password or database is "
        "wrong"
    )
    assert "start it" not in told["broker"]["advice"]


def test_flower_does_not_listen_to_others_without_a_password(turnmill: Callable[..., Ran]) -> None:
    ran = turnmill("flower", "--address", "0.0.0.0")  # noqa: S104 - which is refused

    assert ran.exit_code == 2
    assert "--basic-auth-file" in ran.stderr


# --- exit codes -----------------------------------------------------------------------------------

WRONG_WORDS = 2
FAILED = 1

TABLE: dict[tuple[str, int], tuple[str, ...]] = {
    ("no such option", WRONG_WORDS): ("sessions --nope", "up --nope", "sessions --limit -1"),
    ("an argument is missing", WRONG_WORDS): (
        "read",
        "open",
        "templates show",
        "diff",
        "replay",
        "evaluate",
    ),
    ("a value that is none of those there are", WRONG_WORDS): (
        "open s --preset nope",
        "evaluate {conversations} --strategies nope",
    ),
    ("no such command", WRONG_WORDS): ("nope", "policies nope"),
    ("a name that no namespace can have", WRONG_WORDS): (
        "sessions --namespace {bad}",
        "namespaces --namespace {bad}",
        "doctor --namespace {bad}",
        "archive sessions --namespace {bad}",
        "policies list --namespace {bad}",
    ),
    ("a name that no session can have", WRONG_WORDS): (
        "read {bad}",
        "info {bad}",
        "open {bad}",
        "checkpoint {bad}",
        "clear {bad} --yes",
        "history {bad}",
        "push {bad}",
    ),
    ("a URL that is none", WRONG_WORDS): (
        "sessions --redis-url http://host",
        "read s --redis-url http://host",
        "replay {conversations} --redis-url http://host",
        "up --redis-url http://host --data-dir {folder}/up --no-flower",
    ),
    ("a file that is not there", WRONG_WORDS): (
        "open s --policy {folder}/none.json",
        "open s --system-prompt @{folder}/none.txt",
        "visualize {folder}/none.json",
        "visualize {conversations}",
        "replay {folder}/none.jsonl",
        "evaluate {folder}/none.jsonl",
    ),
    ("a field that no policy has", WRONG_WORDS): (
        "open s --set nope=1",
        "policies set p --set nope=1",
        "open s --policy {policy}",
        "replay {conversations} --policy {policy}",
    ),
    ("nothing of this name", FAILED): (
        "read nobody",
        "info nobody",
        "clear nobody --yes",
        "policies show nobody",
        "open s --policy nobody",
        "templates show nobody",
        "rollback known --to nobody --yes",
    ),
    ("Redis is down", FAILED): (
        "sessions --redis-url {down}",
        "namespaces --redis-url {down}",
        "read s --redis-url {down}",
        "open s --redis-url {down}",
        "push s --redis-url {down}",
        "doctor --redis-url {down}",
    ),
    ("nobody can answer the question", FAILED): ("clear known", "forget known"),
}


@pytest.mark.parametrize(
    ("mistake", "code", "line"),
    [(mistake, code, line) for (mistake, code), lines in TABLE.items() for line in lines],
)
def test_the_same_mistake_has_the_same_exit_code(
    turnmill: Callable[..., Ran],
    client: ContextClient,
    tmp_path: Path,
    mistake: str,
    code: int,
    line: str,
) -> None:
    conversations = tmp_path / "some.jsonl"
    conversations.write_text('{"messages": [{"role": "user", "content": "x"}]}\n')
    client.push("known", {"role": "user", "content": "x"})
    policy = tmp_path / "policy.json"
    policy.write_text('{"soft_ration": 0.7}')
    down = f"redis://127.0.0.1:{free_port()}/0"
    words = [
        word.format(
            bad="a b", folder=tmp_path, conversations=conversations, policy=policy, down=down
        )
        for word in line.split()
    ]

    ran = turnmill(*words, stdin='{"role": "user", "content": "x"}\n')

    assert ran.exit_code == code, mistake
    assert "Traceback" not in ran.stderr + ran.stdout


@pytest.mark.parametrize("line", ["sessions", "push s", "doctor"])
def test_a_database_that_is_not_there_is_named(
    turnmill: Callable[..., Ran], redis_server: EmbeddedRedis, line: str
) -> None:
    place = f"127.0.0.1:{redis_server.port}/99"

    ran = turnmill(
        *line.split(), "--redis-url", f"redis://{place}", stdin='{"role": "user", "content": "x"}\n'
    )

    assert f"Redis at {place} has no database of this number" in ran.stderr + ran.stdout
    assert ran.exit_code == 1


def test_every_command_with_a_namespace_takes_it_as_n(turnmill: Callable[..., Ran]) -> None:
    for name in (each for commands in COMMANDS.values() for each in commands):
        told = turnmill(name, "--help").stdout
        assert "--namespace  " not in told or "-n" in told.split(), name


@pytest.mark.parametrize("line", ["serve --no-auth", "fake-llm"])
def test_a_server_names_the_port_that_it_cannot_have(
    turnmill: Callable[..., Ran], line: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = turnmill(*line.split(), "--port", str(port))

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert f"port {port} is in use: choose another with --port" in ran.stderr


@pytest.mark.parametrize("line", ["sessions", "push s", "compact s", "policies", "export s"])
def test_each_command_says_the_same_of_a_redis_that_is_down(
    turnmill: Callable[..., Ran], line: str
) -> None:
    port = free_port()
    down = f"redis://:hunter2@127.0.0.1:{port}/0"

    ran = turnmill(*line.split(), "--redis-url", down, stdin='{"role": "user", "content": "x"}\n')

    place = down.rpartition("@")[2]
    assert f"StoreUnavailable: Redis at {place} cannot be reached" in ran.stderr
    assert "→ start it (`turnmill up`), or correct --redis-url" in ran.stderr
    assert "hunter2" not in ran.stderr


@pytest.mark.parametrize(
    "line",
    ["read nobody", "retry nobody", "checkpoints nobody", "info nobody", "checkpoint nobody"],
)
def test_an_unknown_session_may_be_in_another_namespace(
    turnmill: Callable[..., Ran], line: str
) -> None:
    assert turnmill(*line.split()).stderr.splitlines()[-1].startswith("→ `turnmill sessions -A`")


def test_a_wrong_field_of_a_policy_is_told_with_its_file(
    turnmill: Callable[..., Ran], tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"soft_ration": 0.7}')

    told = turnmill("open", "s", "--policy", str(file)).stderr

    assert f"{file}: policy: no field 'soft_ration'; did you mean soft_ratio?" in told


def test_flower_beside_another_one_asks_for_another_port(turnmill: Callable[..., Ran]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ran = turnmill("flower", "--port", str(port))

    assert ran.exit_code == FAILED
    assert ran.stderr == f"port {port} is in use: choose another with --port\n"
