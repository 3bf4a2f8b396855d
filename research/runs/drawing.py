"""Charts as SVG, where they can be drawn: matplotlib is an extra."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from oarpy.model.errors import UsageError
from oarpy.simulation.reports.output_files import writing
from research.runs.estimates import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawn = TypeVar("Drawn")
NOT_DRAWN = "Charts are not drawn: they need the extra plots (matplotlib)."


def can_draw(err: TextIO | None = None) -> bool:
    """Say whether matplotlib, of the extra ``plots``, is installed; if it is not, a line on ``err`` says so."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of its caches where nobody asked
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        if err is not None:
            print(NOT_DRAWN, file=err)
        return False
    return True


def wanted_figures(figures: Mapping[int, Drawn], numbers: Sequence[int]) -> dict[int, Drawn]:
    """Return the figures with these numbers, all without numbers. Raises :class:`UsageError` for one there is not."""
    for number in numbers:
        if number not in figures:
            raise UsageError(f"there is no figure {number}", hint=f"--figure N, from {min(figures)} to {max(figures)}")
    return {number: figure for number, figure in figures.items() if not numbers or number in numbers}


@contextmanager
def picture(path: Path, title: str, size: tuple[float, float], font: int = 9) -> Iterator[Figure]:
    """Yield a figure of a ``size`` in inches, and write it as SVG: equal figures give equal files.

    Raises :class:`OarpyError` when it cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    content = BytesIO()
    with rc_context({"svg.hashsalt": "oarpy", "svg.fonttype": "none", "font.size": font}):
        drawn = Figure(figsize=size, layout="constrained")
        yield drawn
        drawn.savefig(content, format="svg", metadata={"Title": title, "Date": None})
    with writing(path):
        path.write_bytes(content.getvalue())


def draw_estimates(axes: Any, label: str, estimates: Mapping[str, Estimate], **style: str) -> None:
    """Draw means with their intervals, by the names below them; what has no mean is left out."""
    known = {
        name: (found.mean, (found.high or found.mean) - found.mean)
        for name, found in estimates.items()
        if found.mean is not None
    }
    spread = [wide for _, wide in known.values()]
    axes.errorbar(list(known), [mean for mean, _ in known.values()], spread, capsize=2, label=label, **style)
