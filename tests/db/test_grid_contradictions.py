"""``oarpy db check`` names rows of a broker that contradict each other, and says what mends them."""

from __future__ import annotations

import pytest
from psycopg.sql import SQL, Identifier

from oarpy.store.grid import transactions
from oarpy.store.schema.checks.check import check
from oarpy.store.schema.checks.grid_contradictions import QUERIES
from tests.harness.claim_rounds import ClaimRounds
from tests.harness.hand_written import Connection

pytestmark = pytest.mark.db


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    """Job 1 is over, 2 runs on both clusters, 3 waits for a date and 4 missed it; all of it is long ago."""
    made = ClaimRounds(connection)
    first = made.submit(100)
    made.until(300)
    running = made.submit(100, walltime=100_000)
    made.until(500)
    later = made.submit(50_000)
    missed = made.submit(100, procs=7)
    made.until(1500)
    states = [str(made.job(job).state) for job in (first, running, later, missed)]
    assert states == ["Terminated", "Running", "Submitted", "Missed"]
    # clusters live in virtual time, their rows are dated by both clocks
    connection.execute("UPDATE grid_jobs SET submitted_at = now() - interval '1 hour'")
    connection.execute("UPDATE grid_jobs SET ended_at = now(), started_at = least(started_at, now()) WHERE id = 1")
    instants = connection.execute(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_name LIKE 'grid%' AND data_type = 'timestamp with time zone' AND table_schema = 'public'"
    ).fetchall()
    for table, column in instants:
        earlier = SQL("UPDATE {} SET {} = {} - interval '1 day'")
        connection.execute(earlier.format(*map(Identifier, (table, column, column))))
    return made


def named(connection: Connection) -> list[tuple[str, str]]:
    """What is wrong, and what mends it."""
    return [row for query in QUERIES for row in connection.execute(query).fetchall()]


def test_a_broker_at_work_has_no_contradiction(rounds: ClaimRounds, dsn: str) -> None:
    assert check(dsn) == ()
    assert transactions.doubts(rounds.connection) == []
    rounds.connection.execute("UPDATE grid_jobs SET components = 7 WHERE id = 3")
    assert check(dsn) == (
        "grid job 3 has 2 components, and is to have 7: UPDATE grid_jobs SET components = 2 WHERE id = 3",
    )


PART = "(SELECT name FROM grid_parts WHERE job = {} ORDER BY name LIMIT 1)"
TRANSACTION = "(SELECT max(transaction) FROM grid_parts WHERE job = {})"


CASES = [
    ("UPDATE grid_clusters SET heard_at = '2900-01-01'", "cluster north has heard_at"),
    ("UPDATE grid_clusters SET silent_since = '2900-01-01'", "cluster north has silent_since"),
    ("UPDATE grid_jobs SET submitted_at = '2900-01-01' WHERE id = 3", "grid job 3 has submitted_at"),
    ("UPDATE grid_jobs SET started_at = '2900-01-01' WHERE id = 2", "grid job 2 has started_at"),
    ("UPDATE grid_jobs SET delete_asked = '2900-01-01' WHERE id = 2", "grid job 2 has delete_asked"),
    ("UPDATE grid_jobs SET components = 7 WHERE id = 3", "grid job 3 has 2 components, and is to have 7"),
    ("DELETE FROM grid_components WHERE job = 3", "grid job 3 has 0 components, and is to have 2"),
    ("DELETE FROM grid_parts WHERE job = 2", "grid job 2 is Running, and no part of it is anywhere"),
    (
        "UPDATE grid_parts SET state = 'Ended', ended_at = started_at WHERE job = 2",
        "grid job 2 is Running, and all its parts are over",
    ),
    ("UPDATE grid_jobs SET started_at = NULL WHERE id = 2", "grid job 2 is Running and did not start"),
    ("UPDATE grid_jobs SET started_at = now() WHERE id = 3", "grid job 3 is Submitted and started at"),
    ("UPDATE grid_jobs SET started_at = now() WHERE id = 1", "grid job 1 ended at"),
    ("UPDATE grid_jobs SET submitted_at = now() WHERE id = 1", "grid job 1 ended at"),
    ("UPDATE grid_jobs SET array_id = 99 WHERE id = 3", "grid job 3 is of array 99, which is of nobody"),
    ("UPDATE grid_jobs SET array_id = 1 WHERE id IN (1, 3)", "grid jobs 1, 3 are all number 1 of array 1"),
    (
        "UPDATE grid_jobs SET state = 'Error', ended_at = now() - interval '1 hour' WHERE id = 2",
        "part g2.0",
    ),
    (f"UPDATE grid_parts SET ended_at = now() WHERE name = {PART.format(2)}", "part "),
    (f"UPDATE grid_parts SET ended_at = '2020-01-01' WHERE name = {PART.format(1)}", "part "),
    (f"UPDATE grid_parts SET started_at = NULL WHERE name = {PART.format(2)}", "part "),
    ("UPDATE grid_components SET cluster = CASE number WHEN 0 THEN 'south' ELSE 'north' END", "part "),
    ("UPDATE grid_parts SET cluster_job = '1', cluster = 'north' WHERE job = 2", "parts "),
    (f"UPDATE grid_transactions SET began_at = '2900-01-01' WHERE id = {TRANSACTION.format(2)}", "grid tra"),
    (f"UPDATE grid_transactions SET began_at = now() WHERE id = {TRANSACTION.format(2)}", "grid transaction"),
    ("UPDATE grid_outcomes SET known_at = NULL", "grid transaction"),
    (
        "INSERT INTO grid_transactions (kind, module, job, began_at)"
        " VALUES ('claim', 'claimer', 3, now() - interval '1 hour')",
        "grid transaction",
    ),
    ("UPDATE grid_tries SET outcome = '' WHERE job = 4", "try 0 of grid job 4 is done, and came to nothing"),
    (
        "UPDATE grid_tries SET outcome = 'claimed' WHERE job = 3 AND number = 0",
        "try 0 of grid job 3 is to be made, and came to claimed",
    ),
    ("UPDATE grid_tries SET last = true WHERE job = 4", "the last tries of grid job 4 are several"),
    ("INSERT INTO grid_passes (ended_at) VALUES (now())", "pass 1 ended at"),
    ("INSERT INTO grid_passes (waiting, moved) VALUES (1, 2)", "pass 2 moved 2 jobs of 1"),
    (
        "INSERT INTO grid_moves (job, source, target) VALUES (2, 'north', 'north')",
        "move 1 of grid job 2 is from cluster north to itself",
    ),
    (
        "INSERT INTO grid_moves (job, source, target, transaction)"
        f" VALUES (2, 'north', 'south', {TRANSACTION.format(2)})",
        "move 2 of grid job 2 is open, and transaction",
    ),
]


def test_each_is_named_with_what_mends_it(rounds: ClaimRounds) -> None:
    connection = rounds.connection
    failures: list[tuple[object, ...]] = []
    for wrong, expected in CASES:
        with connection.transaction(force_rollback=True):
            connection.execute(wrong)
            lines = named(connection)
            if not [what for what, _ in lines if what.startswith(expected)]:
                failures.append((wrong, lines))
            for _, mended in lines:
                if mended.startswith(("UPDATE", "DELETE")) and "..." not in mended:
                    connection.execute(mended)
            left = [line for line in named(connection) if line in lines and line[1].startswith(("UPDATE", "DELETE"))]
            failures += [(wrong, "still", line) for line in left if "..." not in line[1]]
    assert failures == []


def test_tables_of_the_site_are_its_own_and_all_else_is_looked_at(
    connection: Connection, rounds: ClaimRounds, dsn: str
) -> None:
    connection.execute("CREATE TABLE grants (name text PRIMARY KEY, until date)")
    connection.execute("CREATE INDEX ON grants (until)")
    assert check(dsn) == ()
    connection.execute("UPDATE grid_jobs SET components = 7 WHERE id = 3")
    assert len(check(dsn)) == 1
