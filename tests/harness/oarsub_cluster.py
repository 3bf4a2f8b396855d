"""A small cluster to submit to, with the default rules, and everything its tables hold as one value."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg import sql

from tests.harness.sample_cluster import Result, Shell

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


def build(connection: Connection) -> None:
    """Add 4 nodes of 2 cpus of 2 cores (n1 Absent, a Dead n5 besides), 3 licences and the default rules."""
    from oarpy.client.installation import load_default_rules

    connection.execute("ALTER TABLE resources ADD mem integer, ADD gpu text")
    connection.execute("INSERT INTO resource_properties VALUES ('mem', 'integer', false), ('gpu', 'text', false)")
    connection.execute(
        "INSERT INTO resources (network_address, host, cpu, core, mem, state)"
        " SELECT 'n' || n, 'n' || n, n * 2 + c / 2, n * 4 + c, n * 8,"
        " CASE n WHEN 1 THEN 'Absent' WHEN 5 THEN 'Dead' ELSE 'Alive' END"
        " FROM generate_series(1, 5) AS n, generate_series(0, 3) AS c"
    )
    connection.execute("INSERT INTO resources (type) SELECT 'licence' FROM generate_series(1, 3)")
    connection.execute("INSERT INTO queues (queue_name, priority, active) VALUES ('closed', 1, false)")
    load_default_rules(connection)


def decide(connection: Connection) -> None:
    """Run a scheduling pass."""
    from oarpy.configuration import load
    from oarpy.modules.metascheduler.metascheduler import Metascheduler

    Metascheduler(load()).run_once(connection, datetime.now().astimezone())


def let_run(connection: Connection) -> None:
    """Let the jobs that the last pass chose run."""
    for state in ("Launching", "Running"):
        connection.execute(
            "UPDATE jobs SET state = %s, started_at = now() WHERE state IN ('toLaunch', 'Launching')", (state,)
        )


def run_pass(connection: Connection) -> None:
    """Run a scheduling pass, and let the jobs that it chose run."""
    decide(connection)
    let_run(connection)


class Submitter:
    """Runs commands in this process, as typed by the user who runs the tests."""

    def __init__(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        self._shell = shell
        self._patch = monkeypatch

    def __call__(self, *arguments: str, command: str = "oarsub") -> Result:
        return self.run(command, *arguments)

    def run(self, command: str, *arguments: str) -> Result:
        """Run a command, and return what it printed."""
        self._patch.setattr(sys, "argv", [command, *arguments])
        return self._shell(command, *arguments)

    def job_ids(self, *arguments: str) -> list[int]:
        """Submit what must be admitted; return the ids printed."""
        result = self(*arguments)
        assert (result.status, result.err) == (0, ""), result
        return [int(line[11:]) for line in result.out.splitlines() if line.startswith("OAR_JOB_ID=")]

    def job_id(self, *arguments: str) -> int:
        """Submit one job; return its id."""
        (job_id,) = self.job_ids(*arguments)
        return job_id


def submitter(
    environment: Mapping[str, str], patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Submitter:
    """Return a submitter on the database of ``environment``; root may submit, and the test's user is an admin."""
    patch.setenv("OARPY_CONFIG", environment["OARPY_CONFIG"])
    for name, value in settings().items():
        patch.setenv(name, value)
    return Submitter(Shell(capsys), patch)


def settings() -> dict[str, str]:
    """Return the settings under which the user who runs the tests may submit and is an admin; there is a broker."""
    from oarpy.client.session import user_name

    who = {"OARPY_SUBMISSION_REFUSED_USERS": "oar", "OARPY_SUBMISSION_ADMINS": user_name(os.getuid())}
    return {**who, "OARPY_GRID_ENABLED": "true"}


def process(environment: Mapping[str, str], *arguments: str, cwd: Any = None) -> Result:
    """Run a command as a process of its own."""
    done = subprocess.run(
        arguments,
        env={**environment, **settings()},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def contents(connection: Connection) -> dict[str, list[str]]:
    """Return every row of every table as text."""
    tables = [
        row[0] for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    ]
    query = sql.SQL("SELECT t::text FROM {} AS t ORDER BY 1")
    return {name: [row[0] for row in connection.execute(query.format(sql.Identifier(name)))] for name in tables}
