"""One row that cannot be read, or of which the database refuses what is written, stops nobody else."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from oarpy.modules.accounting import Accounting
from oarpy.modules.loop.module import run
from oarpy.scheduler.decide import decide
from oarpy.scheduler.snapshot import Snapshot
from tests.harness.hand_written import Connection, one
from tests.harness.small_cluster import SETTINGS, SmallCluster
from tests.harness.waiting import until

pytestmark = [pytest.mark.db, pytest.mark.oldest]

REFUSE = """
    CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'not this one';
    END $$;
    CREATE TRIGGER refused BEFORE UPDATE OF state, accounted ON jobs FOR EACH ROW
        WHEN (NEW.job_name = 'bad')
        EXECUTE FUNCTION refused();
"""
SLOW = """
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_sleep(0.6);
        RETURN NEW;
    END $$;
    CREATE CONSTRAINT TRIGGER slow AFTER UPDATE OF state ON jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (NEW.job_name = 'good')
        EXECUTE FUNCTION slow();
"""


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    """Two nodes of two cores."""
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2")
    made.launch()
    return made


def reserve(cluster: SmallCluster, request: str = "/core=1") -> int:
    """An accepted reservation of tomorrow."""
    job = cluster.submit(request, reservation=cluster.now().replace(year=cluster.now().year + 1))
    cluster.plan()
    assert cluster.job(job, "reservation_state") == "Scheduled"
    return job


@pytest.mark.parametrize("state", ["Hold", "Waiting"])
def test_resources_assigned_to_a_job_that_holds_none(cluster: SmallCluster, state: str) -> None:
    stray = cluster.submit("/core=4")
    if state == "Hold":
        cluster.sql("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", stray)
    cluster.sql(
        "INSERT INTO assigned_resources (job_id, resource_id, during)"
        " VALUES (%s, 1, tstzmultirange(tstzrange(now(), NULL)))",
        stray,
    )
    others = cluster.submit_array(4)
    cluster.plan()
    # the start that was refused showed what is in the way
    cluster.plan()
    until(lambda: cluster.plan() and cluster.states(others).count("toLaunch") == 3, "three resources are free")
    assert len(cluster.held()) == 4
    waiting = [job for job in others if cluster.state(job) == "Waiting"]
    until(lambda: cluster.plan() and cluster.verdict(waiting[0])[0] == "resources_busy", "told what it waits for")
    cluster.sql("DELETE FROM assigned_resources WHERE job_id = %s", stray)
    until(lambda: cluster.plan() and cluster.state(waiting[0]) == "toLaunch", "it starts when the row is gone")


def test_a_reservation_without_what_it_was_accepted_for(cluster: SmallCluster) -> None:
    job = reserve(cluster)
    cluster.sql("UPDATE jobs SET moldable_id = NULL WHERE job_id = %s", job)
    other = cluster.submit("/core=4,walltime=1:0:0")
    cluster.plan()
    assert cluster.state(other) == "toLaunch"
    verdict, reason = cluster.verdict(job)
    assert (verdict, "alternative" in reason) == ("never", True)
    assert cluster.events(job).count("SCHEDULER_SET_ASIDE") == 1
    cluster.plan()
    assert (cluster.state(job), cluster.events(job).count("SCHEDULER_SET_ASIDE")) == ("Waiting", 1)


def test_resources_reserved_for_a_job_that_is_no_reservation(cluster: SmallCluster) -> None:
    job = cluster.submit("/core=1")
    cluster.sql(
        "INSERT INTO reserved_resources (job_id, resource_id, during) VALUES (%s, 1, '[2500-01-01,2500-01-02)')", job
    )
    other = cluster.submit("/core=4")
    cluster.plan()
    assert cluster.states([job, other]) == ["Waiting", "toLaunch"]
    assert cluster.verdict(job)[0] == "never"


def test_reserved_resources_that_are_not_those_of_their_reservation(cluster: SmallCluster) -> None:
    """What no pass would read refuses a new reservation once; then it is seen, and the next one gets another place."""
    stray = reserve(cluster, "/core=1")
    cluster.sql(
        "UPDATE reserved_resources SET during = tstzrange(lower(during) + '2 days', upper(during) + '2 days')"
        " WHERE job_id = %s",
        stray,
    )
    start = one(cluster.connection, "SELECT lower(during) FROM reserved_resources")
    job = cluster.submit("/core=3", reservation=start)
    until(lambda: cluster.plan() and cluster.job(job, "reservation_state") == "Scheduled", "three others are free")


def test_a_start_that_the_database_refuses(cluster: SmallCluster) -> None:
    cluster.connection.execute(REFUSE)
    bad, good = cluster.submit(name="bad"), cluster.submit_array(3)
    done = cluster.plan()
    assert cluster.states([bad, *good]) == ["Waiting", "toLaunch", "toLaunch", "toLaunch"]
    assert (done.word, done.wake_at is not None) == ("started 3", True)
    assert cluster.events(bad) == ["SET_ASIDE"]
    verdict, reason = cluster.verdict(bad)
    assert (verdict, "not this one" in reason) == ("never", True)
    later = cluster.submit()
    assert cluster.plan().word == "started 1"
    assert (cluster.state(later), cluster.events(bad)) == ("toLaunch", ["SET_ASIDE"])
    cluster.connection.execute("DROP FUNCTION refused CASCADE")
    cluster.delete(*good)
    cluster.cancel()
    cluster.cancel()
    until(lambda: cluster.plan() and cluster.state(bad) == "toLaunch", "it is tried again")


def test_a_kill_that_the_database_refuses(cluster: SmallCluster) -> None:
    cluster.connection.execute(REFUSE)
    bad, good = cluster.submit(name="bad"), cluster.submit_array(3)
    cluster.delete(bad, *good)
    cluster.cancel()
    assert cluster.states([bad, *good]) == ["Waiting", "Error", "Error", "Error"]
    more = cluster.submit()
    cluster.delete(more)
    cluster.cancel()
    assert cluster.state(more) == "Error"


@pytest.mark.parametrize("besides", ["", SLOW], ids=["quick", "slow"])
def test_an_end_that_the_database_refuses_is_recorded_later(cluster: SmallCluster, besides: str) -> None:
    """However slow the database is: the first wait of the refused job (0.5 s) may be over before the round is."""
    bad, good = cluster.submit(name="bad"), cluster.submit(name="good")
    cluster.settle()
    assert cluster.states([bad, good]) == ["Running", "Running"]
    cluster.connection.execute(REFUSE + besides)
    cluster.end(bad)
    cluster.end(good)
    cluster.launch()
    assert cluster.states([bad, good]) == ["Running", "Terminated"]
    cluster.connection.execute("DROP FUNCTION refused CASCADE")
    until(lambda: cluster.launch() and cluster.state(bad) == "Terminated", "the node still knows of it")


def test_a_job_that_may_not_wait_again(cluster: SmallCluster) -> None:
    """However a row came to be: what is written of the others is written."""
    bad, good = cluster.submit(name="bad"), cluster.submit()
    cluster.settle()
    cluster.connection.execute(REFUSE)
    with cluster.connection.transaction():
        cluster.sql("SET LOCAL session_replication_role = replica")
        cluster.sql(
            "UPDATE jobs SET state = 'Finishing', final_state = 'Waiting', started_at = NULL WHERE job_id = %s", bad
        )
    cluster.end(good)
    later = cluster.submit()
    cluster.settle()
    assert cluster.states([bad, good, later]) == ["Finishing", "Terminated", "Running"]
    assert "SET_ASIDE" in cluster.events(bad)
    cluster.connection.execute("DROP FUNCTION refused CASCADE")
    until(lambda: cluster.launch() and cluster.state(bad) == "Waiting", "it is tried again")


def test_a_job_that_nobody_may_take_back_from_a_node(cluster: SmallCluster) -> None:
    bad, good = cluster.submit(name="bad"), cluster.submit()
    cluster.plan()
    cluster.connection.execute(REFUSE)
    cluster.sql("UPDATE resources SET state = 'Absent'")
    run(cluster.monitor, cluster.connection, cluster.now())
    assert cluster.states([bad, good]) == ["toLaunch", "Waiting"]
    cluster.connection.execute("DROP FUNCTION refused CASCADE")
    until(
        lambda: run(cluster.monitor, cluster.connection, cluster.now()) and cluster.state(bad) == "Waiting",
        "it is tried again",
    )


def test_a_job_whose_accounting_is_refused(cluster: SmallCluster) -> None:
    bad, good = cluster.submit(name="bad"), cluster.submit()
    cluster.settle()
    cluster.end(bad)
    cluster.end(good)
    cluster.settle()
    cluster.connection.execute(REFUSE)
    run(Accounting(SETTINGS), cluster.connection, cluster.now())
    assert [cluster.job(job, "accounted") for job in (bad, good)] == [False, True]


def test_a_job_that_repeats_itself_ends(cluster: SmallCluster) -> None:
    job, good = cluster.submit(types=("idempotent",)), cluster.submit()
    cluster.settle()
    cluster.sql("UPDATE jobs SET resubmit_of = job_id WHERE job_id = %s", job)
    cluster.sql("INSERT INTO event_logs (type, job_id) VALUES ('RESUBMIT_JOB_AUTOMATICALLY', %s)", job)
    cluster.sql("SET statement_timeout = '20s'")
    cluster.end(job)
    cluster.end(good)
    cluster.settle()
    assert cluster.states([job, good]) == ["Terminated", "Terminated"]


def test_jobs_that_nothing_can_be_decided_about(cluster: SmallCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the planner trips over: it is found by leaving jobs out, and the others are placed."""

    def trips(snapshot: Snapshot, *rest: object) -> object:
        if any(job.name == "bad" and not job.fault for job in snapshot.waiting):
            raise ZeroDivisionError("too much")
        return decide(snapshot, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("oarpy.modules.metascheduler.metascheduler.decide", trips)
    first, good, second = cluster.submit(name="bad"), cluster.submit(), cluster.submit(name="bad")
    cluster.plan()
    assert cluster.states([first, good, second]) == ["Waiting", "toLaunch", "Waiting"]
    assert cluster.verdict(first)[0] == "never"
    assert "ZeroDivisionError: too much" in cluster.verdict(second)[1]
    kept = "SELECT verdict || ' ' || queue_name FROM verdict_changes WHERE job_id = %s"
    assert one(cluster.connection, kept, first) == "never default"
    later = cluster.submit()
    cluster.plan()
    assert cluster.state(later) == "toLaunch"


def test_what_names_no_job_is_raised(cluster: SmallCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def trips(snapshot: Snapshot, *rest: object) -> object:
        raise ZeroDivisionError(replace(snapshot).now)

    cluster.submit()
    monkeypatch.setattr("oarpy.modules.metascheduler.metascheduler.decide", trips)
    with pytest.raises(ZeroDivisionError):
        cluster.plan()


def test_a_lost_connection_is_no_refusal(cluster: SmallCluster) -> None:
    cluster.submit()
    cluster.connection.close()
    with pytest.raises(psycopg.OperationalError):
        cluster.plan()
