"""Accounting counts each ended job once, whatever happens in between."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oarpy.model.errors import UsageError
from oarpy.modules.accounting import account
from oarpy.store.analytics import recount
from oarpy.store.schema import migrations
from tests.harness.hand_written import rewrite
from tests.harness.sample_cluster import EPOCH, Connection, Shell, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.oldest]

DAY = 86400
BIRTH = datetime(1970, 1, 1, tzinfo=UTC)
DEADLINE = 30


def sums(connection: Connection) -> dict[tuple[float, str, str, str, str], Fraction]:
    rows = connection.execute(
        "SELECT extract(epoch FROM window_start)::float8, user_name, project, queue_name, consumption_type, consumption"
        " FROM accounting"
    )
    return {tuple(row[:5]): Fraction(row[5]) for row in rows}


def uncounted(connection: Connection) -> int:
    row = connection.execute("SELECT count(*) FROM jobs WHERE ended_at IS NOT NULL AND NOT accounted").fetchone()
    assert row is not None
    return int(row[0])


def test_a_job_over_midnight_fills_two_windows(connection: Connection) -> None:
    cores = add_nodes(connection, "node1", cores=3)
    start = EPOCH.replace(hour=23)
    add_job(
        connection,
        "Terminated",
        user="alice",
        resources=cores,
        started=start,
        seconds=7200,
        walltime=timedelta(hours=3),
    )
    assert account(connection, DAY) == 1
    first = start.replace(hour=0).timestamp()
    key = ("alice", "default", "default")
    assert sums(connection) == {
        (first, *key, "USED"): 3 * 3600,
        (first + DAY, *key, "USED"): 3 * 3600,
        (first, *key, "ASKED"): 3 * 3600,
        (first + DAY, *key, "ASKED"): 3 * 7200,
    }
    assert account(connection, DAY) == 0


def test_hosts_that_come_later_or_go_sooner_count_while_they_were_held(connection: Connection) -> None:
    cores = add_nodes(connection, "node1", cores=3)
    start = EPOCH.replace(hour=1)
    job = add_job(
        connection,
        "Terminated",
        user="alice",
        resources=cores,
        started=start,
        seconds=7200,
        walltime=timedelta(hours=3),
    )
    half, end = start + timedelta(hours=1), start + timedelta(hours=2)
    change = "UPDATE assigned_resources SET during = tstzmultirange(tstzrange(%s, %s)), extension_id = %s"
    one = f"{change} WHERE (job_id, resource_id) = (%s, %s)"
    for core, held in zip(cores, ((start, end, None), (start, half, None), (half, end, 1)), strict=True):
        rewrite(connection, one, *held, job, core)
    assert account(connection, DAY) == 1
    key = (start.replace(hour=0).timestamp(), "alice", "default", "default")
    assert sums(connection) == {(*key, "USED"): 7200 + 3600 + 3600, (*key, "ASKED"): 2 * 3 * 3600 + 3600}
    assert recount.differences(connection, DAY) == []


def add_gpus(connection: Connection) -> list[int]:
    """A node with two GPUs of two cores each; return its cores."""
    cores = add_nodes(connection, "node1", cores=4)
    connection.execute("ALTER TABLE resources ADD gpu text")
    connection.execute("INSERT INTO resource_properties VALUES ('gpu', 'text', false)")
    connection.execute("UPDATE resources SET gpu = 'g' || (resource_id - %s) / 2", [cores[0]])
    return cores


def train(connection: Connection, cores: list[int]) -> int:
    """A job that asked for GPUs, and had these cores for half an hour."""
    job = add_job(connection, "Terminated", user="alice", resources=cores, seconds=1800)
    rewrite(
        connection,
        "UPDATE resource_descriptions SET level = 'gpu' WHERE group_id IN ("
        " SELECT group_id FROM resource_groups JOIN jobs USING (moldable_id) WHERE job_id = %s)",
        job,
    )
    return job


def test_gpus_count_beside_cores_and_both_are_billed(
    connection: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two GPUs of two cores each, for half an hour, once by who asked for GPUs and once by who did not."""
    cores = add_gpus(connection)
    trains = train(connection, cores[:3])
    counts = add_job(connection, "Terminated", user="alice", resources=cores[:3], seconds=1800)
    assert account(connection, DAY) == 2
    found = {key[-1]: value for key, value in sums(connection).items()}
    assert found == {"USED": 2 * 3 * 1800, "ASKED": 2 * 3 * 3600, "GPU_USED": 2 * 1800, "GPU_ASKED": 2 * 3600}
    assert recount.differences(connection, DAY) == []
    report = "SELECT asked_gpu_hours, used_gpu_hours, used_hours FROM oar_report.accounting"
    assert connection.execute(report).fetchall() == [(2.0, 1.0, 3.0)]
    jobs = "SELECT job_id, gpus, gpu_hours FROM oar_report.jobs ORDER BY 1"
    assert connection.execute(jobs).fetchall() == [(trains, 2, 1.0), (counts, None, None)]
    kinds = "SELECT DISTINCT consumption_type FROM oar_compat.accounting ORDER BY 1"
    assert connection.execute(kinds).fetchall() == [("ASKED",), ("USED",)]
    monkeypatch.setenv("OARPY_ACCOUNTING_WEIGHTS", "core=1,gpu=20")
    (row,) = json.loads(shell.done("oarstat", "--accounting", "2026-05-01, 2026-05-02", "-J"))
    assert (row["gpu_used"], row["gpu_asked"], row["billed"]) == (3600, 7200, 23.0)
    assert "23.00" in shell.done("oarstat", "--accounting", "2026-05-01, 2026-05-02")
    assert "Billed consumption: 23.00 hours\n" in shell.done(
        "oarstat", "--accounting", "2026-05-01, 2026-05-02", "-u", "alice"
    )


def test_jobs_that_ended_before_gpus_were_counted_are_not_wrong(connection: Connection, dsn: str, shell: Shell) -> None:
    """An older version counted such a job. Its cores are compared, and its GPUs once all is counted anew."""
    cores = add_gpus(connection)
    train(connection, cores[:3])
    assert account(connection, DAY) == 1
    migrations.downgrade(dsn, "0090")
    migrations.upgrade(dsn)
    assert {key[-1] for key in sums(connection)} == {"USED", "ASKED"}
    assert recount.differences(connection, DAY) == []
    change = "UPDATE accounting SET consumption = consumption + 1 WHERE consumption_type = %s"
    rewrite(connection, change, "USED")
    assert [wrong.kind for wrong in recount.differences(connection, DAY)] == ["USED"]
    shell.done("oaraccounting", "--reinitialize")
    assert recount.differences(connection, DAY) == []
    rewrite(connection, change, "GPU_USED")
    assert [wrong.kind for wrong in recount.differences(connection, DAY)] == ["GPU_USED"]


def test_what_uses_nothing_is_marked_and_not_summed(connection: Connection) -> None:
    cores = add_nodes(connection, "node1")
    add_job(connection, "Terminated", resources=cores[:1], seconds=0)
    add_job(connection, "Terminated", resources=[])
    licence = connection.execute("INSERT INTO resources (type) VALUES ('licence') RETURNING resource_id").fetchone()
    assert licence is not None
    add_job(connection, "Terminated", resources=[licence[0]])
    never = add_job(connection)
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", [never])
    add_job(connection, "Running", resources=cores[1:])
    assert account(connection, DAY) == 4
    assert (sums(connection), uncounted(connection)) == ({}, 0)


def test_batches_give_the_same_sums_as_one_go(connection: Connection) -> None:
    cores = add_nodes(connection, "node1")
    for seconds in (0.4, 0.4, 10.7, 90.25):
        add_job(connection, "Terminated", user="alice", resources=cores, seconds=seconds)
    assert account(connection, 60) == 4
    together = sums(connection)
    rewrite(connection, "DELETE FROM accounting; UPDATE jobs SET accounted = false")
    assert [account(connection, 60, limit=3) for _ in range(3)] == [3, 1, 0]
    assert sums(connection) == together


def test_short_jobs_count_for_what_they_used(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1")
    for _ in range(10):
        add_job(connection, "Terminated", user="alice", resources=cores[:1], seconds=0.25)
    assert account(connection, DAY) == 10
    assert sorted(sums(connection).values()) == [Fraction(5, 2), 10 * 3600]
    (row,) = json.loads(shell.done("oarstat", "--accounting", "2026-05-01, 2026-05-02", "-J"))
    assert (row["used"], row["asked"]) == (3, 36000)


def test_killed_in_the_middle_it_has_counted_nothing(connection: Connection, dsn: str) -> None:
    cores = add_nodes(connection, "node1")
    for _ in range(20):
        add_job(connection, "Terminated", user="alice", resources=cores, seconds=50)
    with psycopg.connect(dsn) as blocker:
        # a key of the same sums, not committed: the accounting stops in the middle of its writes
        blocker.execute(
            "INSERT INTO accounting SELECT to_timestamp(%(at)s), to_timestamp(%(at)s + 86400), 'alice', 'default',"
            " 'default', 'USED', 1",
            {"at": EPOCH.replace(hour=0).timestamp()},
        )
        victim = psycopg.connect(dsn, autocommit=True)
        failures: list[Exception] = []

        def count() -> None:
            try:
                account(victim, DAY)
            except psycopg.OperationalError as error:
                failures.append(error)

        thread = threading.Thread(target=count)
        thread.start()
        wait_until_blocked(connection, victim.info.backend_pid)
        connection.execute("SELECT pg_terminate_backend(%s)", [victim.info.backend_pid])
        thread.join(DEADLINE)
        victim.close()
        blocker.rollback()
    assert len(failures) == 1
    assert (sums(connection), uncounted(connection)) == ({}, 20)
    assert account(connection, DAY) == 20
    assert sorted(sums(connection).values()) == [20 * 2 * 50, 20 * 2 * 3600]


def wait_until_blocked(connection: Connection, pid: int) -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=DEADLINE)
    while not connection.execute("SELECT 1 WHERE cardinality(pg_blocking_pids(%s)) > 0", [pid]).fetchall():
        assert datetime.now(UTC) < deadline, "the accounting never reached the locked row"


def test_two_at_once_share_the_jobs(connection: Connection, dsn: str) -> None:
    cores = add_nodes(connection, "node1")
    for _ in range(6):
        add_job(connection, "Terminated", user="alice", resources=cores, seconds=50)
    connection.execute("SET application_name = 'oarpy accounting'")
    with psycopg.connect(dsn, application_name="oarpy accounting") as other, other.transaction():
        assert account(other, DAY, limit=6) == 6
        assert account(connection, DAY) == 0
    assert sorted(sums(connection).values()) == [6 * 2 * 50, 6 * 2 * 3600]


def test_a_window_must_have_a_length(connection: Connection) -> None:
    with pytest.raises(UsageError, match="window of 0 seconds"):
        account(connection, 0)


@dataclass(frozen=True)
class Run:
    """A job that ran; times in microseconds after the epoch."""

    user: str
    queue: str
    resources: int
    start: int
    length: int
    walltime: int


runs = st.builds(
    Run,
    st.sampled_from(["alice", "bob"]),
    st.sampled_from(["default", "besteffort"]),
    st.integers(0, 3),
    st.integers(10**6, 10**12),
    st.integers(0, 10**10),
    st.integers(1, 10_000),
)


def naive(jobs: list[Run], window: int) -> dict[tuple[float, str, str, str, str], Fraction]:
    """Go window by window, with fractions."""
    total: defaultdict[tuple[float, str, str, str, str], Fraction] = defaultdict(Fraction)
    for job in jobs:
        if job.length == 0 or job.resources == 0:
            continue
        for kind, length in (("USED", job.length), ("ASKED", job.walltime * 10**6)):
            begin = job.start // 10**6 // window * window
            while begin * 10**6 < job.start + length:
                inside = min(job.start + length, (begin + window) * 10**6) - max(job.start, begin * 10**6)
                share = Fraction(job.resources * inside, 10**6)
                total[float(begin), job.user, "default", job.queue, kind] += share
                begin += window
    return dict(total)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=st.lists(runs, max_size=6), window=st.integers(500, 100_000), limit=st.integers(1, 4))
def test_sums_are_those_of_a_naive_count(connection: Connection, jobs: list[Run], window: int, limit: int) -> None:
    rewrite(connection, "TRUNCATE resources, jobs, accounting, submissions RESTART IDENTITY CASCADE")
    cores = add_nodes(connection, "node1", cores=3)
    for job in jobs:
        add_job(
            connection,
            "Terminated",
            user=job.user,
            queue_name=job.queue,
            resources=cores[: job.resources],
            started=BIRTH + timedelta(microseconds=job.start),
            seconds=job.length / 10**6,
            walltime=timedelta(seconds=job.walltime),
            submitted_at=BIRTH,
        )
    while account(connection, window, limit):
        pass
    assert {key: value for key, value in sums(connection).items() if value} == {
        key: value for key, value in naive(jobs, window).items() if value
    }
    assert uncounted(connection) == 0


def test_oaraccounting(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1")
    add_job(connection, "Terminated", user="alice", resources=cores, seconds=90)
    assert shell.done("oaraccounting") == "1 jobs accounted\n"
    before = sums(connection)
    assert shell.done("oaraccounting", "-J") == '{\n  "accounted": 0\n}\n'
    assert shell.done("oaraccounting", "--reinitialize") == "1 jobs accounted\n"
    assert sums(connection) == before
    assert shell.done("oaraccounting", "--delete-before", "2026-05-01") == "0 windows deleted\n"
    assert shell.done("oaraccounting", "--delete-before", "2026-05-02") == "2 windows deleted\n"
    assert sums(connection) == {}
    assert shell.done("oaraccounting") == "0 jobs accounted\n"
