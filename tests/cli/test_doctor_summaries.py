"""What `turnmill doctor` says when policies ask for a model that workers cannot ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.cli.commands import Ran
from tests.processes import WorkerProcess, wait_until
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.keys import SUMMARIZERS, session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.background.presence import Announcement
from turnmill_worker.store.reports import RedisPresence

pytestmark = pytest.mark.worker

KEY = "sk-for-tests-only-0123456789"
ASKING = Policy(summarizer="openai")


@pytest.fixture(autouse=True)
def own_server(
    tmp_path: Path, turnmill: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> Iterator[EmbeddedRedis]:
    """A server no other test's worker announces itself on."""
    del turnmill  # it names another server
    with EmbeddedRedis(tmp_path / "own", durable=False) as server:
        monkeypatch.setenv("TURNMILL_REDIS_URL", server.url)
        yield server


@pytest.fixture
def server(own_server: EmbeddedRedis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_server.url) as made:
        yield made


@pytest.fixture
def client(own_server: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    with ContextClient(own_server.url, namespace=namespace) as made:
        yield made


@pytest.fixture
def summaries(turnmill: Callable[..., Ran]) -> Callable[[], dict[str, str]]:
    """The check of this name."""

    def look() -> dict[str, str]:
        checks: list[dict[str, str]] = turnmill("doctor", "--json").json["checks"]
        return next(check for check in checks if check["name"] == "summaries")

    return look


Summaries = Callable[[], dict[str, str]]


def announced(server: redis.Redis, workers: int) -> None:
    wait_until(lambda: server.zcard(SUMMARIZERS) == workers, what=f"{workers} announced")


def test_a_worker_that_cannot_ask_is_named_without_its_key_until_it_leaves(
    client: ContextClient,
    server: redis.Redis,
    own_server: EmbeddedRedis,
    tmp_path: Path,
    summaries: Summaries,
) -> None:
    client.open("asking", ASKING)
    client.open("other", Policy())
    env = {"TURNMILL_MODEL_KEY": KEY, "TURNMILL_REDACTOR": "no-such"}
    with WorkerProcess(own_server.url, tmp_path, name="unable", queues="summarize", env=env) as one:
        announced(server, 1)
        check = summaries()
        told = one.output()
    left = summaries()

    assert check["status"] == "warning"
    assert check["found"].startswith(
        f"1 of the 2 newest sessions of {client.namespace} asks for a model; "
        "1 of 1 worker of summarize cannot ask one: unable@"
    )
    assert "no-such" in check["found"]
    assert KEY not in str(check) + told
    assert "no worker consumes the queue summarize" in left["found"]


@pytest.mark.parametrize(
    ("summarizers", "status", "found", "advice"),
    [
        ({"openai": ""}, "ok", "1 worker can ask one", ""),
        ({"openai": "no key"}, "warning", "here@host (no key)", "set TURNMILL_MODEL_KEY"),
        ({"extractive": ""}, "warning", "it has no summarizer 'openai'", "install the package"),
    ],
)
def test_what_workers_say_of_themselves_is_judged(
    client: ContextClient,
    server: redis.Redis,
    summaries: Summaries,
    summarizers: dict[str, str],
    status: str,
    found: str,
    advice: str,
) -> None:
    unasked = summaries()
    client.open("asking", ASKING)
    said = json.dumps({"node": "here@host", "summarizers": summarizers})
    RedisPresence(server).announce(said.encode())

    check = summaries()

    assert (unasked["status"], check["status"]) == ("ok", status)
    assert found in check["found"]
    assert advice in check["advice"]


def test_a_worker_that_was_killed_is_forgotten_within_a_minute(
    client: ContextClient, server: redis.Redis, summaries: Summaries
) -> None:
    client.open("asking", ASKING)
    server.zadd(SUMMARIZERS, {'{"node": "dead@host", "problem": "no key"}': 1})
    assert "dead@host" not in summaries()["found"]

    RedisPresence(server).announce(b'{"node":"here@host"}')

    assert summaries()["status"] == "ok"
    assert server.zrange(SUMMARIZERS, 0, -1) == [b'{"node":"here@host"}']
    assert 0 < server.pttl(SUMMARIZERS) <= 60_000


def test_a_policy_nobody_can_read_is_no_obstacle(
    client: ContextClient, server: redis.Redis, summaries: Summaries
) -> None:
    for name, policy in (("list", "[]"), ("torn", "{")):
        client.open(name, ASKING)
        keys = session_keys(Namespace(client.namespace), SessionId(name))
        server.hset(keys.meta, "policy", policy)

    assert summaries()["status"] == "ok"


def test_an_outage_of_redis_is_logged_once_and_outlived(
    server: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    announcement = Announcement(RedisPresence(server), lambda: {"node": "here@host"}, every_s=0.01)
    server.set(SUMMARIZERS, "of another type")
    announcement.start()
    wait_until(lambda: refused(server) > 10)

    server.delete(SUMMARIZERS)

    announced(server, 1)
    announcement.stop()
    assert server.zcard(SUMMARIZERS) == 0
    assert capsys.readouterr().out.count("not announced") == 1


def refused(server: redis.Redis) -> int:
    """Commands that met a key of another type."""
    errors = server.info("errorstats").get("errorstat_WRONGTYPE", {})
    return int(errors.get("count", 0))


# --- A policy that names what no worker has is told of, not silently done without.


def test_doctor_and_info_say_what_a_policy_names_that_is_not_there(
    client: ContextClient,
    server: redis.Redis,
    own_server: EmbeddedRedis,
    turnmill: Callable[..., Ran],
    tmp_path: Path,
) -> None:
    def policies() -> dict[str, str]:
        checks: list[dict[str, str]] = turnmill("doctor", "--json").json["checks"]
        return next(check for check in checks if check["name"] == "policies")

    client.open("managed", Policy.managed("suport"))
    client.open("strategy", Policy(strategies=("elide", "dream", "window")))
    client.open("counted", Policy(encoding="file:own"))
    assert policies()["status"] == "ok"  # no worker runs: nobody knows
    folder = tmp_path / "templates"
    folder.mkdir()
    env = {"TURNMILL_TEMPLATE_DIRS": str(folder)}
    with WorkerProcess(own_server.url, tmp_path, name="able", queues="summarize", env=env):
        announced(server, 1)
        check = policies()
        told = turnmill("info", "managed", "--json").json["absent"]
        table = turnmill("info", "managed").stdout

    assert check["status"] == "warning"
    for kind, name in (("template", "suport"), ("strategy", "dream"), ("tokenizer", "own")):
        assert f"has no {kind} '{name}'" in check["found"]
    assert len(told) == 1
    assert "has no template 'suport', but coding, default, endless, research, support" in told[0]
    assert "absent" in table
