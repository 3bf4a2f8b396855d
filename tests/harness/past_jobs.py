"""Jobs that ended months ago, and what a database has of jobs, live tables and past together."""

from __future__ import annotations

from datetime import UTC, datetime

from psycopg.sql import SQL, Identifier

from oarpy.store.past.tables import filed_tables
from tests.harness.sample_cluster import Connection, add_job, add_nodes

MARCH = datetime(2026, 3, 10, 12, tzinfo=UTC)
APRIL = datetime(2026, 4, 10, 12, tzinfo=UTC)
NOW = datetime(2026, 6, 20, tzinfo=UTC)
MONTH = 30 * 86400


def rows(connection: Connection) -> dict[str, list[str]]:
    """Return all rows of jobs by table, as texts."""
    found = {}
    for table in filed_tables(connection):
        statement = SQL("SELECT r::text FROM (SELECT {} FROM {}) AS r ORDER BY 1")
        view = Identifier("oar_all", table.name)
        found[table.name] = [row for (row,) in connection.execute(statement.format(table.column_list(), view))]
    return found


def live(connection: Connection) -> list[int]:
    """Return the jobs in the live tables."""
    return [job for (job,) in connection.execute("SELECT job_id FROM jobs ORDER BY 1")]


def ended(connection: Connection, when: datetime, state: str = "Terminated", notify: str = "") -> int:
    """Add a job that began at ``when`` and ended a minute later, with an event, and count it."""
    resources = [row[0] for row in connection.execute("SELECT resource_id FROM resources ORDER BY 1 LIMIT 2")]
    job = add_job(connection, state, resources=resources, started=when, submitted_at=when, notify=notify)
    connection.execute("UPDATE jobs SET accounted = true WHERE job_id = %s", [job])
    connection.execute(
        "INSERT INTO event_logs (at, type, job_id, hosts, description) VALUES (%s, 'TOLD', %s, '{n1}', 'a\tb\\c\nd')",
        [when, job],
    )
    return job


def some_past(connection: Connection) -> list[int]:
    """Add two jobs of March, one of April, and one that waits."""
    add_nodes(connection, "n1", "n2")
    jobs = [ended(connection, MARCH), ended(connection, MARCH, "Error", notify="mail:me"), ended(connection, APRIL)]
    return [*jobs, add_job(connection)]
