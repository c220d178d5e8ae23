"""Agents have the new key of the cipher, and some or all workers have only the old one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.security.test_encryption import EXAMPLES, WORDS, files, settled, talk, write
from turnmill import CannotDecrypt, Cipher, ContextClient
from turnmill.connection.credentials import load_cipher
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker

Start = Callable[[str, Path], WorkerProcess]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The keys of those who were forgotten when the others got new ones."""
    write(tmp_path / "old.json", "one", "one")
    return tmp_path / "old.json"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    write(tmp_path / "new.json", "two", "one", "two")
    return tmp_path / "new.json"


@pytest.fixture
def cipher(monkeypatch: pytest.MonkeyPatch, old: Path) -> Cipher:
    """The agents' cipher, which begins with the old key."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("CIPHER_KEYS_FILE", str(old))
    sys.modules.pop("aes_gcm_cipher", None)
    made = load_cipher("aes_gcm_cipher:cipher")
    assert made
    return made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path / "redis") as made:
        yield made


def with_keys(folder: Path, keys: Path) -> dict[str, str]:
    return {
        "TURNMILL_DATA_DIR": str(folder / "data"),
        "TURNMILL_ARCHIVE_URL": "",
        "PYTHONPATH": os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")]),
        "TURNMILL_CIPHER": "aes_gcm_cipher:cipher",
        "CIPHER_KEYS_FILE": str(keys),
    }


@pytest.fixture
def worker(server: EmbeddedRedis, tmp_path: Path) -> Start:
    return lambda name, keys: WorkerProcess(
        server.url, tmp_path, env=with_keys(tmp_path, keys), name=name
    )


def doctor(url: str, folder: Path, keys: Path) -> dict[str, str]:
    """What the doctor says with these keys of whether content can be read."""
    told = subprocess.run(
        [sys.executable, "-m", "turnmill_cli", "doctor", "--json", "--redis-url", url],
        env={**os.environ, **with_keys(folder, keys)},
        capture_output=True,
        check=False,
    )
    checks = json.loads(told.stdout)["checks"]
    [found] = [check for check in checks if check["name"] == "content"]
    return dict(found)


def assert_left_alone(client: ContextClient, version: int) -> None:
    """Agents go on; nobody else does, nothing is parked, and who asks is told at once."""
    assert WORDS[2] in str(client.read("s").messages)
    with pytest.raises(CannotDecrypt):
        client.trajectory("s", timeout_s=60)
    assert (client.info("s").version, client.info("s").failures) == (version, 0)


def test_workers_without_the_new_key_leave_what_they_cannot_read_to_those_that_have_it(
    cipher: Cipher,
    server: EmbeddedRedis,
    worker: Start,
    old: Path,
    new: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with worker("old", old) as forgotten, ContextClient(server.url, cipher=cipher) as client:
        talk(client)
        wait_until(lambda: settled(client), within_s=60)
        before = client.info("s")
        monkeypatch.setenv("CIPHER_KEYS_FILE", str(new))
        talk(client, turns=40)
        wait_until(lambda: "event='cannot decrypt'" in forgotten.output(), within_s=60)

        assert_left_alone(client, before.version)
        assert doctor(server.url, tmp_path, old)["status"] == "warning"
        assert doctor(server.url, tmp_path, new)["status"] == "ok"

        # Back: an agent without the new key cannot read, and pushes.
        monkeypatch.setenv("CIPHER_KEYS_FILE", str(old))
        with pytest.raises(CannotDecrypt, match="KeyError"):
            client.read("s")
        last = client.push("s", {"role": "user", "content": f"Back at the {WORDS[2]}."}).seq
        monkeypatch.setenv("CIPHER_KEYS_FILE", str(new))

        with worker("new", new):  # beside the one that was forgotten
            wait_until(
                lambda: client.info("s").version > before.version and settled(client), within_s=60
            )
        write(old, "two", "one", "two")  # the forgotten one gets the key, without a restart
        seqs = [turn.seq for turn in client.trajectory("s").turns]
    with redis.Redis.from_url(server.url) as admin:
        admin.config_set("rdbcompression", "no")
        admin.save()

    assert seqs == list(range(1, last + 1))
    assert not [word for word in WORDS if word.encode() in files(tmp_path)]
