"""Charts of experiments on several clusters: what of the runs they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.grids.deadlines import METRICS
from research.grids.deadlines_figures import PointTable, points_of, write_figures
from research.grids.reallocation import PWA, SCENARIOS, reallocation_runs
from research.grids.reallocation_charts import write_charts
from research.grids.reallocation_tables import RunTable
from research.runs.experiment import RunList

pytest.importorskip("matplotlib")


def no_run(*_: object) -> dict[str, object]:
    raise AssertionError


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_figure_1_shows_all_metrics_seconds_apart_from_shares(tmp_path: Path) -> None:
    runs = [{**at, "seed": 1, "jobs": 5} for at in points_of([1, 8])]
    found = {place: dict.fromkeys(METRICS, float(place + 1)) for place in range(len(runs))}
    table = PointTable(RunList("deadlines", 1, no_run, runs), found)
    write_figures(tmp_path, table, [1, 8], 1, 5, drawing=True)
    drawn = text(tmp_path / "figure01.svg")
    assert [metric for metric in METRICS if metric not in drawn] == []
    assert ">%</text>" in drawn
    assert "local_response (s)" in drawn
    assert drawn.index('id="axes_2"') < drawn.index("local_response (s)"), "a panel of its own"
    assert 'id="axes_2"' not in text(tmp_path / "figure08.svg")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Logs that nobody reads."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("CTC-SP2-1996-3.1-cln", "SDSC-SP2-1998-4.2-cln"):
        (folder / f"{name}.swf.gz").touch()
    return folder


def table_of(logs: Path, *scenarios: str) -> RunTable:
    experiment = reallocation_runs(scenarios, 1, logs, 5)
    values = {"jobs": 5, "moves": 3, "impacted": 50.0, "early": 60.0, "rel": 0.9, "mean_response": 10.0}
    return RunTable(experiment, dict.fromkeys(range(len(experiment.runs)), values))


@pytest.mark.long
def test_scenarios_that_were_left_out_are_left_out_of_the_averages(tmp_path: Path, logs: Path) -> None:
    write_charts(tmp_path, table_of(logs, *SCENARIOS))
    assert {path.stem for path in tmp_path.glob("*.svg")} == {"impacted", "moves", "early", "rel"}
    whole = text(tmp_path / "rel.svg")
    assert " alone" not in whole
    write_charts(tmp_path, table_of(logs, "feb", "mar"))
    assert {path.stem for path in tmp_path.glob("*.svg")} == {"impacted", "early", "rel"}, f"moves are of {PWA}"
    assert ", of feb, mar alone" in text(tmp_path / "rel.svg")
    assert text(tmp_path / "rel.svg") != whole
