"""The server and its database are lost; last night's dump is restored elsewhere, and the nodes never stopped.

Everything is real: ``pg_dump``, SIGKILL, another database server in another folder, the same nodes with their programs.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, local_nodes
from oarpy.postgres import embedded_server
from oarpy.postgres.account import account
from oarpy.postgres.binaries import binaries
from research.benchmarks.server_processes import children_of
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

LONG = (
    "sh -c 'echo $$ > pid.$OAR_JOB_ID; while [ ! -e end.$OAR_JOB_ID ]; do sleep 0.2; done; "
    "echo done >> effects.$OAR_JOB_ID'"
)
SHORT = "sh -c 'echo done >> effects.$OAR_JOB_ID'"
DEADLINE = 60.0
LOST = """
    SELECT job_id, user_name, network_address, resources, ended_at IS NOT NULL, outcome, known,
           abs(used_seconds - extract(epoch FROM ended_at - began_at) * resources) < 0.001
    FROM oar_report.lost_jobs ORDER BY job_id
"""


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Sandbox]:
    """The cluster that will be lost."""
    sandbox = Sandbox(tmp_path / "first")
    sandbox.create()
    sandbox.start()
    sandbox.run(*local_nodes("/host=n[1-2]/core={4}"))
    yield sandbox
    sandbox.discard()


@pytest.fixture
def second(tmp_path: Path, first: Sandbox) -> Iterator[Sandbox]:
    """Where it is restored: another database server, the same nodes."""
    work = first.directory / "work"
    sandbox = Sandbox(tmp_path / "second", {"nodes": {"state_directory": str(first.directory / "nodes")}})
    sandbox.create()
    (sandbox.directory / "work").rmdir()
    (sandbox.directory / "work").symlink_to(work)
    yield sandbox
    sandbox.discard()


def postgres(program: str, *arguments: str) -> None:
    subprocess.run([binaries(None, account()) / program, *arguments], check=True, capture_output=True)


def lose(cluster: Sandbox) -> None:
    """Kill all that runs on the server at once, and its database with its data."""
    assert cluster.server is not None
    for pid in (cluster.server.pid, *children_of(cluster.server.pid)):
        os.kill(pid, signal.SIGKILL)
    cluster.stop_server(signal.SIGKILL)
    embedded_server.remove(cluster.directory / "postgresql")


def program(cluster: Sandbox, job: int) -> int:
    """The process of a long job, once it runs."""
    path = cluster.directory / "work" / f"pid.{job}"
    until(lambda: path.exists() and path.read_text().strip(), f"job {job} runs")
    return int(path.read_text())


def ends(cluster: Sandbox, *jobs: int) -> None:
    for job in jobs:
        (cluster.directory / "work" / f"end.{job}").touch()


def effects(cluster: Sandbox, job: int) -> int:
    """How often the work of a job was done."""
    path = cluster.directory / "work" / f"effects.{job}"
    return len(path.read_text().splitlines()) if path.exists() else 0


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def check_report(connection: psycopg.Connection[tuple[Any, ...]], ran: set[int], unknown: int, known: set[int]) -> None:
    """What the nodes told of the lost time: each job with user, node, resources, dates and outcome."""
    until(lambda: len(connection.execute(LOST).fetchall()) == len(ran) + 1, "nodes have told what was lost")
    user = connection.execute("SELECT DISTINCT user_name FROM jobs").fetchone()
    assert user is not None
    until(lambda: all(row[4] for row in connection.execute(LOST)), "the end of the unwanted one is told, too")
    told = connection.execute(LOST).fetchall()
    assert {row[0] for row in told} == {*ran, unknown}
    assert {(row[1], row[4], row[7]) for row in told} == {(user[0], True, True)}
    assert {row[2] for row in told} <= {"n1", "n2"}
    assert {row[0]: row[3] for row in told} == {**dict.fromkeys(ran, 1), unknown: 2}
    assert {row[0]: row[5] for row in told} == {**dict.fromkeys(ran, "exited"), unknown: "killed"}
    assert {row[0] for row in told if row[6]} == known
    counted = connection.execute("SELECT type, count(*) FROM event_logs GROUP BY type").fetchall()
    events: dict[str, int] = dict(counted)
    assert (events["RESTORED"], events["JOBS_LOST"] in (1, 2)) == (1, True)


def check_database(cluster: Sandbox) -> None:
    """See that a database has no contradictions, once a pass has dropped what it foresaw of jobs that have ended."""
    predicted = "SELECT count(*) FROM gantt_predictions JOIN jobs USING (job_id) WHERE ended_at IS NOT NULL"
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        until(lambda: connection.execute(predicted).fetchone() == (0,), "no ended job is foreseen")
    assert cluster.run("oarpy", "db", "check").stdout == "the database is as it should be\n"


def test_a_cluster_goes_on_from_an_old_dump(first: Sandbox, second: Sandbox, tmp_path: Path) -> None:
    runs_on, ends_since = first.job_ids("-l", "/core=1", LONG) + first.job_ids("-l", "/core=1", LONG)
    held, twice, still = (
        first.job_ids("--hold", "-l", "/core=1", *more, SHORT)[0] for more in ((), ("-t", "idempotent"), ())
    )
    going_on = program(first, runs_on)
    program(first, ends_since)
    first.wait_for([runs_on, ends_since], ["Running"], DEADLINE)

    # the nightly dump
    dump = tmp_path / "oarpy.dump"
    postgres("pg_dump", "--format=custom", f"--file={dump}", first.dsn())

    # 100 more jobs and what else a day brings
    first.run("oarresume", str(held))
    first.run("oarresume", str(twice))
    array = first.job_ids("-l", "/core=1,walltime=0:5:0", "--array", "100", SHORT)
    ends(first, ends_since)
    first.wait_for([ends_since, held, twice, *array], ["Terminated"], DEADLINE)
    (unknown,) = first.job_ids("-l", "/core=2", LONG)
    unwanted = program(first, unknown)
    given = [runs_on, ends_since, held, twice, still, *array, unknown]

    # the disaster
    lose(first)
    assert alive(going_on)
    assert alive(unwanted)

    # elsewhere
    postgres("pg_restore", "--clean", "--if-exists", f"--dbname={second.dsn()}", str(dump))
    second.start()
    new = second.job_ids("-l", "/core=1", "--array", "20", SHORT)
    assert min(new) > max(given)
    second.wait_for(new, ["Terminated"], DEADLINE)
    second.wait_for([ends_since], ["Terminated"], DEADLINE)
    until(lambda: not alive(unwanted), "what the database does not know is ended")
    with psycopg.connect(second.dsn(), autocommit=True) as connection:
        check_report(connection, {held, twice, *array}, unknown, {held, twice})

    # what ran and is known ran on; what began since the dump does not begin again, unless it may
    assert alive(going_on)
    assert second.states([runs_on, held, twice, still]) == {
        runs_on: "Running",
        held: "Error",
        twice: "Hold",
        still: "Hold",
    }
    second.run("oarresume", str(twice))
    second.run("oarresume", str(still))
    ends(second, runs_on)
    second.wait_for([runs_on, twice, still], ["Terminated"], DEADLINE)
    assert [effects(first, job) for job in (runs_on, ends_since, held, twice, still)] == [1, 1, 1, 2, 1]
    assert {effects(first, job) for job in new} == {1}
    with psycopg.connect(second.dsn(), autocommit=True) as connection:
        failed = connection.execute("SELECT job_id FROM jobs WHERE state = 'Error'").fetchall()
        assert failed == [(held,)]
        unaccounted = "SELECT count(*) FROM jobs WHERE ended_at IS NOT NULL AND NOT accounted"
        until(lambda: connection.execute(unaccounted).fetchone() == (0,), "all is accounted")
    check_database(second)
