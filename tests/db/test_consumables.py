"""Amounts of consumables through the real meta-scheduler and the real database."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.errors import CheckViolation, RaiseException

from oarpy.wire.messages import Start
from tests.harness.small_cluster import Connection, SmallCluster, with_settings
from tests.harness.waiting import until
from tests.harness.wrong_rows import wrong_rows

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    """Two nodes of four cores with 8 of memory each."""
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2", cores=4)
    made.add_consumable("memory", n1=8, n2=8)
    return made


def held(cluster: SmallCluster) -> dict[str, int]:
    """What is held of memory by node."""
    return dict(cluster.sql("SELECT block, held FROM consumable_capacities WHERE consumable = 'memory' ORDER BY block"))


def amounts(cluster: SmallCluster, job: int) -> list[tuple[Any, ...]]:
    """What a job holds or held: block, amount, whether it still does."""
    return cluster.sql(
        "SELECT block, amount, upper_inf(during) FROM assigned_amounts WHERE job_id = %s ORDER BY 1", job
    )


def test_job_holds_its_amount_from_start_to_end(cluster: SmallCluster, dsn: str) -> None:
    job = cluster.submit("/network_address=2/core=1,memory=5")
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert amounts(cluster, job) == [("n1", 5, True), ("n2", 5, True)]
    assert held(cluster) == {"n1": 5, "n2": 5}
    cluster.end(job)
    cluster.settle()
    assert amounts(cluster, job) == [("n1", 5, False), ("n2", 5, False)]
    assert held(cluster) == {"n1": 0, "n2": 0}
    assert wrong_rows(dsn) == ()


def test_jobs_wait_for_what_is_left_of_it(cluster: SmallCluster) -> None:
    first, second = cluster.submit("/core=1,memory=8"), cluster.submit("/core=1,memory=8")
    third, fourth = cluster.submit("/core=1,memory=1"), cluster.submit("/core=1")
    cluster.settle()
    assert cluster.states([first, second, third, fourth]) == ["Running", "Running", "Waiting", "Running"]
    verdict, reason = cluster.verdict(third)
    assert verdict == "resources_busy"
    assert "memory: 1 asked on each network_address, 0 left on n1, 0 left on n2" in reason
    cluster.end(first)
    cluster.settle()
    assert cluster.state(third) == "Running"


def test_two_writers_at_once_never_hold_more_than_there_is(cluster: SmallCluster, dsn: str) -> None:
    """Two sessions start jobs that do not fit together, by hand: the second one waits for the first, and is refused."""
    jobs = [cluster.submit("/core=1,memory=5") for _ in range(2)]
    with ThreadPoolExecutor(1) as pool, psycopg.connect(dsn) as first, psycopg.connect(dsn) as second:
        start_by_hand(first, jobs[0], 1)
        waiting = pool.submit(start_by_hand, second, jobs[1], 2)
        try:
            wait_for_a_lock(cluster, second)
        finally:
            first.commit()
        with pytest.raises(CheckViolation, match="5 more of memory is wanted on n1, 3 is left") as refusal:
            waiting.result(30)
        assert refusal.value.diag.constraint_name == "enough_left"
    assert held(cluster) == {"n1": 5, "n2": 0}


def start_by_hand(connection: Connection, job: int, resource: int) -> None:
    """Give a waiting job one resource, as an admin in psql could."""
    connection.execute(
        "UPDATE jobs j SET state = 'toLaunch', walltime = '1 hour', moldable_id = m.moldable_id"
        " FROM moldable_descriptions m WHERE m.submission_id = j.submission_id AND j.job_id = %s",
        [job],
    )
    connection.execute(
        "INSERT INTO assigned_resources VALUES (%s, %s, tstzmultirange(tstzrange(now(), NULL)))", [job, resource]
    )


def wait_for_a_lock(cluster: SmallCluster, session: Connection) -> None:
    """Wait until a session waits for another one."""
    until = time.monotonic() + 30
    query = "SELECT pid FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
    while not cluster.sql(query, session.info.backend_pid):
        assert time.monotonic() < until, "nobody waits"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE consumable_capacities SET capacity = 4 WHERE block = 'n1'", "enough_left"),
        ("DELETE FROM consumable_capacities WHERE block = 'n1'", "jobs hold 5 of memory on n1"),
        ("DELETE FROM consumables", "jobs hold 5 of memory on n1"),
        ("UPDATE assigned_amounts SET amount = 9", "4 more of memory is wanted on n1, 3 is left"),
        (
            "UPDATE resources SET network_address = 'n2'",
            "resource 1 cannot become another one: job 1 has it",
        ),
        ("INSERT INTO assigned_amounts VALUES (1, 'memory', 'n3', 1, '[now,)')", "1 more of memory is wanted on n3"),
        ("INSERT INTO consumables VALUES ('disk', 'rack')", "violates foreign key"),
        ("INSERT INTO consumables VALUES ('walltime', 'host')", "consumables_name_check"),
        ("INSERT INTO consumable_capacities VALUES ('memory', 'n4', 0)", "consumable_capacities_capacity_check"),
    ],
)
def test_the_database_refuses(cluster: SmallCluster, statement: str, message: str) -> None:
    cluster.submit("/core=1,memory=5")
    cluster.plan()
    with pytest.raises(psycopg.IntegrityError if "cannot change" not in message else RaiseException, match=message):
        cluster.sql(statement)
    assert held(cluster) == {"n1": 5, "n2": 0}


def test_a_job_that_waits_again_gives_its_amount_back(cluster: SmallCluster) -> None:
    job = cluster.submit("/core=1,memory=5")
    cluster.plan()
    assert held(cluster) == {"n1": 5, "n2": 0}
    cluster.sql("UPDATE resources SET state = 'Dead' WHERE network_address = 'n1'")
    cluster.watch()
    assert cluster.state(job) == "Waiting"
    assert held(cluster) == {"n1": 0, "n2": 0}
    cluster.settle()
    assert amounts(cluster, job) == [("n2", 5, True)]


def test_capacity_set_by_hand_is_noticed(cluster: SmallCluster) -> None:
    job = cluster.submit("/core=1,memory=9")
    cluster.settle()
    assert cluster.verdict(job) == ("never", "memory=9 is more than any network_address has (the largest has 8)")
    cluster.sql("UPDATE consumable_capacities SET capacity = 9 WHERE block = 'n2'")
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert held(cluster) == {"n1": 0, "n2": 9}


def test_besteffort_jobs_give_way_for_an_amount(cluster: SmallCluster) -> None:
    old, young = (cluster.submit("/core=1,memory=4", queue="besteffort", types=("besteffort",)) for _ in range(2))
    elsewhere = cluster.submit("/core=1,memory=8", queue="besteffort", types=("besteffort",))
    cluster.settle()
    assert cluster.states([old, young, elsewhere]) == ["Running"] * 3
    job = cluster.submit("{core = 104}/core=1,memory=4")
    cluster.settle()
    assert cluster.states([job, old, young, elsewhere]) == ["Running", "Running", "Error", "Running"]


def test_a_reservation_keeps_its_amount_and_best_effort_leaves_it(cluster: SmallCluster) -> None:
    lazy = cluster.submit("{network_address = 'n1'}/core=1,memory=8,walltime=2:0:0", queue="besteffort")
    cluster.settle()
    date = cluster.now() + timedelta(minutes=30)
    reserved = cluster.submit(
        "{network_address = 'n1'}/core=1,memory=6,walltime=1:0:0", reservation=date.replace(microsecond=0)
    )
    cluster.settle()
    assert cluster.job(reserved, "reservation_state") == "Scheduled"
    assert cluster.state(lazy) == "Running"
    long = cluster.submit("{network_address = 'n1'}/core=1,memory=3,walltime=1:0:0")
    short = cluster.submit("{network_address = 'n1'}/core=1,memory=2,walltime=1:0:0")
    cluster.settle()
    assert cluster.states([lazy, long, short]) == ["Error", "Waiting", "Running"]
    predicted = cluster.predicted(long)
    assert predicted is not None
    assert predicted >= 5400 - 60
    cluster.offset = 1801
    cluster.settle()
    assert cluster.state(reserved) == "Running"
    assert held(cluster) == {"n1": 8, "n2": 0}


def test_best_effort_leaves_before_the_date_of_a_reservation(cluster: SmallCluster) -> None:
    date = (cluster.now() + timedelta(minutes=30)).replace(microsecond=0)
    lazy = cluster.submit("{network_address = 'n1'}/core=1,memory=8,walltime=2:0:0", queue="besteffort")
    cluster.settle()
    reserved = cluster.submit("{network_address = 'n1'}/core=1,memory=6,walltime=1:0:0", reservation=date)
    cluster.settle()
    assert cluster.states([lazy, reserved]) == ["Running", "Waiting"]
    cluster.offset = 1801
    cluster.settle()
    assert cluster.states([lazy, reserved]) == ["Error", "Running"]


def test_a_reservation_waits_for_an_amount_that_is_held_beyond_its_time(cluster: SmallCluster) -> None:
    late = cluster.submit("{network_address = 'n1'}/core=1,memory=6,walltime=0:10:0")
    cluster.settle()
    date = (cluster.now() + timedelta(minutes=30)).replace(microsecond=0)
    both = [
        cluster.submit("{network_address = 'n1'}/core=1,memory=4,walltime=1:0:0", reservation=date) for _ in range(2)
    ]
    cluster.settle()
    cluster.offset = 1801
    cluster.settle()
    assert cluster.states([late, *both]) == ["Running", "Waiting", "Waiting"]
    assert cluster.verdict(both[0]) == ("reserved", "reservation waits for 1 of its 1 resources")
    cluster.end(late)
    cluster.settle()
    assert cluster.states(both) == ["Running", "Running"]


def test_a_reservation_that_lost_its_node_moves_to_one_with_enough_left(cluster: SmallCluster) -> None:
    cluster.add_nodes("n3", cores=4)
    cluster.sql("INSERT INTO consumable_capacities VALUES ('memory', 'n3', 8)")
    cluster.submit("{network_address = 'n2'}/core=1,memory=6,walltime=2:0:0")
    cluster.settle()
    date = (cluster.now() + timedelta(minutes=30)).replace(microsecond=0)
    reserved = cluster.submit("/core=1,memory=4,walltime=1:0:0", reservation=date)
    cluster.settle()
    cluster.sql("UPDATE resources SET state = 'Dead' WHERE network_address = 'n1'")
    cluster.settle()
    cluster.offset = 1801
    cluster.settle()
    assert cluster.hosts(reserved) == ["n3"]
    assert held(cluster) == {"n1": 0, "n2": 6, "n3": 4}


def test_jobs_without_amounts_go_on_when_the_database_refuses_one(cluster: SmallCluster) -> None:
    """The planner believes that more is left than there is: the refused start costs that job alone."""
    asking, plain = cluster.submit("/core=1,memory=8"), cluster.submit("/core=1")
    cluster.sql("ALTER TABLE consumable_capacities DISABLE TRIGGER USER")
    cluster.sql("UPDATE consumable_capacities SET held = 1")
    cluster.sql("ALTER TABLE consumable_capacities ENABLE TRIGGER USER")
    done = cluster.plan()
    assert (done.word, done.wake_at is not None) == ("started 1", True)
    assert cluster.states([asking, plain]) == ["Waiting", "toLaunch"]
    assert cluster.events(asking) == ["SET_ASIDE"]
    verdict, reason = cluster.verdict(asking)
    assert (verdict, "is left" in reason) == ("never", True)
    cluster.sql("UPDATE consumable_capacities SET held = 0")
    until(lambda: cluster.plan().word == "started 1", "it is tried again")
    assert cluster.state(asking) == "toLaunch"


def test_a_node_is_told_what_a_job_holds_there(cluster: SmallCluster) -> None:
    cluster.sql("UPDATE consumables SET unit = 'bytes'")
    cluster.add_consumable("licences", level="host", n1=3, n2=3)
    cluster.submit("/network_address=2/core=1,memory=5,licences=2")
    cluster.settle()
    ((_, start),) = cluster.sent(Start)
    assert isinstance(start, Start)
    (spec,) = start.jobs
    assert spec.memory == 5
    assert spec.variables == {"OAR_AMOUNT_LICENCES": "2", "OAR_AMOUNT_MEMORY": "5"}


def test_wrong_sums_are_found(cluster: SmallCluster, dsn: str) -> None:
    cluster.submit("/core=1,memory=5")
    cluster.plan()
    cluster.sql("ALTER TABLE consumable_capacities DISABLE TRIGGER held_is_counted")
    cluster.sql("UPDATE consumable_capacities SET held = 6 WHERE block = 'n1'")
    cluster.sql("ALTER TABLE consumable_capacities ENABLE TRIGGER held_is_counted")
    (wrong,) = wrong_rows(dsn)
    said, _, mended = wrong.partition(": ")
    assert said == "6 of memory on n1 counts as held, jobs hold 5"
    cluster.connection.execute(mended.encode())
    assert wrong_rows(dsn) == ()


@pytest.fixture
def freeing(connection: Connection) -> SmallCluster:
    """A node of four cores with 8 of memory, which suspended jobs give back, and a queue whose jobs are suspended."""
    made = SmallCluster(connection, with_settings(scheduler={"suspended_consumables": ("memory",)}))
    return with_guests(made)


def with_guests(made: SmallCluster) -> SmallCluster:
    made.add_nodes("n1", cores=4)
    made.add_consumable("memory", n1=8)
    made.sql(
        "INSERT INTO queues (queue_name, priority, gives_way_to, manner) VALUES ('guests', 5, '{default}', 'suspend')"
    )
    return made


def test_a_suspended_job_gives_back_what_the_site_says(freeing: SmallCluster, dsn: str) -> None:
    asleep = freeing.submit("/core=1,memory=6,walltime=1:0:0")
    freeing.settle()
    freeing.sql("INSERT INTO suspend_requests (job_id) VALUES (%s)", asleep)
    freeing.settle()
    assert (freeing.state(asleep), held(freeing)) == ("Suspended", {"n1": 0})
    other = freeing.submit("/core=1,memory=6,walltime=0:10:0")
    freeing.settle()
    freeing.sql("UPDATE jobs SET state = 'Resuming' WHERE job_id = %s", asleep)
    freeing.settle()
    assert freeing.states([asleep, other]) == ["Resuming", "Running"], "its core is free, its memory is not"
    assert wrong_rows(dsn) == ()
    freeing.end(other)
    freeing.settle()
    assert (freeing.state(asleep), held(freeing)) == ("Running", {"n1": 6})
    freeing.end(asleep)
    freeing.settle()
    assert held(freeing) == {"n1": 0}
    assert amounts(freeing, asleep) == [("n1", 6, False)]
    assert wrong_rows(dsn) == ()


def test_best_effort_jobs_go_for_the_memory_of_a_job_that_goes_on(freeing: SmallCluster) -> None:
    asleep = freeing.submit("/core=1,memory=6,walltime=1:0:0")
    freeing.settle()
    freeing.sql("INSERT INTO suspend_requests (job_id) VALUES (%s)", asleep)
    freeing.settle()
    cheap = [freeing.submit("/core=1,memory=4", queue="besteffort", types=["besteffort"]) for _ in range(2)]
    freeing.settle()
    freeing.sql("UPDATE jobs SET state = 'Resuming' WHERE job_id = %s", asleep)
    freeing.settle()
    assert freeing.state(asleep) == "Running"
    assert freeing.states(cheap) == ["Error", "Error"], "4 beside 6 are more than 8"


def test_a_job_that_gives_way_frees_its_memory_where_the_site_says_so(freeing: SmallCluster) -> None:
    guest = freeing.submit("/core=1,memory=6,walltime=1:0:0", queue="guests")
    freeing.settle()
    member = freeing.submit("/core=1,memory=6,walltime=0:10:0")
    freeing.settle()
    assert freeing.states([guest, member]) == ["Resuming", "Running"]
    assert held(freeing) == {"n1": 6}
    freeing.end(member)
    freeing.settle()
    assert freeing.state(guest) == "Running"
    assert freeing.events(guest) == ["GIVES_WAY", "JOB_SUSPENDED", "JOB_RESUMED"]


def test_a_job_that_gives_way_goes_on_after_those_that_take_its_memory(freeing: SmallCluster) -> None:
    guest = freeing.submit("/core=1,memory=6,walltime=1:0:0", queue="guests")
    freeing.settle()
    first, second = (freeing.submit("/core=1,memory=6,walltime=0:10:0") for _ in range(2))
    freeing.settle()
    assert freeing.states([guest, first, second]) == ["Resuming", "Running", "Waiting"]
    freeing.end(first)
    freeing.settle()
    assert freeing.states([guest, second]) == ["Resuming", "Running"]
    freeing.end(second)
    freeing.settle()
    assert freeing.state(guest) == "Running"


def test_a_job_that_gives_way_keeps_its_memory_elsewhere(connection: Connection) -> None:
    """Nobody is suspended for memory that suspension does not free, and a suspended job is not killed for it."""
    cluster = with_guests(SmallCluster(connection))
    guest = cluster.submit("/core=1,memory=6,walltime=1:0:0", queue="guests")
    cluster.settle()
    member = cluster.submit("/core=1,memory=6,walltime=0:10:0")
    cluster.settle()
    assert cluster.states([guest, member]) == ["Running", "Waiting"]
    verdict, reason = cluster.verdict(member)
    assert (verdict, "memory: 6 asked on each network_address, 2 left on n1 until" in reason) == (
        "resources_busy",
        True,
    )
    whole = cluster.submit("/core=4,walltime=0:10:0")
    cluster.settle()
    assert cluster.states([guest, member, whole]) == ["Resuming", "Waiting", "Running"]
    assert held(cluster) == {"n1": 6}
    cluster.end(whole)
    cluster.settle()
    assert cluster.states([guest, member]) == ["Running", "Waiting"]
    cluster.end(guest)
    cluster.settle()
    assert cluster.state(member) == "Running"


def test_only_a_suspended_job_that_gave_resources_back_may_give_back_amounts(cluster: SmallCluster) -> None:
    job = cluster.submit("/core=1,memory=6")
    cluster.settle()
    give_back = "UPDATE assigned_amounts SET during = tstzrange(lower(during), now()) WHERE job_id = %s"
    with pytest.raises(CheckViolation, match="keeps what it holds"):
        cluster.sql(give_back, job)
    cluster.connection.rollback()
    cluster.sql("INSERT INTO suspend_requests (job_id) VALUES (%s)", job)
    cluster.settle()
    cluster.sql(
        "UPDATE assigned_amounts SET during = tstzrange(lower(during), clock_timestamp()) WHERE job_id = %s", job
    )
    cluster.sql("UPDATE jobs SET state = 'Resuming' WHERE job_id = %s", job)
    cluster.settle()
    assert (cluster.state(job), held(cluster)["n1"]) == ("Running", 6)


def test_a_suspended_job_keeps_its_amount(cluster: SmallCluster) -> None:
    asleep = cluster.submit("/network_address=1,memory=6")
    cluster.settle()
    cluster.sql("INSERT INTO suspend_requests (job_id) VALUES (%s)", asleep)
    cluster.settle()
    assert cluster.state(asleep) == "Suspended"
    assert held(cluster) == {"n1": 6, "n2": 0}
    beside = cluster.submit("{network_address = 'n1'}/core=1,memory=2")
    waiting = cluster.submit("{network_address = 'n1'}/core=1,memory=1")
    cluster.settle()
    assert cluster.states([beside, waiting]) == ["Running", "Waiting"]
    assert held(cluster) == {"n1": 8, "n2": 0}
    cluster.end(beside)
    cluster.delete(asleep)
    cluster.settle()
    assert cluster.states([asleep, beside, waiting]) == ["Error", "Terminated", "Running"]
    assert held(cluster) == {"n1": 1, "n2": 0}
