"""An evaluation as an image: survival by budget, and by compactions gone through."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnmill_cli.exit_codes import WrongUsage
from turnmill_cli.output import needing

if TYPE_CHECKING:
    from turnmill_cli.evaluate.report import Evaluation

__all__ = ["FORMATS", "check", "draw"]

FORMATS: Final = frozenset({".png", ".svg"})

_MAIN: Final = ("AER", "AFUR")
"""The metric drawn of each data set: the strictest one it has."""

_WIDTH: Final = 4.2
_HEIGHT: Final = 3.2


def check(path: Path) -> None:
    """Return when an image can be drawn there.

    Raises:
        WrongUsage: another format, or no such folder.
        CommandFailed: matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise WrongUsage(f"{path}: a plot is a .png or .svg file")
    if not path.absolute().parent.is_dir():
        raise WrongUsage(f"{path}: no such folder")
    with needing("evaluate"):
        import matplotlib.figure  # noqa: F401, PLC0415 - heavy, and only for plots


def draw(found: Evaluation, path: Path) -> None:
    """Write the image, PNG or SVG by its name."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    names = [*found.survival]
    rows = 2 if found.probes else 1
    # A Figure of its own draws without a window system and leaves no state behind.
    figure = Figure(figsize=(_WIDTH * len(names), _HEIGHT * rows), layout="constrained")
    axes = figure.subplots(rows, len(names), squeeze=False)
    for at, name in enumerate(names):
        _by_budget(axes[0][at], name, found)
        if name in found.probes:
            _by_compactions(axes[1][at], name, found)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5))
    with mpl.rc_context({"svg.hashsalt": "turnmill"}):
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _by_budget(axis: Any, name: str, found: Evaluation) -> None:
    metric = next(m for m in _MAIN if m in next(iter(found.survival[name].values())))
    for strategy, means in found.survival[name].items():
        values = [mean.value for mean in means[metric]]
        axis.plot([100 * b for b in found.options.budgets], values, marker="o", label=strategy)
    _frame(axis, f"{name}: {metric}", "budget, % of the tokens")


def _by_compactions(axis: Any, name: str, found: Evaluation) -> None:
    for strategy, probes in found.probes[name].items():
        values = [mean.value for mean in probes.by_compactions.values()]
        axis.plot(list(probes.by_compactions), values, marker=".", label=strategy)
    _frame(axis, f"{name}: planted facts", "compactions gone through")


def _frame(axis: Any, title: str, along: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(along, fontsize=9)
    axis.set_ylim(-0.02, 1.02)
    axis.grid(alpha=0.3)
