"""Advance reservations: accepted or refused at once, kept free, started on their date with what is there."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from oarpy.client.events.event_text import record
from oarpy.client.events.stream import next_batch
from oarpy.client.jobs.description import event_json
from oarpy.model.dependency import Dependency, Outcome
from oarpy.model.reasons import Reason, Why, reason_of
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.store import event_stream
from oarpy.store.events import job_events
from oarpy.wire.messages import Signal
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.kept]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, with_settings(scheduler={"reservation_wait": 30}))
    made.add_nodes("n1", "n2")
    return made


def in_seconds(cluster: SmallCluster, seconds: float) -> datetime:
    return (cluster.now() + timedelta(seconds=seconds)).replace(microsecond=0)


def reserve(cluster: SmallCluster, seconds: float, request: str = "/nodes=1,walltime=1:0:0") -> int:
    return cluster.submit(request, reservation=in_seconds(cluster, seconds))


def reserved(cluster: SmallCluster, job: int) -> list[int]:
    rows = cluster.sql("SELECT resource_id FROM reserved_resources WHERE job_id = %s ORDER BY resource_id", job)
    return [row[0] for row in rows]


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


def test_an_event_tells_programs_why_a_reservation_is_refused(cluster: SmallCluster) -> None:
    cluster.submit("/nodes=2,walltime=2:0:0")
    cluster.settle()
    begin = event_stream.begin(cluster.connection)
    job = reserve(cluster, 600)
    cluster.settle()
    (logged,) = job_events(cluster.connection, [job])[job]
    told = event_json(logged)["reason_data"]
    assert (told["kind"], told["because"]["kind"]) == ("reservation_refused", "not_free")
    assert told["because"]["at"] < told["at"]
    assert reason_of("", json.dumps(told)) == Reason(
        Why.RESERVATION_REFUSED, because=Reason(Why.NOT_FREE, at=told["because"]["at"]), at=told["at"]
    )
    seen = [record(event) for event in next_batch(cluster.connection, begin).events if event.job == job]
    (heard,) = (one for one in seen if one["kind"] == "event" and one["type"] == "RESERVATION_REFUSED")
    assert heard["reason_data"] == told


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
    cluster = SmallCluster(connection, with_settings(scheduler={"besteffort_kill_before_reservation": 120}))
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
    assert (cluster.state(cheap), cluster.job(cheap, "message")) == (
        "Error",
        "killed: its resources are needed by a job that it gives way to",
    )
    # what is over before the date may use the time until then
    assert cluster.state(brief) == "Running"
    cluster.end(brief)
    cluster.offset = 601
    cluster.settle()
    assert cluster.state(job) == "Running"


@pytest.mark.parametrize("seconds", [0, -5])
def test_a_reservation_whose_date_has_come_is_accepted_where_best_effort_jobs_run(
    cluster: SmallCluster, seconds: float
) -> None:
    cheap = cluster.submit("/nodes=2,walltime=2:0:0", queue="besteffort", types=("besteffort",))
    cluster.settle()
    job = reserve(cluster, seconds, "/nodes=2,walltime=1:0:0")
    cluster.settle()
    assert (cluster.state(cheap), cluster.job(cheap, "message")) == (
        "Error",
        "killed: its resources are needed by a job that it gives way to",
    )
    assert cluster.state(job) == "Running"
    assert cluster.path(job)[:3] == ["Waiting", "toAckReservation", "Waiting"]


@pytest.mark.parametrize(("checkpoint", "state"), [(20, "Waiting"), (40, "Error")])
def test_a_reservation_for_now_waits_for_checkpoints_no_longer_than_reservations_wait(
    cluster: SmallCluster, checkpoint: int, state: str
) -> None:
    cheap = cluster.submit("/nodes=2,walltime=2:0:0", queue="besteffort", types=("besteffort",), checkpoint=checkpoint)
    cluster.settle()
    job = reserve(cluster, 0, "/nodes=2,walltime=1:0:0")
    cluster.settle()
    assert (cluster.state(job), cluster.state(cheap)) == (state, "Running")
    cluster.offset = checkpoint + 3
    cluster.settle()
    kept = state == "Waiting"
    assert (cluster.state(job), cluster.state(cheap)) == (("Running", "Error") if kept else ("Error", "Running"))


@pytest.mark.parametrize("life", [0, 500])
def test_the_checkpoint_and_the_minimum_life_of_a_best_effort_job_count_before_a_reservation(
    connection: Connection, life: int
) -> None:
    changes = {"besteffort_kill_before_reservation": 60, "besteffort_minimum_life": life}
    cluster = SmallCluster(connection, with_settings(scheduler=changes))
    cluster.add_nodes("n1")
    cheap = cluster.submit(
        "/nodes=1,walltime=2:0:0", queue="besteffort", types=("besteffort",), checkpoint=200, checkpoint_signal=10
    )
    cluster.settle()
    job = reserve(cluster, 600, "/nodes=1,walltime=1:0:0")
    cluster.settle()
    asked = 500 if life else 340
    cluster.offset = asked - 10
    cluster.settle()
    assert cluster.sent(Signal) == []
    cluster.offset = asked + 10
    cluster.settle()
    assert [command for _, command in cluster.sent(Signal)] == [Signal((cluster.key(cheap),), 10)]
    assert cluster.state(cheap) == "Running"
    cluster.offset = asked + 215
    cluster.settle()
    assert cluster.state(cheap) == "Error"
    cluster.offset = 720
    cluster.settle()
    assert cluster.state(job) == "Running"


def test_a_reservation_that_loses_a_node_gets_another(cluster: SmallCluster) -> None:
    cluster.add_nodes("n3")
    job = reserve(cluster, 600, "/nodes=2,walltime=1:0:0")
    cluster.settle()
    other = cluster.submit("/nodes=1,walltime=2:0:0")
    cluster.settle()
    assert cluster.hosts(other) == ["n3", "n3"]
    cluster.sql("UPDATE resources SET state = 'Suspected' WHERE network_address = 'n1'")
    cluster.settle()
    # n3 is not free on the date
    assert reserved(cluster, job) == [1, 2, 3, 4]
    cluster.end(other)
    cluster.settle()
    assert reserved(cluster, job) == [3, 4, 5, 6]
    assert cluster.events(job) == ["GET_RESOURCES_BACK_FOR_RESERVATION"]
    cluster.offset = 601
    cluster.settle()
    assert (cluster.state(job), cluster.hosts(job)) == ("Running", ["n2", "n2", "n3", "n3"])


def test_a_reservation_that_lost_a_node_gets_no_other_s(cluster: SmallCluster) -> None:
    first, second = reserve(cluster, 600), reserve(cluster, 600)
    cluster.settle()
    cluster.sql("UPDATE resources SET state = 'Dead' WHERE network_address = 'n1'")
    cluster.settle()
    assert (reserved(cluster, first), reserved(cluster, second)) == ([1, 2], [3, 4])
    cluster.delete(second)
    cluster.settle()
    assert reserved(cluster, first) == [3, 4]


def test_an_inner_reservation_starts_inside_its_container(cluster: SmallCluster) -> None:
    outer = cluster.submit("/nodes=2,walltime=1:0:0", reservation=in_seconds(cluster, 600), types=("container",))
    cluster.settle()
    inner = cluster.submit("/nodes=1,walltime=0:10:0", reservation=in_seconds(cluster, 900), types=(f"inner={outer}",))
    outside = reserve(cluster, 900)
    late = cluster.submit("/nodes=1,walltime=2:0:0", reservation=in_seconds(cluster, 900), types=(f"inner={outer}",))
    cluster.settle()
    assert cluster.states([outer, inner, outside, late]) == ["Waiting", "Waiting", "Error", "Error"]
    cluster.offset = 601
    cluster.settle()
    assert cluster.states([outer, inner]) == ["Running", "Waiting"]
    cluster.offset = 901
    cluster.settle()
    assert cluster.states([outer, inner]) == ["Running", "Running"]
    assert set(cluster.hosts(inner)) < set(cluster.hosts(outer))


def test_an_inner_reservation_whose_container_is_gone_does_not_start(cluster: SmallCluster) -> None:
    outer = cluster.submit("/nodes=2,walltime=1:0:0", reservation=in_seconds(cluster, 600), types=("container",))
    cluster.settle()
    inner = cluster.submit("/nodes=1,walltime=0:10:0", reservation=in_seconds(cluster, 900), types=(f"inner={outer}",))
    cluster.settle()
    cluster.delete(outer)
    cluster.offset = 901
    cluster.settle()
    assert cluster.state(inner) == "Waiting"
    cluster.offset = 900 + 605
    cluster.settle()
    assert cluster.state(inner) == "Error"


@pytest.mark.parametrize(("outcome", "state"), [("ok", "Error"), ("any", "Running"), ("notok", "Running")])
def test_a_reservation_looks_at_its_dependencies_again_on_its_date(
    cluster: SmallCluster, outcome: Outcome, state: str
) -> None:
    first = cluster.submit("/nodes=1,walltime=0:5:0")
    cluster.settle()
    job = cluster.submit(
        "/nodes=1,walltime=1:0:0", reservation=in_seconds(cluster, 600), dependencies=(Dependency(first, outcome),)
    )
    cluster.settle()
    assert cluster.verdict(job) == ("reserved", "accepted reservation")
    cluster.offset = 601
    cluster.settle()
    # it runs longer than it should
    assert cluster.verdict(job) == ("reserved", f"reservation waits for job {first}, which it depends on")
    cluster.delete(first)
    cluster.settle()
    assert cluster.state(job) == state
    if state == "Error":
        assert cluster.job(job, "message") == (
            f"reservation given up: job {first}, which it depends on, ended without success"
        )


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
    assert cluster.events(job) == ["SCHEDULER_REDUCE_NB_NODES_FOR_RESERVATION", "REDUCE_RESERVATION_WALLTIME"]


def test_a_permissive_job_does_not_mind_the_state_of_its_resources(cluster: SmallCluster) -> None:
    types = ("noop", "state=permissive")
    later = cluster.submit("/nodes=1,walltime=0:10:0", reservation=in_seconds(cluster, 600), types=types)
    cluster.settle()
    promised = reserved(cluster, later)
    cluster.sql("UPDATE resources SET state = 'Suspected'")
    cluster.settle()
    assert reserved(cluster, later) == promised
    now = cluster.submit("/nodes=2,walltime=0:5:0", types=types)
    other = cluster.submit("/nodes=1,walltime=0:5:0", types=("noop",))
    cluster.settle()
    assert cluster.states([now, other]) == ["Running", "Waiting"]
    cluster.delete(now)
    cluster.settle()
    cluster.offset = 601
    cluster.settle()
    assert cluster.states([later, now, other]) == ["Running", "Error", "Waiting"]
    assert cluster.sql("SELECT resource_id FROM assigned_resources WHERE job_id = %s ORDER BY 1", later) == [
        (resource,) for resource in promised
    ]


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


def test_dates_that_are_whole_and_others_are_written_together(cluster: SmallCluster) -> None:
    cluster.submit("/nodes=1,walltime=1:0:0")
    first = reserve(cluster, 600)
    cluster.settle()
    waiting = cluster.submit("/nodes=2,walltime=1:0:0")
    cluster.scheduler = Metascheduler(cluster.settings)
    cluster.plan()
    assert [cluster.verdict(job)[0] for job in (first, waiting)] == ["reserved", "resources_busy"]
    cluster.add_nodes("n3")
    cluster.offset = 601
    beside = cluster.submit("/nodes=1,walltime=0:30:0")
    cluster.settle()
    assert cluster.states([first, beside]) == ["Running", "Running"]
