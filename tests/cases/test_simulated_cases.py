"""What becomes of the scenarios of ``docs/cases/simulate`` stands beside them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from oarpy.grid.simulation.command import run_grid

CASES = sorted((Path(__file__).resolve().parents[2] / "docs" / "cases" / "simulate").glob("*.json"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_outcome_stands_beside_the_scenario(case: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert (run_grid([str(case)], out, err), err.getvalue()) == (0, "")
    assert out.getvalue() == case.with_suffix(".answer").read_text(encoding="utf-8")
