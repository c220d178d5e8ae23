"""A package as pip would have installed it: a module, and metadata that offers what is in it."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, group: str, name: str, value: str, *, source: str) -> Path:
    """Offer ``module:attribute`` under this name; returns what has to be on ``sys.path``."""
    module = value.partition(":")[0]
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{module}.py").write_text(source)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    return folder
