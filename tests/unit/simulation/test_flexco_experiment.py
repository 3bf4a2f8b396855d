"""The experiment on jobs over clusters that begin earlier: how logs are brought to their loads, and what is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.reservations.flexco import LOCAL, flexco_run, flexco_runs, published, scenario
from research.reservations.flexco_report import CellTable, flexco_claims
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
    found = {claim.claim: claim for claim in flexco_claims(CellTable(rows))}
    assert found["4a"].ours.startswith("% below rigid: shift local")
    assert {name for name, claim in found.items() if claim.holds == "-"} == {
        *("4b", "4f", "4a-unscaled", "4b-unscaled", "4c-unscaled")
    }
    assert not any(found[name].judged for name in ("4a-who", "4f", "4g", "4a-unscaled"))
