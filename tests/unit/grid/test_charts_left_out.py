"""Experiments on several clusters where matplotlib is not installed: all but the charts is written."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from research.grids import deadlines_report, reallocation_report
from research.runs.drawing import NOT_DRAWN
from research.runs.pools import local_pool


@pytest.fixture(autouse=True)
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_deadlines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines_report, "_QUICK_JOBS", 5)
    monkeypatch.setattr(deadlines_report, "_QUICK_SEEDS", 1)
    err = io.StringIO()
    text, status = deadlines_report.reproduce_deadlines(tmp_path, local_pool(1), err, figures=[8], quick=True)
    assert (status, NOT_DRAWN in err.getvalue()) == (0, True)
    assert "not run" in text
    assert {path.suffix for path in tmp_path.iterdir() if path.is_file()} == {".csv", ".json"}


def test_reallocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reallocation_report, "_QUICK", 5)
    err = io.StringIO()
    _, status = reallocation_report.reproduce_reallocation(tmp_path, local_pool(1), err, scenarios=["feb"], quick=True)
    assert (status, NOT_DRAWN in err.getvalue()) == (0, True)
    assert (tmp_path / "claims.csv").exists()
