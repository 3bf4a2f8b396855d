"""The experiment on jobs over clusters that begin earlier: how logs are brought to their loads, and what is judged."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from oarpy.model.errors import UsageError
from research.reservations.flexco import LOCAL, flexco_run, flexco_runs, published, scenario
from research.reservations.flexco_figures import FIGURES, PointTable
from research.reservations.flexco_report import flexco_claims, reproduce_flexco
from research.runs.pools import local_pool
from tests.harness.made_up_logs import write_log

_DAY = 86400


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A log above its load, and others below theirs."""
    write_log(tmp_path / "CTC-SP2-1996-3.1-cln.swf", 60, 100, 40, 8000)
    write_log(tmp_path / "HPC2N-2002-2.2-cln.swf", 90, 12, 40, 8000)
    write_log(tmp_path / "SDSC-SP2-1998-4.2-cln.swf", 60, 8, 32, 8000)
    write_log(tmp_path / "SDSC-BLUE-2000-4.2-cln.swf", 60, 2, 256, 8000)
    return tmp_path


POINT: dict[str, str | int | float] = {
    "days": 10,
    "scaled": 1,
    "external": 16,
    "precision": 0.0,
    "operation": "remap",
    "seed": 1,
}


def test_months_have_the_published_loads_and_estimates(traces: Path) -> None:
    experiment = flexco_runs([POINT], traces)
    document = scenario(POINT, experiment.places)
    for name in (*LOCAL, "external"):
        log = published(POINT, name)
        jobs = [job for job in document["jobs"] if job.get("cluster", "external") == name]
        point = log.procs * 10 * _DAY / 100
        assert sum(job["procs"] * job["run"] for job in jobs) / point == pytest.approx(log.load, abs=2)
        assert sum(job["procs"] * job["walltime"] for job in jobs) / point == pytest.approx(log.estimated, rel=1e-6)
        assert all(0 <= job["submit"] < 10 * _DAY for job in jobs)
    assert all(0 <= job["overhead"] < 0.25 for job in document["jobs"] if "cluster" not in job)


def test_variants_differ_in_nothing_else(traces: Path) -> None:
    experiment = flexco_runs([POINT], traces)
    precise = scenario({**POINT, "precision": 0.5, "operation": "rigid"}, experiment.places)
    plain = scenario(POINT, experiment.places)
    for one, other in zip(plain["jobs"], precise["jobs"], strict=True):
        assert one["walltime"] - one["run"] == pytest.approx(2 * (other["walltime"] - other["run"]))
        assert {**one, "walltime": 0} == {**other, "walltime": 0}


def test_claims_are_open_where_nothing_was_run(traces: Path) -> None:
    points = [{**POINT, "operation": operation} for operation in ("rigid", "shift", "remap")]
    experiment = flexco_runs(points, traces)
    rows = [(run, flexco_run(run, experiment.places)) for run in experiment.runs]
    found = {claim.claim: claim for claim in flexco_claims(PointTable(rows), FIGURES)}
    assert found["4a"].ours.startswith("% below rigid: shift local")
    assert {name for name, claim in found.items() if claim.holds == "-"} == {
        *("4b", "4f", "4a-unscaled", "4b-unscaled", "4c-unscaled")
    }
    assert not any(found[name].judged for name in ("4a-who", "4f", "4g", "4a-unscaled"))


def test_a_figure_has_its_runs_alone(traces: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"figures": [5], "quick": True}
    output = tmp_path / "out"
    told, _ = reproduce_flexco(traces, output, local_pool(1), io.StringIO(), **asked)
    assert {path.name for path in output.glob("figure*.csv")} == {"figure05.csv"}
    (line,) = csv.DictReader((output / "figure05.csv").read_text().splitlines())
    (run,) = csv.DictReader((output / "runs.csv").read_text().splitlines())
    assert (line["operation"], line["runs"], line["collapsed"]) == ("remap", "1", run["collapsed"])
    assert {row.split()[0] for row in told.splitlines() if "not run" not in row} == {"4d:", "4g:"}
    written = tmp_path / "files"
    reproduce_flexco(traces, output, local_pool(1), io.StringIO(), write=written, **asked)
    assert len(written.read_text().splitlines()) == 1
    with pytest.raises(UsageError, match="no figure 8"):
        reproduce_flexco(traces, output, local_pool(1), io.StringIO(), figures=[8], quick=True)
