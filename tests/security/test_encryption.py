"""Content that is stored encrypted is in no file, and who lacks a key leaves it alone."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.image_parts import png, showing
from tests.processes import WorkerProcess, wait_until
from turnmill import CannotDecrypt, Cipher, ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId

# --- Content that is stored encrypted: nothing of it in the files of Redis and of the archive.


EXAMPLES = Path(__file__).parents[2] / "examples"
WORDS = ["zanzibar", "quixotic", "xylophone", "wolverine", "vermilion", "umbrella"]
PICTURE = png(seed=7, size=3000)
pytestmark = pytest.mark.worker


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "keys.json"
    write(file, "one", "one")
    monkeypatch.setenv("CIPHER_KEYS_FILE", str(file))
    return file


def write(file: Path, current: str, *names: str) -> None:
    known = {name: base64.b64encode(name.encode().ljust(32, b"k")).decode() for name in names}
    other = file.with_suffix(".new")
    other.write_text(json.dumps({"current": current, "keys": known}))
    other.replace(file)


@pytest.fixture
def cipher(keys: Path) -> Cipher:  # noqa: ARG001 - it reads the file
    spec = importlib.util.spec_from_file_location("aes_gcm", EXAMPLES / "aes_gcm_cipher.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Cipher = module.cipher
    return made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path / "redis") as made:
        with redis.Redis.from_url(made.url) as admin:
            admin.config_set("rdbcompression", "no")
        yield made


Start = Callable[..., WorkerProcess]


@pytest.fixture
def worker(server: EmbeddedRedis, tmp_path: Path) -> Start:
    def start(
        *, is_sealing: bool = True, name: str = "one", keys: Path | None = None
    ) -> WorkerProcess:
        path = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
        env = {"TURNMILL_DATA_DIR": str(tmp_path / "data"), "TURNMILL_ARCHIVE_URL": ""}
        env["PYTHONPATH"] = path
        if keys is not None:
            env["CIPHER_KEYS_FILE"] = str(keys)
        if is_sealing:
            env["TURNMILL_CIPHER"] = "aes_gcm_cipher:cipher"
        return WorkerProcess(server.url, tmp_path, env=env, name=name)

    return start


def talk(client: ContextClient, session: str = "s", turns: int = 40) -> None:
    client.open(session, Policy(max_tokens=1000), f"Be brief, {WORDS[0]}.")
    client.push(session, {"role": "user", "content": f"I live in {WORDS[1]}, always say so."})
    client.push(session, showing(PICTURE))
    for at in range(turns):
        text = f"Where is order #W{at * 7919} of the {WORDS[2]}? " * 4
        client.push(session, {"role": "user", "content": text})
    client.checkpoint(session, f"before the {WORDS[3]}")


def settled(client: ContextClient, session: str = "s") -> bool:
    found = client.info(session)
    return bool(found.version) and not found.turns_covered


def files(folder: Path) -> bytes:
    """All that Redis and the archive have on disk."""
    found = [*(folder / "redis").rglob("*.rdb"), *(folder / "redis").rglob("*.aof")]
    found += [*(folder / "redis").rglob("*.aof.*"), *(folder / "data").iterdir()]
    return b"".join(path.read_bytes() for path in found if path.is_file())


@pytest.mark.parametrize("is_sealing", [True, False])
def test_no_word_of_a_conversation_is_in_a_file_that_is_encrypted(
    is_sealing: bool,  # noqa: FBT001 - without, the words are found: else this would show nothing
    cipher: Cipher,
    server: EmbeddedRedis,
    worker: Start,
    tmp_path: Path,
) -> None:
    chosen = cipher if is_sealing else None
    with worker(is_sealing=is_sealing), ContextClient(server.url, cipher=chosen) as client:
        talk(client)
        client.manager("s").remember(f"The {WORDS[4]} is mine.")
        wait_until(lambda: settled(client), within_s=60)
        found = client.ground(f"Whose is the {WORDS[4]}?")
        back = client.rollback("s", to=1)
        client.push("s", {"role": "user", "content": f"And the {WORDS[5]}?"})
        whole = client.trajectory("s")
        read = client.read("s")
        with redis.Redis.from_url(server.url) as admin:
            admin.save()

    stored = files(tmp_path)
    left = [word for word in WORDS if word.encode() in stored]
    assert bool(left) is not is_sealing, left
    assert (PICTURE[:2000] in stored) is not is_sealing
    assert back.restored
    assert any(WORDS[4] in memory.text for memory in found.memories)
    assert WORDS[1] in str([turn.messages for turn in whole.turns])
    assert WORDS[5] in str(read.messages)
    assert read.system_prompt == f"Be brief, {WORDS[0]}."


def test_what_is_erased_is_gone_and_the_rest_can_still_be_decrypted(
    cipher: Cipher, server: EmbeddedRedis, worker: Start, tmp_path: Path
) -> None:
    with worker(), ContextClient(server.url, cipher=cipher) as client:
        talk(client)
        client.manager("s").remember(f"The {WORDS[4]} is mine.")
        wait_until(lambda: settled(client), within_s=60)
        done = client.erase("s", turns=[1, 42])
        wait_until(lambda: settled(client), within_s=60)
        whole = {int(turn.seq): str(turn.messages) for turn in client.trajectory("s").turns}
        assert client.read("s")

    assert done.turns == (1, 42)
    assert WORDS[1] not in whole[1]
    assert WORDS[2] not in whole[42]
    assert all(WORDS[2] in whole[seq] for seq in range(3, 42))
    stored = files(tmp_path)
    assert not [word for word in WORDS if word.encode() in stored]


def test_who_lacks_the_cipher_is_told_and_loses_nothing(
    cipher: Cipher, server: EmbeddedRedis, worker: Start
) -> None:
    with ContextClient(server.url, cipher=cipher) as client:
        with worker(is_sealing=False, name="bare") as bare:
            talk(client)
            wait_until(lambda: "CannotDecrypt" in bare.output(), within_s=60)
        with ContextClient(server.url) as plain, pytest.raises(CannotDecrypt, match="no cipher"):
            plain.read("s")
        assert client.info("s").version == 0
        with worker():
            wait_until(lambda: settled(client), within_s=60)
            assert [turn.seq for turn in client.trajectory("s").turns] == list(range(1, 43))


def test_content_of_another_session_is_refused(cipher: Cipher, server: EmbeddedRedis) -> None:
    with ContextClient(server.url, cipher=cipher) as client:
        for session in ("a", "b"):
            client.push(session, {"role": "user", "content": "hi"})
        with redis.Redis.from_url(server.url) as admin:
            log = {name: session_keys(Namespace("default"), SessionId(name)).log for name in "ab"}
            [(entry_id, fields)] = admin.xrange(log["a"])
            admin.delete(log["b"])
            admin.xadd(log["b"], fields, id=entry_id)

        assert client.read("a")
        with pytest.raises(CannotDecrypt, match="InvalidTag"):
            client.read("b")


# --- Agents have the new key of the cipher, and some workers have only the old one.


def doctor(url: str, folder: Path, keys: Path) -> dict[str, str]:
    """What the doctor says with these keys of whether content can be read."""
    told = subprocess.run(
        [sys.executable, "-m", "turnmill_cli", "doctor", "--json", "--redis-url", url],
        env={
            **os.environ,
            "TURNMILL_DATA_DIR": str(folder / "data"),
            "TURNMILL_ARCHIVE_URL": "",
            "PYTHONPATH": os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")]),
            "TURNMILL_CIPHER": "aes_gcm_cipher:cipher",
            "CIPHER_KEYS_FILE": str(keys),
        },
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


def pushed_without_the_new_key(client: ContextClient) -> int:
    """The seq of a turn of an agent that cannot read its context, and goes on."""
    with pytest.raises(CannotDecrypt, match="KeyError"):
        client.read("s")
    return client.push("s", {"role": "user", "content": f"Back at the {WORDS[2]}."}).seq


def test_workers_without_the_new_key_leave_what_they_cannot_read_to_those_that_have_it(
    cipher: Cipher,
    server: EmbeddedRedis,
    worker: Start,
    keys: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, new = keys, tmp_path / "new.json"
    write(new, "two", "one", "two")
    with (
        worker(name="old", keys=old) as old_one,
        ContextClient(server.url, cipher=cipher) as client,
    ):
        talk(client)
        wait_until(lambda: settled(client), within_s=60)
        before = client.info("s")
        monkeypatch.setenv("CIPHER_KEYS_FILE", str(new))
        talk(client, turns=40)
        wait_until(lambda: "event='cannot decrypt'" in old_one.output(), within_s=60)

        assert_left_alone(client, before.version)
        assert doctor(server.url, tmp_path, old)["status"] == "warning"
        assert doctor(server.url, tmp_path, new)["status"] == "ok"

        monkeypatch.setenv("CIPHER_KEYS_FILE", str(old))
        last = pushed_without_the_new_key(client)
        monkeypatch.setenv("CIPHER_KEYS_FILE", str(new))

        with worker(name="new", keys=new):  # beside the one that was forgotten
            wait_until(
                lambda: client.info("s").version > before.version and settled(client), within_s=60
            )
        write(old, "two", "one", "two")  # the forgotten one gets the key, without a restart
        seqs = [turn.seq for turn in client.trajectory("s").turns]
    with redis.Redis.from_url(server.url) as admin:
        admin.save()

    assert seqs == list(range(1, last + 1))
    assert not [word for word in WORDS if word.encode() in files(tmp_path)]
