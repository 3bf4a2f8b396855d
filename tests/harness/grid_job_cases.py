"""The cases of the guide to jobs on several clusters: what is typed, and what comes of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "guides" / "grid-jobs.md"


@dataclass(frozen=True, slots=True)
class GridJobCase:
    """A line of one of the guide's tables: the words typed, and the cells behind them."""

    words: tuple[str, ...]
    cells: tuple[str, ...]


def accepted() -> list[GridJobCase]:
    """Return what is stored: its kind, the processors of its components, the seconds of its walltime."""
    return [case for case in _cases() if len(case.cells) == 3]


def refused() -> list[GridJobCase]:
    """Return what is refused: the exit status, and what the line says."""
    return [case for case in _cases() if len(case.cells) == 2]


def _cases() -> Iterator[GridJobCase]:
    for line in GUIDE.read_text("utf-8").splitlines():
        if line.startswith("| `oargrid"):
            typed, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            yield GridJobCase(tuple(shlex.split(typed.strip("`"))), tuple(cells))
