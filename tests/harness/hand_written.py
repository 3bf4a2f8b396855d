"""Rows written by plain SQL, as an admin in psql would write them."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from oarpy.model.states import ALLOWED, HOLDING_STATES, JobState

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

_NEEDED = """
UPDATE jobs SET state = %(state)s,
    moldable_id = CASE WHEN %(holding)s THEN (SELECT min(moldable_id) FROM moldable_descriptions m
                                              WHERE m.submission_id = jobs.submission_id) ELSE moldable_id END,
    walltime = CASE WHEN %(holding)s THEN coalesce(walltime, interval '1 hour') ELSE walltime END,
    final_state = CASE WHEN %(state)s = 'Finishing' THEN 'Terminated' ELSE final_state END,
    started_at = CASE WHEN %(state)s IN ('Running', 'Suspended', 'Resuming', 'Terminated')
                      THEN coalesce(started_at, clock_timestamp()) ELSE started_at END,
    ended_at = CASE WHEN %(state)s IN ('Terminated', 'Error') THEN clock_timestamp() END,
    left_nothing = %(state)s IN ('Terminated', 'Error', 'toError', 'Waiting')
WHERE job_id = ANY(%(jobs)s)
"""


def one(connection: Connection, query: str, *parameters: object) -> Any:
    """The single value that a query returns."""
    row = connection.execute(query, parameters).fetchone()
    assert row is not None, query
    return row[0]


def insert(connection: Connection, table: str, **columns: object) -> Any:
    """Insert a row; return its first column."""
    names = [sql.Identifier(name) for name in columns]
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({}) RETURNING *").format(
        sql.Identifier(table), sql.SQL(", ").join(names), sql.SQL(", ").join(sql.Placeholder() for _ in columns)
    )
    row = connection.execute(statement, list(columns.values())).fetchone()
    assert row is not None
    return row[0]


def rewrite(connection: Connection, statement: Any, *values: object) -> None:
    """Change what happened, as an owner who means it."""
    with connection.transaction():
        connection.execute("SET LOCAL oarpy.rewrite_history = on")
        connection.execute(statement, values)


def add_job(connection: Connection, **columns: object) -> int:
    """A job asking for one core for an hour, waiting unless said otherwise."""
    submission = one(connection, "INSERT INTO submissions DEFAULT VALUES RETURNING submission_id")
    moldable = insert(connection, "moldable_descriptions", submission_id=submission, position=0, walltime="1 hour")
    group = insert(connection, "resource_groups", moldable_id=moldable, position=0)
    insert(connection, "resource_descriptions", group_id=group, position=0, level="core", count=1)
    defaults: dict[str, object] = {
        "submission_id": submission,
        "array_id": submission,
        "user_name": "ann",
        "queue_name": "default",
    }
    return int(insert(connection, "jobs", **{**defaults, **columns}))


def add_resource(connection: Connection, **columns: object) -> int:
    """A resource on node n1 unless said otherwise."""
    return int(insert(connection, "resources", **{"network_address": "n1", **columns}))


def move(connection: Connection, job: int, *states: str) -> None:
    """Update a job's state, one statement a step, with what the state needs."""
    for state in states:
        holding = state == "Terminated" or state in HOLDING_STATES
        connection.execute(_NEEDED, {"state": state, "jobs": [job], "holding": holding})


def path_to(state: JobState) -> list[str]:
    """The shortest way from Waiting by allowed moves."""
    ways: dict[JobState, list[str]] = {JobState.WAITING: []}
    border = [JobState.WAITING]
    while state not in ways:
        here = border.pop(0)
        for source, target in sorted(ALLOWED):
            if source == here and target not in ways:
                ways[target] = [*ways[here], target.value]
                border.append(target)
    return ways[state]
