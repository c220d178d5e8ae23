"""A turnmill made from this one: with fields of its own in all it stores, and a newer format."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import turnmill
import turnmill_worker

_CLIENT = """
import json, sys
from turnmill import ContextClient, Policy, SilentWaker
call = json.load(sys.stdin)
with ContextClient(call["url"], namespace=call["namespace"], broker=SilentWaker()) as client:
    if call["policy"]:
        client.open(call["session"], Policy(**call["policy"]))
    for turn in call["turns"]:
        client.push(call["session"], turn)
    print(json.dumps(client.read(call["session"]).messages))
"""

_CHANGES = {
    "turnmill/contract/context.py": [
        ("    recall: bool = False\n", '    recall: bool = False\n    mood: str = "none"\n'),
        ("**stamp(self.format)", '**stamp(self.format), "mood": "calm"'),
    ],
    "turnmill/contract/rules.py": [
        ("    place: int = 1\n", "    place: int = 1\n    weight: int = 1\n"),
    ],
    "turnmill/contract/policy.py": [
        ("    ttl_s: int = Field", "    tempo: int = 1\n    ttl_s: int = Field"),
    ],
    "turnmill/contract/job_outcomes.py": [
        ("    rules_ended: int = 0\n", "    rules_ended: int = 0\n    charm: int = 7\n"),
        ("exclude_defaults=True), **stamp()", 'exclude_defaults=True), **stamp(), "charm": 7'),
    ],
    "turnmill_worker/store/sessions.py": [
        ("{**known.stored(), **stamp(", '{**known.stored(), "index": 1, **stamp('),
    ],
}  # fmt: skip
"""Per file, what stands there now and in the newer version."""


class NewerVersion:
    """Its packages in ``folder``; workers and clients of it run as processes of their own."""

    def __init__(self, folder: Path, *, writes: str) -> None:
        self.folder = folder
        for package in (turnmill, turnmill_worker):
            source = Path(package.__file__ or "").parent
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / source.name, ignore=ignore)
        formats = [(f'FORMAT: Final = "{turnmill_format()}"', f'FORMAT: Final = "{writes}"')]
        for name, changes in {**_CHANGES, "turnmill/contract/formats.py": formats}.items():
            self.change(name, changes)

    def change(self, name: str, changes: Sequence[tuple[str, str]]) -> None:
        """Make a file of it another; per change, what stands there now and what it has."""
        file = self.folder / name
        text = file.read_text()
        for now, newer in changes:
            assert now in text, f"{name} has no {now!r}: change newer_version.py with it"
            text = text.replace(now, newer)
        file.write_text(text)

    @property
    def env(self) -> Mapping[str, str]:
        """What makes a Python process use this version."""
        return {**os.environ, "PYTHONPATH": str(self.folder)}

    def client(
        self,
        url: str,
        namespace: str,
        session: str,
        turns: Sequence[Mapping[str, Any]] = (),
        *,
        policy: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Open the session where there is a policy, push the turns, and read: its messages."""
        call = {"url": url, "namespace": namespace, "session": session}
        asked = json.dumps({**call, "turns": list(turns), "policy": policy})
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _CLIENT],
            input=asked,
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


def turnmill_format() -> str:
    """What the version under test writes."""
    from turnmill.contract.formats import FORMAT  # noqa: PLC0415 - a name of its own here

    return FORMAT
