"""The canceller: kill requests of anybody, for jobs in any state."""

from __future__ import annotations

import re

import pytest

from oarpy.cluster_state.stored_jobs import StoredHolder
from oarpy.store.jobs import job_listing, kill_requests
from oarpy.store.jobs.scope import JobScope
from oarpy.store.passes import snapshot_rows
from oarpy.wire.messages import Kill, Signal
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1")
    return made


@pytest.mark.parametrize("hold", [False, True])
def test_a_job_that_waits_ends_at_once(cluster: SmallCluster, hold: bool) -> None:
    job = cluster.submit(hold=hold)
    cluster.delete(job)
    cluster.cancel()
    assert cluster.path(job) == ["Hold" if hold else "Waiting", "Error"]
    assert cluster.job(job, "message") == "killed: oardel"
    assert cluster.sql("SELECT state FROM kill_requests") == [("done",)]


def test_a_running_job_is_left_to_the_launcher(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.delete(job)
    cluster.cancel()
    assert cluster.state(job) == "Running"
    assert cluster.sql("SELECT state FROM kill_requests") == [("decided",)]
    cluster.settle()
    assert cluster.path(job)[-3:] == ["Running", "Finishing", "Error"]
    assert len(cluster.sent(Kill)) == 1


def test_a_request_written_by_hand_says_why(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.sql("INSERT INTO kill_requests (job_id, reason) VALUES (%s, 'the node is on fire')", job)
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: the node is on fire")


def test_a_request_for_a_job_that_is_over_is_done(cluster: SmallCluster) -> None:
    job = cluster.submit(command="true")
    cluster.settle()
    cluster.delete(job)
    cluster.cancel()
    assert cluster.state(job) == "Terminated"
    assert cluster.sql("SELECT state FROM kill_requests") == [("done",)]


def test_many_jobs_end_like_one(cluster: SmallCluster) -> None:
    jobs = cluster.submit_array(100)  # more than those for which the database keeps its plans
    for some in (jobs[:1], jobs[1:-1], jobs[-1:]):
        cluster.delete(*some)
        cluster.cancel()
        assert {tuple(cluster.path(job)) for job in some} == {("Waiting", "Error")}
    assert cluster.sql("SELECT DISTINCT state FROM kill_requests") == [("done",)]
    assert cluster.sql("SELECT count(*) FROM job_state_logs WHERE upper_inf(during) AND state = 'Waiting'") == [(0,)]


def test_a_thousand_waiting_jobs_end_in_one_run(cluster: SmallCluster) -> None:
    jobs = cluster.submit_array(1000, "/nodes=3")
    cluster.delete(*jobs)
    assert cluster.cancel().word == "cancelled 1000"
    assert cluster.sql("SELECT DISTINCT state FROM jobs") == [("Error",)]


def test_nothing_asked_nothing_done(cluster: SmallCluster) -> None:
    cluster.submit()
    assert cluster.cancel().word == "nothing"


def submit_cheap(cluster: SmallCluster, *types: str) -> int:
    return cluster.submit(
        "/nodes=1", queue="besteffort", types=("besteffort", *types), checkpoint=30, checkpoint_signal=10
    )


def test_a_best_effort_job_is_asked_for_its_checkpoint_before_it_is_cancelled(cluster: SmallCluster) -> None:
    cheap = submit_cheap(cluster)
    cluster.settle()
    job = cluster.submit("/nodes=1")
    cluster.settle()
    assert cluster.states([cheap, job]) == ["Running", "Waiting"]
    assert [command for _, command in cluster.sent(Signal)] == [Signal((cluster.key(cheap),), 10)]
    assert cluster.events(cheap) == ["BESTEFFORT_KILL", "CHECKPOINT", "SIGNAL_10"]
    wake_at = cluster.cancel().wake_at
    assert wake_at == pytest.approx(cluster.now().timestamp() + 30, abs=5)
    (start,) = cluster.sql("SELECT extract(epoch FROM start_time)::float8 FROM gantt_predictions")
    assert start == (pytest.approx(wake_at, abs=2),)
    cluster.offset = 25
    cluster.settle()
    assert cluster.state(cheap) == "Running"
    ((start,),) = cluster.sql("SELECT extract(epoch FROM start_time)::float8 FROM gantt_predictions")
    assert start == pytest.approx(wake_at, abs=2)
    cluster.offset = 31
    cluster.settle()
    assert cluster.states([cheap, job]) == ["Error", "Running"]
    assert len(cluster.sent(Signal)) == 1


def test_one_that_ends_after_its_checkpoint_makes_room_at_once(cluster: SmallCluster) -> None:
    cheap = submit_cheap(cluster)
    cluster.settle()
    job = cluster.submit("/nodes=1")
    cluster.settle()
    cluster.end(cheap)
    cluster.settle()
    assert cluster.states([cheap, job]) == ["Terminated", "Running"]


def test_a_cancelled_idempotent_job_is_submitted_again(cluster: SmallCluster) -> None:
    cheap = submit_cheap(cluster, "idempotent")
    cluster.settle()
    job = cluster.submit("/nodes=1", command="true")
    cluster.settle()
    cluster.offset = 31
    cluster.settle()
    assert cluster.states([cheap, job]) == ["Error", "Terminated"]
    ((copy, types, checkpoint),) = cluster.sql(
        "SELECT job_id, types, extract(epoch FROM checkpoint)::int FROM jobs WHERE resubmit_of = %s", cheap
    )
    assert (cluster.state(copy), types, checkpoint) == ("Running", ["besteffort", "idempotent"], 30)


def test_whoever_deletes_a_job_that_writes_its_checkpoint_does_not_wait(cluster: SmallCluster) -> None:
    cheap = submit_cheap(cluster, "idempotent")
    cluster.settle()
    cluster.submit("/nodes=1")
    cluster.settle()
    kill_requests.ask(cluster.connection, [cheap], "ann", "oardel")
    cluster.settle()
    assert (cluster.state(cheap), cluster.job(cheap, "message")) == ("Error", "killed: oardel")
    assert cluster.sql("SELECT count(*) FROM jobs WHERE resubmit_of IS NOT NULL") == [(0,)]


@pytest.mark.parametrize("decided", [False, True])
def test_who_deletes_a_job_that_gives_way_does_not_want_it_again(cluster: SmallCluster, decided: bool) -> None:
    cheap = cluster.submit("/nodes=1", queue="besteffort", types=("besteffort", "idempotent"))
    cluster.settle()
    cluster.submit("/nodes=1")
    cluster.plan()
    if decided:
        cluster.cancel()
    kill_requests.ask(cluster.connection, [cheap], "ann", "oardel")
    cluster.settle()
    assert cluster.state(cheap) == "Error"
    assert cluster.job(cheap, "message") == (
        "killed: its resources are needed by a job that it gives way to" if decided else "killed: oardel"
    )
    assert cluster.sql("SELECT count(*) FROM jobs WHERE resubmit_of IS NOT NULL") == [(0,)]


def test_a_young_best_effort_job_is_left_alone(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"besteffort_minimum_life": 300}))
    cluster.add_nodes("n1")
    cheap = cluster.submit("/nodes=1", queue="besteffort", types=("besteffort",))
    cluster.settle()
    job = cluster.submit("/nodes=1")
    cluster.settle()
    assert cluster.states([cheap, job]) == ["Running", "Waiting"]
    assert cluster.predicted(job) == pytest.approx(300, abs=5)
    cluster.offset = 302
    cluster.settle()
    assert cluster.states([cheap, job]) == ["Error", "Running"]


@pytest.mark.parametrize("inner_too", [False, True])
def test_inner_jobs_go_with_their_container_where_the_site_says_so(connection: Connection, inner_too: bool) -> None:
    cluster = SmallCluster(connection, with_settings(jobs={"kill_inner_jobs": inner_too}))
    cluster.add_nodes("n1", "n2", "n3")
    one, piece = (cluster.submit("/nodes=1,walltime=9", types=(kind,)) for kind in ("container", "container=lab"))
    cluster.settle()
    inside = [cluster.submit("/resource_id=1", types=(f"inner={name}",)) for name in (one, "lab")]
    other = cluster.submit("/resource_id=1")
    cluster.settle()
    waiting = cluster.submit("/nodes=1", types=(f"inner={one}",))
    cluster.settle()
    cluster.delete(one)
    cluster.settle()
    assert {job: cluster.state(job) for job in (one, piece, *inside, other, waiting)} == {
        one: "Error",
        piece: "Running",
        inside[0]: "Error" if inner_too else "Running",
        inside[1]: "Running",
        other: "Running",
        waiting: "Waiting",
    }
    if inner_too:
        assert cluster.job(inside[0], "message") == f"killed: its container, job {one}, is killed"


def test_another_piece_of_the_container_keeps_its_inner_jobs_alive(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(jobs={"kill_inner_jobs": True}))
    cluster.add_nodes("n1", "n2")
    pieces = [cluster.submit("/nodes=1,walltime=9", types=("container=lab",)) for _ in range(2)]
    cluster.settle()
    inside = cluster.submit("/resource_id=1", types=("inner=lab",))
    cluster.settle()
    cluster.delete(pieces[0])
    cluster.settle()
    assert cluster.state(inside) == "Running"
    cluster.delete(pieces[1])
    cluster.settle()
    assert cluster.state(inside) == "Error"


_EXPLAINED = {
    "log_min_duration": "0",
    "log_nested_statements": "on",
    "log_analyze": "on",
    "log_timing": "off",
}
_COMPARED = re.compile(r"Rows Removed by Join Filter: (\d+)")


def _explained(cluster: SmallCluster) -> list[str]:
    """Return where plans of all statements that follow are told."""
    told: list[str] = []
    cluster.connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    cluster.connection.execute("LOAD 'auto_explain'")
    for name, value in _EXPLAINED.items():
        cluster.connection.execute(f"SET auto_explain.{name} = {value}")
    cluster.connection.execute("SET client_min_messages = log")
    return told


def test_many_deletions_do_not_compare_each_job_with_each_request(cluster: SmallCluster) -> None:
    """Nearly all requests are done when PostgreSQL counts them, so it expects none to be open."""
    for _ in range(12):
        cluster.delete(cluster.submit())
        cluster.cancel()
    cluster.connection.execute("ANALYZE")
    jobs = cluster.submit_array(1000)
    cluster.delete(*jobs)
    told = _explained(cluster)
    cluster.cancel()
    assert set(cluster.states(jobs)) == {"Error"}
    assert any("UPDATE kill_requests" in text for text in told)
    assert sum(int(count) for text in told for count in _COMPARED.findall(text)) < 10 * len(jobs)


def test_many_deletions_of_running_jobs_do_not_compare_jobs_with_requests(connection: Connection) -> None:
    cluster = SmallCluster(connection)
    cluster.add_nodes("n1", cores=200)
    for _ in range(12):
        cluster.delete(cluster.submit())
        cluster.cancel()
    cluster.connection.execute("ANALYZE")
    jobs = cluster.submit_array(400)
    cluster.plan()
    cluster.sql("UPDATE jobs SET state = 'Launching' WHERE state = 'toLaunch'")
    cluster.sql("UPDATE jobs SET state = 'Running', started_at = now() WHERE state = 'Launching'")
    assert cluster.states(jobs).count("Running") == 200
    cluster.delete(*jobs)
    told = _explained(cluster)
    assert kill_requests.inside(cluster.connection, jobs) == kill_requests.ask_inside(cluster.connection) == ()
    assert len(job_listing.listing(cluster.connection, JobScope())) == len(jobs)
    assert len(snapshot_rows.holding(cluster.connection, StoredHolder)) == 200
    assert len(told) >= 4
    assert sum(int(count) for text in told for count in _COMPARED.findall(text)) < 10 * len(jobs)
