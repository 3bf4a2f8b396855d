"""Scheduling passes on the database: what starts, what waits and why, and that changes by hand count."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy.cluster_state import array_tails
from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.cluster_state.snapshot_reader import Reading
from oarpy.model.dependency import Dependency, Outcome
from oarpy.model.reasons import NO_REASON
from oarpy.modules.loop.module import run
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.scheduler.memory import Memory
from oarpy.simulation.scenarios.scenario import run_plan
from oarpy.store.passes import decisions
from tests.harness.small_cluster import Connection, SmallCluster, with_settings
from tests.harness.waiting import DEADLINE
from tests.harness.wrong_rows import wrong_rows

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2")
    return made


def test_every_waiting_job_has_a_verdict_after_a_pass(cluster: SmallCluster) -> None:
    running = cluster.submit("/nodes=2,walltime=1:0:0")
    cluster.settle()
    waiting = cluster.submit("/nodes=1,walltime=0:30:0")
    held = cluster.submit(hold=True)
    never = cluster.submit("{mem > 3}/core=1")
    impossible = cluster.submit("/nodes=3")
    dependent = cluster.submit(dependencies=(Dependency(waiting),))
    cluster.plan()
    assert cluster.sql("SELECT job_id FROM gantt_predictions ORDER BY 1") == [
        (job,) for job in (waiting, held, never, impossible, dependent)
    ]
    assert cluster.verdict(waiting)[0] == "resources_busy"
    assert str(running) in cluster.verdict(waiting)[1]
    assert cluster.verdict(held)[0] == "held"
    assert cluster.verdict(never)[0] == "never"
    assert cluster.verdict(impossible)[0] == "never"
    # after the running job and the security time; the dependant after that
    (first, second) = cluster.sql(
        "SELECT extract(epoch FROM p.start_time - (SELECT min(lower(during)) FROM assigned_resources"
        " WHERE job_id = %s))::float8 FROM gantt_predictions p WHERE p.job_id = ANY(%s) ORDER BY p.job_id",
        running,
        [waiting, dependent],
    )
    assert first[0] == pytest.approx(3601, abs=5)
    assert second[0] == pytest.approx(3601 + 1801, abs=5)


def test_a_pass_counts_and_says_how_many_jobs_it_looked_at(cluster: SmallCluster) -> None:
    cluster.submit("/nodes=3")
    cluster.plan()
    cluster.plan()
    assert cluster.sql("SELECT pass, waiting FROM scheduling_passes") == [(2, 1)]


def test_the_alternative_that_ends_first_is_chosen(cluster: SmallCluster) -> None:
    cluster.submit("/nodes=1,walltime=4:0:0")
    cluster.settle()
    job = cluster.submit("/nodes=2,walltime=0:10:0", "/nodes=1,walltime=0:30:0")
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert cluster.hosts(job) == ["n2", "n2"]
    assert cluster.job(job, "walltime").total_seconds() == 1800


def test_the_members_of_an_array_start_as_there_is_room(cluster: SmallCluster) -> None:
    jobs = cluster.submit_array(6)
    cluster.settle()
    assert cluster.states(jobs) == ["Running"] * 4 + ["Waiting"] * 2
    cluster.end(jobs[1])
    cluster.settle()
    assert cluster.states(jobs) == ["Running", "Terminated", "Running", "Running", "Running", "Waiting"]
    assert sorted(cluster.held().values()) == sorted(jobs[index] for index in (0, 2, 3, 4))


def test_a_small_job_goes_ahead_where_it_delays_nobody(cluster: SmallCluster) -> None:
    cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    large = cluster.submit("/nodes=2,walltime=1:0:0")
    short = cluster.submit("/nodes=1,walltime=0:30:0")
    long = cluster.submit("/nodes=1,walltime=2:0:0")
    cluster.settle()
    assert cluster.states([large, short, long]) == ["Waiting", "Running", "Waiting"]
    assert cluster.predicted(large) == pytest.approx(3601, abs=5)
    assert cluster.predicted(long) == pytest.approx(7202, abs=5)


def test_a_job_that_should_be_over_still_holds(cluster: SmallCluster) -> None:
    late = cluster.submit("/nodes=2,walltime=0:1:0")
    cluster.settle()
    next_one = cluster.submit("/nodes=1")
    cluster.offset = 3600
    cluster.plan()
    assert cluster.state(next_one) == "Waiting"
    assert 0 < (cluster.predicted(next_one) or 0) < 60
    assert set(cluster.held().values()) == {late}
    cluster.end(late)
    cluster.settle()
    assert cluster.state(next_one) == "Running"


def test_what_was_released_since_the_pass_began_can_be_given_away_in_it(cluster: SmallCluster, dsn: str) -> None:
    first = cluster.submit("/nodes=2")
    cluster.settle()
    second = cluster.submit("/nodes=2")
    with psycopg.connect(dsn, autocommit=True) as other, cluster.connection.transaction():
        cluster.connection.execute("SELECT now()")
        cluster.end(first)
        while cluster.state(first) != "Terminated":
            cluster.launcher_on(other)
        cluster.plan()
    assert cluster.state(second) == "toLaunch"


def test_a_resource_that_somebody_else_gave_away_is_not_given_again(cluster: SmallCluster) -> None:
    first, second = cluster.submit("/nodes=2"), cluster.submit("/nodes=2")
    cluster.settle()
    (moldable,) = cluster.sql("SELECT moldable_id FROM moldable_descriptions ORDER BY 1 DESC LIMIT 1")[0]
    with pytest.raises(psycopg.errors.ExclusionViolation):
        decisions.start(cluster.connection, [decisions.StartRow(second, moldable, 60, [1, 2])])
    assert cluster.state(second) == "Waiting"
    assert set(cluster.held().values()) == {first}


def test_predictions_survive_a_pass_that_fails(cluster: SmallCluster) -> None:
    """What was not committed must be written by the next pass."""
    cluster.submit("/nodes=2")
    cluster.settle()
    cluster.sql("CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$")
    cluster.sql("CREATE TRIGGER fail AFTER UPDATE ON scheduling_passes FOR EACH ROW EXECUTE FUNCTION fail()")
    job = cluster.submit()
    with pytest.raises(psycopg.errors.RaiseException):
        cluster.plan()
    cluster.sql("DROP TRIGGER fail ON scheduling_passes")
    cluster.plan()
    assert cluster.verdict(job)[0] == "resources_busy"


# Deleting and holding while the pass runs


@pytest.mark.parametrize("restarted", [False, True], ids=["by the next pass", "by another meta-scheduler"])
def test_a_prediction_that_came_too_late_to_end_with_its_job_is_removed(
    cluster: SmallCluster, dsn: str, restarted: bool
) -> None:
    cluster.submit("/nodes=2")
    cluster.settle()
    job = cluster.submit("/nodes=2")
    with psycopg.connect(dsn, autocommit=True) as other, cluster.connection.transaction():
        cluster.plan()
        other.execute("INSERT INTO kill_requests (job_id, requested_by) VALUES (%s, 'ann')", [job])
        run(cluster.canceller, other, cluster.now())
    assert cluster.state(job) == "Error"
    if restarted:
        cluster.scheduler = Metascheduler(cluster.settings)
    cluster.plan()
    assert cluster.sql("SELECT * FROM gantt_predictions WHERE job_id = %s", job) == []
    assert wrong_rows(dsn) == ()


def test_a_job_deleted_since_it_was_read_does_not_start(cluster: SmallCluster) -> None:
    job = cluster.submit()
    reading = cluster.scheduler._reader.read(cluster.connection, int(cluster.now().timestamp()))
    assert job in [one.id for one in reading.snapshot.waiting]
    cluster.delete(job)
    (moldable,) = reading.requests[job].moldables
    assert decisions.start(cluster.connection, [decisions.StartRow(job, moldable, 60, [1])]) == []
    assert cluster.held() == {}
    cluster.settle()
    assert cluster.path(job) == ["Waiting", "Error"]


def test_a_job_held_since_it_was_read_does_not_start(cluster: SmallCluster) -> None:
    job = cluster.submit()
    (moldable,) = cluster.sql("SELECT moldable_id FROM moldable_descriptions")[0]
    cluster.sql("UPDATE jobs SET state = 'Hold'")
    assert decisions.start(cluster.connection, [decisions.StartRow(job, moldable, 60, [1])]) == []
    assert cluster.held() == {}


def test_a_job_that_asks_for_something_else_since_it_was_read_is_left_to_the_next_pass(cluster: SmallCluster) -> None:
    job, other = cluster.submit(), cluster.submit()
    moldables = dict(
        cluster.sql("SELECT job_id, m.moldable_id FROM jobs JOIN moldable_descriptions m USING (submission_id)")
    )
    cluster.sql("DELETE FROM moldable_descriptions WHERE moldable_id = %s", moldables[job])
    starts = [decisions.StartRow(one, moldables[one], 60, [number]) for number, one in enumerate((job, other), 1)]
    foretold = [
        decisions.Prediction(one, "starts", NO_REASON, moldables[one], 1.0, 2.0, "{[1,1]}") for one in (job, other)
    ]
    decisions.predict(cluster.connection, foretold)
    assert [row[0] for row in cluster.sql("SELECT job_id FROM gantt_predictions")] == [other]
    assert decisions.start(cluster.connection, starts) == [other]
    assert cluster.held() == {2: other}


def test_a_job_deleted_just_after_it_was_placed_never_runs(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.launch()
    cluster.plan()
    cluster.delete(job)
    cluster.settle()
    assert cluster.path(job) == ["Waiting", "toLaunch", "toError", "Error"]
    assert cluster.node("n1").starts == []
    assert cluster.held() == {}


def test_a_held_job_waits_until_it_is_resumed(cluster: SmallCluster) -> None:
    job = cluster.submit(hold=True)
    cluster.settle()
    assert cluster.state(job) == "Hold"
    cluster.sql("UPDATE jobs SET state = 'Waiting'")
    cluster.settle()
    assert cluster.state(job) == "Running"


# Changes by hand


def test_a_job_moved_to_another_queue_is_planned_there(cluster: SmallCluster) -> None:
    cluster.submit("/nodes=2")
    cluster.settle()
    first, second = cluster.submit("/nodes=2"), cluster.submit("/nodes=2")
    cluster.plan()
    assert cluster.predicted(first) == pytest.approx(3601, abs=5)
    assert cluster.predicted(second) == pytest.approx(7202, abs=5)
    cluster.sql("UPDATE jobs SET queue_name = 'admin' WHERE job_id = %s", second)
    cluster.plan()
    assert cluster.predicted(second) == pytest.approx(3601, abs=5)
    assert cluster.predicted(first) == pytest.approx(7202, abs=5)


def test_jobs_of_a_stopped_queue_wait_and_say_so(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.sql("UPDATE queues SET active = false WHERE queue_name = 'default'")
    cluster.settle()
    assert cluster.state(job) == "Waiting"
    assert cluster.verdict(job) == ("held", "queue 'default' is not active")
    cluster.sql("UPDATE queues SET active = true")
    cluster.settle()
    assert cluster.state(job) == "Running"


def test_a_filter_that_became_wrong_stops_its_job_alone(cluster: SmallCluster) -> None:
    cluster.sql("ALTER TABLE resources ADD mem integer")
    cluster.sql("INSERT INTO resource_properties VALUES ('mem', 'integer')")
    broken = cluster.submit("{mem > 3}/core=1")
    good = cluster.submit()
    with cluster.connection.transaction():
        cluster.sql("DELETE FROM resource_properties WHERE name = 'mem'")
        cluster.sql("ALTER TABLE resources DROP mem")
    cluster.settle()
    assert cluster.states([broken, good]) == ["Waiting", "Running"]
    assert cluster.verdict(broken)[0] == "never"
    assert "mem" in cluster.verdict(broken)[1]


def test_resources_set_absent_by_hand_are_not_used_and_their_jobs_end(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1")
    cluster.settle()
    assert cluster.hosts(job) == ["n1", "n1"]
    cluster.sql("UPDATE resources SET state = 'Absent' WHERE network_address = 'n1'")
    other = cluster.submit("/nodes=2")
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: n1 set Absent")
    assert cluster.verdict(other)[0] == "resources_down"
    cluster.sql("UPDATE resources SET state = 'Alive'")
    cluster.settle()
    assert cluster.state(other) == "Running"


# Best-effort jobs


def test_best_effort_jobs_make_room_in_two_steps(cluster: SmallCluster) -> None:
    cheap = cluster.submit_array(4, queue="besteffort", types=("besteffort",))
    cluster.settle()
    assert cluster.states(cheap) == ["Running"] * 4
    job = cluster.submit("/nodes=1")
    cluster.plan()
    assert cluster.state(job) == "Waiting"
    verdict, reason = cluster.verdict(job)
    assert verdict == "resources_busy"
    assert "best-effort" in reason
    killed = {row[0] for row in cluster.sql("SELECT job_id FROM kill_requests WHERE reason = 'BESTEFFORT_KILL'")}
    assert len(killed) == 2
    cluster.settle()
    assert cluster.state(job) == "Running"
    for one in cheap:
        assert cluster.state(one) == ("Error" if one in killed else "Running")
    for one in killed:
        assert cluster.events(one) == ["BESTEFFORT_KILL", "KILLED"]
        assert cluster.job(one, "message") == "killed: its resources are needed by a job that it gives way to"


def test_best_effort_jobs_do_not_delay_others_but_wait_for_them(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2,walltime=1:0:0")
    cluster.settle()
    cheap = cluster.submit("/nodes=2", queue="besteffort", types=("besteffort",))
    cluster.plan()
    assert cluster.state(job) == "Running"
    assert cluster.predicted(cheap) == pytest.approx(3601, abs=5)


def test_an_idempotent_best_effort_job_is_submitted_again_each_time_up_to_a_limit(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(jobs={"repetition_limit": 2, "resubmission_limit": 0}))
    cluster.add_nodes("n1", "n2")
    cheap = cluster.submit("/nodes=2", queue="besteffort", types=("besteffort", "idempotent"))
    follower = cluster.submit(dependencies=(Dependency(cheap),))
    cluster.settle()
    for _ in range(2):
        job = cluster.submit("/nodes=2,walltime=0:10:0")
        cluster.settle()
        assert cluster.states([cheap, job]) == ["Error", "Running"]
        ((copy,),) = cluster.sql("SELECT job_id FROM jobs WHERE resubmit_of = %s", cheap)
        assert cluster.state(copy) == "Waiting"
        assert cluster.sql("SELECT required_job_id FROM job_dependencies WHERE job_id = %s", follower) == [(copy,)]
        cluster.end(job)
        cluster.settle()
        assert cluster.state(copy) == "Running"
        cheap = copy
    cluster.submit("/nodes=2,walltime=0:10:0")
    cluster.settle()
    assert cluster.states([cheap, follower]) == ["Error", "Running"]
    assert cluster.sql("SELECT count(*) FROM jobs WHERE resubmit_of = %s", cheap) == [(0,)]


@pytest.mark.parametrize(("status", "seconds", "copies"), [(99 << 8, 61, 1), (99 << 8, 59, 0), (98 << 8, 61, 0)])
def test_exit_code_99_asks_for_another_run(cluster: SmallCluster, status: int, seconds: int, copies: int) -> None:
    job = cluster.submit("/nodes=1", types=("idempotent",))
    cluster.settle()
    cluster.sql("UPDATE jobs SET submitted_at = now() - interval '1 hour' WHERE job_id = %s", job)
    cluster.sql("UPDATE jobs SET started_at = now() - make_interval(secs => %s) WHERE job_id = %s", seconds, job)
    cluster.end(job, status)
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert cluster.sql("SELECT count(*) FROM jobs WHERE resubmit_of = %s", job) == [(copies,)]


def test_a_deleted_idempotent_job_does_not_come_back(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2", types=("idempotent",))
    cluster.settle()
    cluster.delete(job)
    cluster.cancel()
    cluster.nodes.reboot("n1")
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.state(job) == "Error"
    assert cluster.sql("SELECT count(*) FROM jobs") == [(1,)]


# Dependencies


@pytest.mark.parametrize(
    ("outcome", "status", "state"),
    [
        ("any", 0, "Running"),
        ("any", 256, "Running"),
        ("ok", 0, "Running"),
        ("ok", 256, "Waiting"),
        ("notok", 0, "Waiting"),
        ("notok", 256, "Running"),
    ],
)
def test_a_dependency_asks_for_an_outcome(cluster: SmallCluster, outcome: Outcome, status: int, state: str) -> None:
    first = cluster.submit("/nodes=1,walltime=0:10:0")
    second = cluster.submit(dependencies=(Dependency(first, outcome),))
    cluster.settle()
    assert cluster.states([first, second]) == ["Running", "Waiting"]
    assert cluster.predicted(second) == pytest.approx(601, abs=5)
    cluster.end(first, status)
    cluster.settle()
    assert cluster.state(second) == state
    if state == "Waiting":
        assert cluster.verdict(second)[0] == "dependency"


def test_a_job_that_is_being_deleted_does_not_satisfy_ok(cluster: SmallCluster) -> None:
    first = cluster.submit("/nodes=3")
    ok = cluster.submit(dependencies=(Dependency(first, "ok"),))
    notok = cluster.submit(dependencies=(Dependency(first, "notok"),))
    cluster.delete(first)
    # the canceller has not run yet
    cluster.plan()
    assert cluster.state(first) == "Waiting"
    assert cluster.states([ok, notok]) == ["Waiting", "toLaunch"]


def test_a_dependant_of_a_job_that_cannot_be_placed_is_not_placed(cluster: SmallCluster) -> None:
    first = cluster.submit("/nodes=3")
    second = cluster.submit(dependencies=(Dependency(first),))
    cluster.plan()
    assert cluster.verdict(second)[0] == "dependency"
    assert cluster.predicted(second) is None


def test_quotas_keep_jobs_waiting(cluster: SmallCluster) -> None:
    cluster.sql("INSERT INTO quotas (user_name, max_resources) VALUES ('ann', 1)")
    first, second = cluster.submit(), cluster.submit()
    other = cluster.submit(user="bob")
    cluster.settle()
    assert cluster.states([first, second, other]) == ["Running", "Waiting", "Running"]
    assert cluster.verdict(second)[0] == "quota"
    cluster.sql("DELETE FROM quotas")
    cluster.settle()
    assert cluster.state(second) == "Running"


def test_the_order_of_resources_is_configured(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"resource_order": ("cpu", "resource_id")}))
    cluster.add_nodes("n1", "n2")
    cluster.sql("UPDATE resources SET cpu = 3 - cpu")
    job = cluster.submit()
    cluster.settle()
    assert cluster.hosts(job) == ["n2"]


def test_the_message_of_a_moldable_job_tells_the_alternative_that_starts(cluster: SmallCluster) -> None:
    message = "R=4,W=1:0:0,J=B,N=x"
    ways = ("/nodes=9,walltime=1:0:0", "/nodes=1/core=1,walltime=2:30:0")
    job, plain = cluster.submit(*ways, message=message), cluster.submit("/core=1", message=message)
    cluster.plan()
    assert cluster.job(job, "message") == "R=1,W=2:30:0,J=B,N=x"
    assert cluster.job(plain, "message") == message


def test_a_recorded_pass_is_decided_again_as_it_was(connection: Connection, tmp_path: Path) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"record_passes": str(tmp_path / "passes")}))
    cluster.add_nodes("n1", "n2")
    cluster.sql("INSERT INTO quotas (user_name, max_jobs) VALUES ('bob', 1)")
    reserved = cluster.now().replace(microsecond=0) + timedelta(seconds=600)
    cluster.submit("/nodes=1,walltime=1:0:0", types=("besteffort",), queue="besteffort")
    cluster.settle()
    cluster.submit("/nodes=2,walltime=1:0:0", reservation=reserved)
    cluster.submit("{mem > 3}/core=1", "/core=2,walltime=0:5:0", user="bob")
    cluster.submit("/core=1,walltime=0:5:0", user="bob")
    cluster.settle()
    cluster.offset = 601
    cluster.settle()
    passes = sorted((tmp_path / "passes").glob("*.json"))
    out, err = io.StringIO(), io.StringIO()
    assert run_plan(list(map(str, passes)), False, out, err, orders=SiteOrders(), decisions=True) == 0
    again = [json.loads(line) for line in out.getvalue().splitlines()]
    told = [json.loads(one.with_suffix(".decided").read_text(encoding="utf-8")) for one in passes]
    assert [{"jobs": one["jobs"], "decisions": one["decisions"]} for one in again] == told
    assert any(one["decisions"]["accepted"] for one in told)
    assert any(one["decisions"]["victims"] for one in told)


def test_an_order_by_a_property_that_there_is_not_is_refused_at_the_start(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    environment = {**cluster_environment, "OARPY_SCHEDULER_RESOURCE_ORDER": "swich,resource_id"}
    command = [sys.executable, "-m", "oarpy.modules", "metascheduler"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 2
    complaint = "oarpy: scheduler.resource_order: there is no property 'swich' (oarproperty -l lists them)"
    assert done.stderr.splitlines()[-1] == complaint


def test_a_property_of_the_order_that_goes_later_stops_no_pass(connection: Connection) -> None:
    connection.execute("ALTER TABLE resources ADD COLUMN switch integer")
    connection.execute("INSERT INTO resource_properties (name, kind) VALUES ('switch', 'integer')")
    cluster = SmallCluster(connection, with_settings(scheduler={"resource_order": ("switch", "resource_id")}))
    cluster.add_nodes("n1")
    cluster.settle()
    connection.execute("ALTER TABLE resources DROP COLUMN switch")
    connection.execute("DELETE FROM resource_properties WHERE name = 'switch'")
    job = cluster.submit(command="true")
    cluster.settle()
    assert cluster.state(job) == "Terminated"


def _end_what_runs(cluster: SmallCluster) -> None:
    """Let all jobs that were given resources run and end."""
    cluster.sql("UPDATE jobs SET state = 'Launching' WHERE state = 'toLaunch'")
    cluster.sql("UPDATE jobs SET state = 'Running', started_at = now() WHERE state = 'Launching'")
    cluster.sql(
        "UPDATE jobs SET state = 'Terminated', final_state = 'Terminated', ended_at = now(), left_nothing = true"
        " WHERE state = 'Running'"
    )


@pytest.mark.parametrize("limits", [{}, {"jobs_per_user": 50}])
def test_passes_between_two_plans_of_the_whole_queue_read_the_heads_of_large_arrays(
    connection: Connection, limits: dict[str, int]
) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"security_time": 1, **limits}))
    cluster.add_nodes("n1", "n2")
    jobs = cluster.submit_array(array_tails.LEAST + 100)
    cluster.scheduler._memory = Memory(lambda: 0.0)  # the whole queue is planned once
    read = []
    reader = cluster.scheduler._reader
    reader_read = reader.read

    def count(*arguments: Any, **options: Any) -> Reading:
        reading = reader_read(*arguments, **options)
        read.append(len(reading.snapshot.waiting))
        return reading

    reader.read = count  # type: ignore[method-assign]
    for _ in range(6):
        assert cluster.plan().word == "started 4"
        _end_what_runs(cluster)
    assert read[-1] < 10
    assert cluster.states(jobs[:24]) == ["Terminated"] * 24
    # nobody but the scheduler's whole plans speaks of the others
    told = cluster.sql("SELECT count(*) FROM gantt_predictions WHERE job_id = ANY(%s)", jobs[24:])
    assert told == [(len(jobs) - 24,)]
    # a job of the head is on hold, another one is being deleted, and one of a more important queue is new
    cluster.sql("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", jobs[24])
    cluster.delete(jobs[25])
    cluster.sql("UPDATE queues SET priority = 1 WHERE queue_name = 'default'")
    cluster.sql("INSERT INTO queues (queue_name, priority) VALUES ('urgent', 9)")
    urgent = cluster.submit(queue="urgent")
    assert cluster.plan().word == "started 4"
    assert cluster.state(urgent) == "toLaunch"
    assert cluster.states(jobs[24:30]) == ["Hold", "Waiting", "toLaunch", "toLaunch", "toLaunch", "Waiting"]


def test_heads_of_large_arrays_that_do_not_fit_into_a_pass_take_nobodys_turn(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"jobs_per_user": 4}))
    cluster.add_nodes("n1", "n2")
    cluster.submit("/core=4")
    cluster.plan()
    jobs = cluster.submit_array(array_tails.LEAST + 100)
    cluster.scheduler._memory = Memory(lambda: 0.0)  # the whole queue is planned once
    for turn in (1, 2, 3):
        cluster.plan()
        assert cluster.scheduler._reader._limits._last == jobs[2 * turn - 1]


def test_a_small_job_behind_a_large_array_starts_where_the_array_cannot(cluster: SmallCluster) -> None:
    cluster.submit("/core=1,walltime=10:0:0")
    cluster.submit_array(array_tails.LEAST + 100, "/core=2,walltime=0:10:0")
    small = cluster.submit("/core=1,walltime=0:5:0")
    for _ in range(3):
        cluster.plan()
        if cluster.state(small) != "Waiting":
            break
        _end_what_runs(cluster)
    assert cluster.state(small) != "Waiting"


def test_what_depends_on_the_last_member_of_a_large_array_waits_for_it(cluster: SmallCluster) -> None:
    jobs = cluster.submit_array(array_tails.LEAST + 100)
    cluster.scheduler._memory = Memory(lambda: 0.0)  # the whole queue is planned once
    for _ in range(4):
        cluster.plan()
        _end_what_runs(cluster)
    assert cluster.scheduler._tails.jobs > 0
    dependant = cluster.submit(queue="admin", dependencies=(Dependency(jobs[-1], "ok"),))
    failed = cluster.submit(queue="admin", dependencies=(Dependency(jobs[-1], "notok"),))
    for _ in range(2):
        assert cluster.plan().word == "started 4"
        _end_what_runs(cluster)
    assert cluster.scheduler._tails.jobs > 0
    assert cluster.states([dependant, failed]) == ["Waiting", "Waiting"]
    assert cluster.sql("SELECT verdict FROM gantt_predictions WHERE job_id = %s", failed) == []
