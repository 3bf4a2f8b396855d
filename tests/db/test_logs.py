"""The logs name what happened to whom: jobs, nodes, the number of the pass, and when, with the time zone."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
import structlog
from structlog.testing import capture_logs

from oarpy import configuration
from oarpy.modules.loop.logging import configure_logging, job_ranges
from oarpy.modules.loop.module import Loop, Outcome
from oarpy.store.database import Connection
from tests.harness.small_cluster import SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.kept]


class Speaker:
    """A module that says what it is given."""

    name = "speaker"
    period = 60.0

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def files(self) -> Sequence[int]:
        """Nothing."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Say it."""
        return self._outcome


def test_a_line_has_the_time_zone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        configure_logging(configuration.Log(format="json"))
        structlog.get_logger().warning("hello")
        stamp = datetime.fromisoformat(json.loads(capsys.readouterr().err)["timestamp"])
    finally:
        structlog.reset_defaults()
        monkeypatch.undo()
        time.tzset()
    assert stamp.utcoffset() == timedelta(hours=5, minutes=30)
    assert abs(datetime.now(UTC) - stamp) < timedelta(minutes=5)


def test_job_ids_are_ranges_and_bounded() -> None:
    assert job_ranges([]) == ""
    assert job_ranges([5]) == "5"
    assert job_ranges([12, 3, 4, 5, 9]) == "3-5,9,12"
    many = job_ranges(range(0, 20000, 2))
    assert many.startswith("0,2,4,")
    assert many.endswith(",... (10000 jobs)")
    assert len(many) < 200


def test_the_line_of_a_run_names_what_the_module_does(dsn: str) -> None:
    named = {"pass": 7, "jobs": "3-5", "victims": ""}
    with capture_logs() as lines:
        Loop(Speaker(Outcome("started 3", named=named)), dsn).once()
    (line,) = lines
    assert (line["outcome"], line["pass"], line["jobs"], "victims" in line) == ("started 3", 7, "3-5", False)


def test_passes_starts_ends_and_kills_name_their_jobs(connection: Connection) -> None:
    cluster = SmallCluster(connection)
    cluster.add_nodes("n1")
    jobs = [cluster.submit(), cluster.submit()]
    planned = cluster.plan()
    ((number,),) = cluster.sql("SELECT pass FROM scheduling_passes")
    assert dict(planned.named) == {"pass": number, "jobs": job_ranges(jobs), "victims": ""}
    cluster.launch()
    assert cluster.launch().named["started"] in ("", job_ranges(jobs))
    cluster.settle()
    cluster.delete(*jobs)
    assert cluster.cancel().named == {"jobs": job_ranges(jobs)}
    cluster.launch()
    assert cluster.launch().named["ended"] == job_ranges(jobs)


def test_a_lost_node_is_a_warning_once_and_then_its_jobs_are_named(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(nodes={"lost_timeout": 0.0}))
    cluster.add_nodes("n1", "n2")
    with capture_logs() as lines:
        jobs = [cluster.submit("/nodes=1"), cluster.submit("/nodes=1")]
        cluster.settle()
    assert [(line["event"], line["node"]) for line in lines] == [("node connected", "n1"), ("node connected", "n2")]
    with capture_logs() as lines:
        cluster.node("n1").unreachable = "no route"
        cluster.nodes.lose("n1", "the cable is out")
        cluster.launch()
        cluster.reconnect("n1")
        watched = cluster.watch()
    assert {"event": "node lost", "node": "n1", "reason": "the cable is out", "log_level": "warning"} in lines
    assert [line["event"] for line in lines].count("node lost") == 1
    assert {"event": "node suspected", "node": "n1", "silent_for": 0.0, "log_level": "warning"} in lines
    (lost,) = [job for job in jobs if cluster.hosts(job)[0] == "n1"]
    assert watched.named == {"jobs_lost": str(lost)}
    cluster.node("n1").unreachable = ""
    with capture_logs() as lines:
        cluster.reconnect("n1")
        cluster.settle()
    assert ("node is back", "n1") in [(line["event"], line["node"]) for line in lines]
