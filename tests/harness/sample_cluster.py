"""Rows that tests of the commands start from, and running a command in this process."""

from __future__ import annotations

import importlib
import os
import pwd
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg.types.json import Jsonb

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

ME = pwd.getpwuid(os.getuid()).pw_name
EPOCH = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)

_PATH = {
    "Hold": [],
    "Waiting": [],
    "toLaunch": ["toLaunch"],
    "Launching": ["toLaunch", "Launching"],
    "Running": ["toLaunch", "Launching", "Running"],
    "Finishing": ["toLaunch", "Launching", "Running", "Finishing"],
    "Terminated": ["toLaunch", "Launching", "Running", "Finishing", "Terminated"],
    "Error": ["toLaunch", "Launching", "Running", "Finishing", "Error"],
}


@dataclass(frozen=True, slots=True)
class Result:
    """What a command left: its exit status and both outputs."""

    status: int
    out: str
    err: str


class Shell:
    """Runs commands of oarpy in this process on the database of the test."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, name: str, *arguments: str) -> Result:
        from oarpy.client.boundary import execute

        app = importlib.import_module(f"oarpy.commands.{name}").app
        self._capsys.readouterr()
        status = execute(app, name, arguments)
        captured = self._capsys.readouterr()
        return Result(status, captured.out, captured.err)

    def done(self, name: str, *arguments: str) -> str:
        """Run a command that must succeed without a word on stderr; return what it printed."""
        result = self(name, *arguments)
        assert (result.status, result.err) == (0, ""), result
        return result.out


def add_nodes(connection: Connection, *hosts: str, cores: int = 2) -> list[int]:
    """Add local nodes with ``cores`` resources each and return the resource ids."""
    rows = connection.execute(
        "INSERT INTO resources (network_address, host, cpu, core, cpuset)"
        " SELECT name, name, 1, core, core - 1"
        " FROM unnest(%s::text[]) WITH ORDINALITY AS node (name, place), generate_series(1, %s) AS core"
        " ORDER BY place, core RETURNING resource_id",
        (list(hosts), cores),
    ).fetchall()
    return [row[0] for row in rows]


def add_job(
    connection: Connection,
    state: str = "Waiting",
    *,
    user: str = ME,
    resources: list[int] | None = None,
    started: datetime = EPOCH,
    seconds: float = 60.0,
    walltime: timedelta = timedelta(hours=1),
    status: int | None = 0,
    request: str = "oarsub date",
    **columns: object,
) -> int:
    """Add a job and move it to ``state`` the way the modules do; ``columns`` are further columns of ``jobs``."""
    with connection.transaction():
        submission = _one(
            connection,
            "INSERT INTO submissions (initial_request, environment) VALUES (%s, %s) RETURNING submission_id",
            (request, Jsonb({"HOME": "/home/me"})),
        )
        moldable = _one(
            connection,
            "INSERT INTO moldable_descriptions (submission_id, position, walltime) VALUES (%s, 0, %s)"
            " RETURNING moldable_id",
            (submission, walltime),
        )
        group = _one(
            connection,
            "INSERT INTO resource_groups (moldable_id, position) VALUES (%s, 0) RETURNING group_id",
            (moldable,),
        )
        connection.execute("INSERT INTO resource_descriptions VALUES (%s, 0, 'network_address', 1)", (group,))
        given = {
            "submission_id": submission,
            "user_name": user,
            "queue_name": "default",
            "command": "date",
            "submitted_at": EPOCH,
            "state": "Hold" if state == "Hold" else "Waiting",
            **columns,
        }
        names = psycopg.sql.SQL(", ").join(map(psycopg.sql.Identifier, given))
        marks = psycopg.sql.SQL(", ").join([psycopg.sql.SQL("%s")] * len(given))
        array = given.get("array_id", "currval(pg_get_serial_sequence('jobs', 'job_id'))")
        statement = psycopg.sql.SQL("INSERT INTO jobs ({}{}) VALUES ({}{}) RETURNING job_id").format(
            names,
            psycopg.sql.SQL("" if "array_id" in given else ", array_id"),
            marks,
            psycopg.sql.SQL("" if "array_id" in given else f", {array}"),
        )
        job = _one(connection, statement, list(given.values()))
        _advance(connection, job, state, moldable, walltime, resources or [], started, seconds, status)
    return job


def _advance(
    connection: Connection,
    job: int,
    state: str,
    moldable: int,
    walltime: timedelta,
    resources: list[int],
    started: datetime,
    seconds: float,
    status: int | None,
) -> None:
    for step in _PATH[state]:
        changes: dict[str, object] = {"state": step}
        if step == "toLaunch":
            changes |= {"moldable_id": moldable, "walltime": walltime}
            connection.execute(
                "INSERT INTO assigned_resources (job_id, resource_id, during)"
                " SELECT %s, id, tstzmultirange(tstzrange(clock_timestamp(), NULL)) FROM unnest(%s::int[]) AS id",
                (job, resources),
            )
        elif step == "Running":
            changes["started_at"] = started
        elif step == "Finishing":
            changes |= {
                "final_state": state if state in ("Terminated", "Error") else "Terminated",
                "exit_status": status,
            }
        elif step in ("Terminated", "Error"):
            changes |= {"ended_at": started + timedelta(seconds=seconds), "left_nothing": True}
        assignments = psycopg.sql.SQL(", ").join(
            psycopg.sql.SQL("{} = %s").format(psycopg.sql.Identifier(name)) for name in changes
        )
        connection.execute(
            psycopg.sql.SQL("UPDATE jobs SET {} WHERE job_id = %s").format(assignments), [*changes.values(), job]
        )


def _one(connection: Connection, statement: Any, values: Any) -> int:
    row = connection.execute(statement, values).fetchone()
    assert row is not None
    return int(row[0])
