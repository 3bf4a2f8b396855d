"""Jobs that have to wait are told once when they will start; what came of it is learnt from, and is a view."""

from __future__ import annotations

import pytest

from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.scheduler.forecast.start_intervals import FEWEST
from tests.harness.small_cluster import Connection, SmallCluster

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]

Told = tuple[float, float | None, float | None, int]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2")
    return made


def past(cluster: SmallCluster, planned: float, waited: float, number: int = FEWEST) -> None:
    """Let jobs of the past have waited so many seconds, of so many that were planned."""
    for _ in range(number):
        job = cluster.submit("/core=1,walltime=0:1:0")
        cluster.settle()
        cluster.end(job)
        cluster.settle()
    cluster.sql(
        "INSERT INTO first_predictions (job_id, made_at, planned_start)"
        " SELECT job_id, started_at - %s * interval '1 s',"
        "        started_at - %s * interval '1 s' + %s * interval '1 s' FROM jobs"
        " WHERE state = 'Terminated' ON CONFLICT DO NOTHING",
        waited,
        waited,
        planned,
    )


def told(cluster: SmallCluster, job: int) -> list[Told]:
    """Seconds from the prediction to the planned, earliest and latest start, and how many starts taught that."""
    return cluster.sql(
        "SELECT extract(epoch FROM planned_start - made_at)::float8,"
        " extract(epoch FROM earliest_start - made_at)::float8,"
        " extract(epoch FROM latest_start - made_at)::float8, learnt_from FROM first_predictions WHERE job_id = %s",
        job,
    )


def test_a_job_that_has_to_wait_is_told_once(cluster: SmallCluster) -> None:
    past(cluster, 4000, 1000)
    running = cluster.submit("/nodes=2,walltime=1:0:0")
    cluster.settle()
    waiting = cluster.submit("/nodes=1,walltime=0:30:0")
    held = cluster.submit(hold=True)
    cluster.scheduler = Metascheduler(cluster.settings)
    cluster.plan()
    ((planned, earliest, latest, starts),) = told(cluster, waiting)
    assert planned == pytest.approx(3601, abs=5)
    assert earliest == latest == pytest.approx(planned / 4)
    assert starts == FEWEST
    assert told(cluster, running) == told(cluster, held) == []
    before = cluster.sql("SELECT * FROM first_predictions WHERE job_id = %s", waiting)
    cluster.offset += 300
    cluster.scheduler = Metascheduler(cluster.settings)
    cluster.plan()
    assert cluster.sql("SELECT * FROM first_predictions WHERE job_id = %s", waiting) == before


def test_without_a_past_only_the_plan_is_noted(cluster: SmallCluster) -> None:
    cluster.submit("/nodes=2,walltime=1:0:0")
    cluster.settle()
    waiting = cluster.submit("/nodes=1,walltime=0:30:0")
    cluster.plan()
    ((planned, earliest, latest, starts),) = told(cluster, waiting)
    assert planned == pytest.approx(3601, abs=5)
    assert (earliest, latest, starts) == (None, None, 0)


def test_the_accuracy_of_predictions_is_a_view(cluster: SmallCluster) -> None:
    past(cluster, 4000, 1000, 4)
    cluster.sql(
        "UPDATE first_predictions f SET earliest_start = made_at + interval '900 s' + n * interval '100 s',"
        " latest_start = made_at + interval '1400 s' + n * interval '100 s', learnt_from = 60"
        " FROM (SELECT job_id, row_number() OVER (ORDER BY job_id) - 2 AS n FROM jobs) numbered"
        " WHERE numbered.job_id = f.job_id"
    )
    cluster.submit("/nodes=2,walltime=1:0:0")
    cluster.settle()
    cluster.submit("/nodes=1,walltime=0:30:0")
    cluster.plan()
    (row,) = cluster.sql(
        "SELECT queue_name, sum(jobs), sum(told), sum(started), sum(inside), sum(earlier), sum(later), sum(after_plan),"
        " max(mean_width_seconds), max(mean_planned_seconds), max(mean_wait_seconds)"
        " FROM oar_report.prediction_accuracy GROUP BY queue_name"
    )
    # 800 to 1300, 900 to 1400, 1000 to 1500, 1100 to 1600: the last one starts before its interval
    assert row == ("default", 5, 4, 4, 3, 1, 0, 0, 500, 4000, 1000)
