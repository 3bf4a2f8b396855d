"""Advance reservations: accepted or refused at once, kept free, started on their date with what is there."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.db.small_cluster import Connection, SmallCluster, with_settings

pytestmark = pytest.mark.db


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, with_settings(scheduler={"reservation_wait": 30}))
    made.add_nodes("n1", "n2")
    return made


def in_seconds(cluster: SmallCluster, seconds: float) -> datetime:
    return (cluster.now() + timedelta(seconds=seconds)).replace(microsecond=0)


def reserve(cluster: SmallCluster, seconds: float, request: str = "/nodes=1,walltime=1:0:0") -> int:
    return cluster.submit(request, reservation=in_seconds(cluster, seconds))


def test_a_reservation_is_accepted_and_starts_on_its_date(cluster: SmallCluster) -> None:
    job = reserve(cluster, 600)
    cluster.settle()
    assert cluster.path(job) == ["Waiting", "toAckReservation", "Waiting"]
    assert cluster.job(job, "reservation_state") == "Scheduled"
    assert cluster.verdict(job) == ("reserved", "accepted reservation")
    assert cluster.predicted(job) == pytest.approx(600, abs=5)
    assert cluster.sql("SELECT count(*) FROM reserved_resources") == [(2,)]
    cluster.offset = 590
    wake_at = cluster.plan().wake_at
    assert wake_at is not None
    assert wake_at <= cluster.job(job, "reservation_start").timestamp()
    assert cluster.state(job) == "Waiting"
    cluster.offset = 601
    cluster.settle()
    assert cluster.state(job) == "Running"
    # its end date is kept, so a pass that comes some seconds late leaves that much less
    assert timedelta(minutes=59) < cluster.job(job, "walltime") <= timedelta(hours=1)
    assert cluster.sql("SELECT count(*) FROM reserved_resources") == [(0,)]


def test_jobs_flow_around_an_accepted_reservation(cluster: SmallCluster) -> None:
    reserved = reserve(cluster, 600, "/nodes=2,walltime=1:0:0")
    cluster.settle()
    short = cluster.submit("/nodes=1,walltime=0:5:0")
    long = cluster.submit("/nodes=1,walltime=0:20:0")
    cluster.settle()
    assert cluster.states([short, long]) == ["Running", "Waiting"]
    assert cluster.predicted(long) == pytest.approx(600 + 3601, abs=5)
    assert cluster.verdict(long)[0] == "resources_busy"
    assert str(reserved) in cluster.verdict(long)[1]


def test_a_reservation_without_room_is_refused_with_the_reason(cluster: SmallCluster) -> None:
    cluster.submit("/nodes=2,walltime=2:0:0")
    cluster.settle()
    job = reserve(cluster, 600)
    cluster.settle()
    assert cluster.path(job) == ["Waiting", "toError", "Error"]
    assert cluster.job(job, "message").startswith("reservation refused: ")
    assert cluster.events(job) == ["RESERVATION_REFUSED"]


def test_two_reservations_do_not_get_the_same_resources(cluster: SmallCluster) -> None:
    jobs = [reserve(cluster, 600) for _ in range(3)]
    cluster.settle()
    assert cluster.states(jobs) == ["Waiting", "Waiting", "Error"]
    rows = cluster.sql("SELECT job_id, array_agg(resource_id ORDER BY resource_id) FROM reserved_resources GROUP BY 1")
    assert sorted(rows) == [(jobs[0], [1, 2]), (jobs[1], [3, 4])]


def test_a_reservation_whose_date_is_past_starts_at_once(cluster: SmallCluster) -> None:
    job = reserve(cluster, -60)
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert cluster.job(job, "reservation_state") == "Scheduled"


def test_a_reservation_whose_time_is_over_is_refused(cluster: SmallCluster) -> None:
    job = reserve(cluster, -7200)
    cluster.settle()
    assert cluster.state(job) == "Error"
    assert cluster.job(job, "message").startswith("reservation refused: ")


def test_a_deleted_reservation_frees_its_resources(cluster: SmallCluster) -> None:
    job = reserve(cluster, 600, "/nodes=2,walltime=1:0:0")
    cluster.settle()
    cluster.delete(job)
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: oardel")
    other = cluster.submit("/nodes=2,walltime=4:0:0")
    cluster.settle()
    assert cluster.state(other) == "Running"


def test_best_effort_jobs_are_cancelled_ahead_of_a_reservation(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"besteffort_kill_grace": 120}))
    cluster.add_nodes("n1", "n2")
    cheap = cluster.submit("/nodes=2,walltime=2:0:0", queue="besteffort", types=("besteffort",))
    brief = cluster.submit("/nodes=1,walltime=0:0:30", queue="besteffort", types=("besteffort",))
    cluster.settle()
    job = reserve(cluster, 600, "/nodes=2,walltime=1:0:0")
    cluster.settle()
    assert cluster.state(job) == "Waiting"
    cluster.offset = 470
    cluster.settle()
    assert cluster.state(cheap) == "Running"
    cluster.offset = 490
    cluster.settle()
    assert (cluster.state(cheap), cluster.job(cheap, "message")) == ("Error", "killed: BESTEFFORT_KILL")
    # what is over before the date may use the time until then
    assert cluster.state(brief) == "Running"
    cluster.end(brief)
    cluster.offset = 601
    cluster.settle()
    assert cluster.state(job) == "Running"


def test_a_reservation_waits_for_lost_resources_then_goes_without_them(cluster: SmallCluster) -> None:
    job = reserve(cluster, 600, "/nodes=2,walltime=1:0:0")
    cluster.settle()
    cluster.sql("UPDATE resources SET state = 'Suspected', state_by = 'monitor' WHERE network_address = 'n2'")
    cluster.node("n2").unreachable = "cannot reach node n2"
    cluster.nodes.lose("n2")
    cluster.launch()
    cluster.offset = 605
    cluster.plan()
    assert cluster.state(job) == "Waiting"
    assert cluster.verdict(job) == ("reserved", "reservation waits for 2 of its 4 resources")
    cluster.offset = 640
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert cluster.hosts(job) == ["n1", "n1"]
    # a late start keeps the end
    assert cluster.job(job, "walltime").total_seconds() == pytest.approx(3600 - 40, abs=5)


def test_a_reservation_that_never_gets_its_resources_expires(cluster: SmallCluster) -> None:
    job = reserve(cluster, 600)
    cluster.settle()
    cluster.sql("UPDATE resources SET state = 'Suspected', state_by = 'admin'")
    cluster.offset = 4000
    cluster.plan()
    assert cluster.state(job) == "Waiting"
    cluster.offset = 600 + 3600 + 5
    cluster.settle()
    assert cluster.state(job) == "Error"
    assert "expired" in cluster.job(job, "message")
    assert cluster.events(job) == ["RESERVATION_NO_NODE"]


def test_a_held_reservation_does_not_start_and_blocks_nobody_after_its_date(cluster: SmallCluster) -> None:
    job = reserve(cluster, 600, "/nodes=2,walltime=1:0:0")
    cluster.settle()
    cluster.sql("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", job)
    cluster.offset = 700
    cluster.settle()
    assert (cluster.state(job), cluster.verdict(job)) == ("Hold", ("reserved", "held"))
    cluster.offset = 600 + 3600 + 5
    other = cluster.submit("/nodes=2,walltime=2:0:0")
    cluster.settle()
    assert cluster.states([job, other]) == ["Hold", "Running"]
    cluster.sql("UPDATE jobs SET state = 'Waiting' WHERE job_id = %s", job)
    cluster.settle()
    assert cluster.state(job) == "Error"


def test_a_reservation_about_to_be_launched_on_a_lost_node_is_kept(connection: Connection) -> None:
    settings = with_settings(nodes={"lost_timeout": 0.0}, scheduler={"reservation_wait": 30})
    cluster = SmallCluster(connection, settings)
    cluster.add_nodes("n1", "n2")
    job = reserve(cluster, 600, "/nodes=2,walltime=1:0:0")
    cluster.settle()
    cluster.offset = 601
    cluster.node("n2").unreachable = "cannot reach node n2"
    cluster.nodes.lose("n2")
    cluster.launch()
    cluster.plan()
    assert cluster.state(job) == "toLaunch"
    cluster.settle()
    assert cluster.state(job) == "Waiting"
    assert cluster.verdict(job) == ("reserved", "reservation waits for 2 of its 4 resources")
    cluster.offset = 640
    cluster.settle()
    assert (cluster.state(job), cluster.hosts(job)) == ("Running", ["n1", "n1"])
