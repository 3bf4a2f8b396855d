"""The chart of a replay as a file, SVG or PNG by its name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from oarpy.model.errors import UsageError
from oarpy.simulation.gantt_png import write_png
from oarpy.simulation.gantt_svg import write_svg
from oarpy.simulation.output_files import write_file, writing
from oarpy.simulation.processor_rows import Bar

_KINDS = (".svg", ".png")


def check_plot(path: Path | None) -> None:
    """Raise :class:`UsageError` when the name of the file does not say what is to be drawn."""
    if path is not None and path.suffix.lower() not in _KINDS:
        raise UsageError(f"'{path.name[:80]}' names no kind of picture", hint="--plot FILE.svg or FILE.png")


def write_plot(path: Path, bars: Sequence[Bar], rows: int, title: str) -> None:
    """Draw ``bars`` on a machine of ``rows`` processors. Raises ``OarpyError`` when it cannot be written."""
    check_plot(path)
    if path.suffix.lower() == ".png":
        with writing(path), path.open("wb") as picture:
            write_png(bars, rows, title, picture)
    else:
        write_file(path, partial(write_svg, bars, rows, title))
