"""PostgreSQL learnt what is in the tables while the cluster was idle; then many jobs came at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from oarpy.configuration import load
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.store.passes import decisions
from oarpy.store.passes.state_statistics import StateStatistics
from tests.harness.hand_written import Connection, add_job, move, one
from tests.harness.oarsub_cluster import decide

pytestmark = pytest.mark.db

MANY = 3000
_JOBS = """
    INSERT INTO jobs (submission_id, array_id, array_index, user_name, queue_name)
    SELECT submission_id, submission_id, number, 'ann', 'default'
    FROM jobs, generate_series(2, %s) AS number WHERE state = 'Waiting'
"""


@pytest.fixture
def jobs(connection: Connection) -> list[int]:
    """Jobs that came after a quiet time, in which one had ended."""
    move(connection, add_job(connection), "toLaunch", "Launching", "Running", "Finishing", "Terminated")
    connection.execute("ANALYZE")
    add_job(connection)
    connection.execute(_JOBS, [MANY])
    return [row[0] for row in connection.execute("SELECT job_id FROM jobs WHERE state = 'Waiting' ORDER BY job_id")]


def rows_looked_at(plan: Mapping[str, Any]) -> Iterator[int]:
    """Yield, for each node of a plan that was run, how many rows it returned or left out."""
    kept = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter")
    yield plan.get("Actual Loops", 0) * sum(plan.get(name, 0) for name in kept)
    for below in plan.get("Plans", ()):
        yield from rows_looked_at(below)


def rows_looked_at_to_start(connection: Connection, jobs: list[int]) -> int:
    """Start jobs as a pass does, and undo it; return how many rows the busiest node of the plan looked at."""
    moldable = one(connection, "SELECT max(moldable_id) FROM moldable_descriptions")
    given = {"jobs": jobs, "moldables": [moldable] * MANY, "walltimes": [60.0] * MANY, "summaries": [""] * MANY}
    given |= {"guests": [], "owners": [], "resources": [], "exclusive": []}
    with connection.transaction(force_rollback=True):
        row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {decisions._START}", given).fetchone()
    assert row is not None
    return max(rows_looked_at(row[0][0]["Plan"]))


def test_a_pass_that_reads_many_new_jobs_starts_them_one_by_one(connection: Connection, jobs: list[int]) -> None:
    decide(connection)
    assert rows_looked_at_to_start(connection, jobs) == MANY


def known_states(connection: Connection) -> str:
    """Return the states of jobs that PostgreSQL knows to be common."""
    query = "SELECT most_common_vals::text FROM pg_stats WHERE tablename = 'jobs' AND attname = 'state'"
    found = connection.execute(query).fetchone()
    return str(found and found[0])


@pytest.mark.usefixtures("jobs")
def test_a_count_that_was_rolled_back_is_made_again(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Metascheduler(load())
    with monkeypatch.context() as broken:
        broken.setattr(decisions, "record_pass", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            module.run_once(connection, datetime.now(UTC))
    assert "Waiting" not in known_states(connection)
    module.run_once(connection, datetime.now(UTC))
    assert "Waiting" in known_states(connection)


@pytest.mark.parametrize(
    ("passes", "counts"),
    [([499], 0), ([500], 1), ([500, 999], 1), ([500, 1000], 2), ([500, 3, 499], 1), ([500, 3, 500], 2)],
)
def test_states_are_counted_when_many_more_wait(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, passes: list[int], counts: int
) -> None:
    known = StateStatistics()
    counted: list[str] = []
    monkeypatch.setattr(connection, "execute", counted.append)
    for waiting in passes:
        known.renew(connection, waiting)
    assert len(counted) == counts


def test_a_pass_does_not_wait_while_postgresql_counts_by_itself(connection: Connection, dsn: str) -> None:
    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE jobs IN SHARE UPDATE EXCLUSIVE MODE")
        connection.execute("SET lock_timeout = '10ms'")
        StateStatistics().renew(connection, MANY)
