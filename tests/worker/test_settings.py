"""A setting that is wrong ends a worker with one line that says which."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from turnmill_worker.errors import InvalidSettings
from turnmill_worker.settings import load_settings

BAD = {"TURNMILL_MODEL_API": "telepathy", "TURNMILL_MODEL_WINDOW_TOKENS": "10"}


def test_every_wrong_variable_is_named_and_no_value_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in BAD.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(InvalidSettings) as caught:
        load_settings()

    assert str(caught.value) == (
        "TURNMILL_MODEL_API: Input should be 'chat' or 'responses'; "
        "TURNMILL_MODEL_WINDOW_TOKENS: Input should be greater than or equal to 4096"
    )


def test_every_secret_may_be_in_a_file_and_none_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for of in ("REDIS", "BROKER", "ARCHIVE"):
        (tmp_path / of).write_text(f"pw-of-{of}\n")
        monkeypatch.setenv(f"TURNMILL_{of}_PASSWORD_FILE", str(tmp_path / of))
    monkeypatch.setenv("TURNMILL_REDIS_URL", "redis://workers@redis/0")
    monkeypatch.setenv("TURNMILL_ARCHIVE_URL", "postgresql://me@db/name")

    alone = load_settings()
    monkeypatch.setenv("TURNMILL_BROKER_URL", "amqp://me@broker//")
    apart = load_settings()

    assert alone.store == alone.broker.url == "redis://workers:pw-of-REDIS@redis/0"
    assert alone.archive == "postgresql://me:pw-of-ARCHIVE@db/name"
    assert apart.broker.url == "amqp://me:pw-of-BROKER@broker//"
    assert "pw-of" not in repr(apart)


def test_a_secret_that_is_missing_stops_a_worker_and_an_empty_name_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TURNMILL_MODEL_KEY_FILE", "")
    monkeypatch.setenv("TURNMILL_REDIS_PASSWORD_FILE", "")
    assert load_settings().store == "redis://localhost:6379/0"
    assert load_settings().model_key_file is None

    monkeypatch.setenv("TURNMILL_REDIS_PASSWORD_FILE", str(tmp_path / "absent"))
    with pytest.raises(InvalidSettings, match=r"TURNMILL_REDIS_PASSWORD_FILE: .*absent cannot be"):
        load_settings()


@pytest.mark.worker
def test_a_worker_says_so_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "turnmill_worker.app", "worker"],
        env={**os.environ, **BAD},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("TURNMILL_MODEL_API: ")
    assert done.stderr.count("\n") == 1
