"""Passes by predicted run times, on a small cluster."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import timedelta
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.model import plugins
from oarpy.scheduler.predictors.run_times import JobToPredict, PastRun
from oarpy.simulation.scenarios.scenario import run_plan
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = pytest.mark.db


def cluster_with(connection: Connection, prediction: str) -> SmallCluster:
    made = SmallCluster(connection, with_settings(scheduler={"security_time": 0, "prediction": prediction}))
    made.add_nodes("n1")
    return made


def ran(cluster: SmallCluster, minutes: float, name: str = "") -> int:
    """Record a job of an hour that ran for so long."""
    job = cluster.submit("/core=1,walltime=1:0:0", name=name)
    cluster.settle()
    cluster.end(job)
    cluster.settle()
    # a minute ago: passes count whole seconds
    cluster.sql(
        "UPDATE jobs SET submitted_at = ended_at - %s, started_at = ended_at - %s,"
        " ended_at = ended_at - interval '1 minute' WHERE job_id = %s",
        timedelta(minutes=minutes + 1),
        timedelta(minutes=minutes + 1),
        job,
    )
    return job


def predicted_minutes(cluster: SmallCluster, job: int) -> int:
    start = cluster.predicted(job)
    assert start is not None
    return round(start / 60)


def longest(_job: JobToPredict, runs: Sequence[PastRun]) -> float:
    """A plug-in."""
    return max(run.run for run in runs)


def endless(_job: JobToPredict, _runs: Sequence[PastRun]) -> float:
    """A plug-in."""
    return float("inf")


@pytest.mark.parametrize(("prediction", "minutes"), [("longest", 12), ("endless", 60), ("missing", 60)])
def test_passes_go_by_a_plug_in_or_by_walltimes_where_it_fails(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, prediction: str, minutes: int
) -> None:
    there = {one: EntryPoint(one, f"{__name__}:{one}", plugins.PREDICTORS) for one in ("longest", "endless")}
    monkeypatch.setattr(plugins, "_points", lambda _group: there)
    settings = {"security_time": 0, "prediction": prediction, "plugins": (prediction,)}
    cluster = SmallCluster(connection, with_settings(scheduler=settings))
    cluster.add_nodes("n1")
    cluster.sql("SELECT set_config('oarpy.rewrite_history', 'on', false)")
    for run in (12, 6):
        ran(cluster, run)
    cluster.sql("SELECT set_config('oarpy.rewrite_history', '', false)")
    cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    second = cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    assert predicted_minutes(cluster, second) == minutes


@pytest.mark.parametrize(("prediction", "minutes"), [("walltime", 60), ("last2", 8), ("similar", 12)])
def test_jobs_wait_for_the_predicted_ends_of_others(connection: Connection, prediction: str, minutes: int) -> None:
    cluster = cluster_with(connection, prediction)
    cluster.sql("SELECT set_config('oarpy.rewrite_history', 'on', false)")
    for run in (12, 10, 6):
        ran(cluster, run)
    cluster.sql("SELECT set_config('oarpy.rewrite_history', '', false)")
    first = cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    second = cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    assert cluster.states([first, second]) == ["Running", "Waiting"]
    assert predicted_minutes(cluster, second) == minutes
    ((walltime,),) = cluster.sql("SELECT walltime FROM jobs WHERE job_id = %s", first)
    assert walltime == timedelta(hours=1)
    told = cluster.sql("SELECT predictor, seconds FROM run_predictions WHERE job_id = %s", first)
    assert told == ([] if prediction == "walltime" else [(prediction, minutes * 60)])


def test_a_reservation_is_accepted_beside_walltimes_and_nobody_runs_into_it(connection: Connection) -> None:
    cluster = cluster_with(connection, "last2")
    cluster.sql("SELECT set_config('oarpy.rewrite_history', 'on', false)")
    ran(cluster, 10), ran(cluster, 10)
    cluster.sql("SELECT set_config('oarpy.rewrite_history', '', false)")
    first = cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    begin = (cluster.now() + timedelta(minutes=30)).replace(microsecond=0)
    refused = cluster.submit("/nodes=1,walltime=0:10:0", reservation=begin)
    accepted = cluster.submit("/nodes=1,walltime=0:10:0", reservation=begin + timedelta(minutes=60))
    cluster.settle()
    assert cluster.states([first, refused]) == ["Running", "Error"]
    assert cluster.job(accepted, "reservation_state") == "Scheduled"
    short, long = cluster.submit("/nodes=1,walltime=0:30:0"), cluster.submit("/nodes=1,walltime=1:25:0")
    cluster.settle()
    assert predicted_minutes(cluster, short) == 10
    assert predicted_minutes(cluster, long) >= 100


@pytest.mark.parametrize("prediction", ["last2", "similar"])
def test_a_recorded_pass_by_predictions_is_decided_again_as_it_was(
    connection: Connection, tmp_path: Path, prediction: str
) -> None:
    settings = {"security_time": 0, "prediction": prediction, "record_passes": str(tmp_path / "passes")}
    cluster = SmallCluster(connection, with_settings(scheduler=settings))
    cluster.add_nodes("n1")
    cluster.sql("SELECT set_config('oarpy.rewrite_history', 'on', false)")
    for run in (12, 10, 6):
        ran(cluster, run)
    cluster.sql("SELECT set_config('oarpy.rewrite_history', '', false)")
    for walltime in ("1:0:0", "0:20:0", "1:30:0"):
        cluster.submit(f"/nodes=1,walltime={walltime}")
        cluster.settle()
    passes = sorted((tmp_path / "passes").glob("*.json"))
    assert planned(passes) == [json.loads(one.with_suffix(".decided").read_text(encoding="utf-8")) for one in passes]
    last = json.loads(passes[-1].read_text(encoding="utf-8"))
    assert len(last["predictions"]) == 3
    # by walltimes, the last pass decides otherwise
    del last["predictions"]
    (tmp_path / "walltimes.json").write_text(json.dumps(last), encoding="utf-8")
    assert planned([tmp_path / "walltimes.json"]) != planned(passes[-1:])


def planned(passes: Sequence[Path]) -> list[dict[str, Any]]:
    """Return what `oarpy plan --decisions` decides about recorded passes."""
    out, err = io.StringIO(), io.StringIO()
    assert run_plan(list(map(str, passes)), False, out, err, orders=SiteOrders(), decisions=True) == 0, err.getvalue()
    lines = map(json.loads, out.getvalue().splitlines())
    return [{"jobs": line["jobs"], "decisions": line["decisions"]} for line in lines]
