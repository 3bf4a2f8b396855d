"""The guide of backup and restore: its commands, as they stand there, bring a database back that was damaged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from oarpy.client import installation
from oarpy.postgres.account import account
from oarpy.postgres.binaries import binaries
from oarpy.store.platform import site
from tests.harness.sample_cluster import Connection, add_job, add_nodes

pytestmark = pytest.mark.db

GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "guides" / "backup.md"


def commands(name: str) -> str:
    """The block of the guide with this name."""
    (block,) = re.findall(rf"^```sh {name}\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(block)


def test_commands_of_the_guide_bring_back_what_was_there(
    dsn: str, connection: Connection, cluster_environment: dict[str, str], tmp_path: Path, postgres_version: str
) -> None:
    programs = binaries(postgres_version, account())
    path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))

    def run(name: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands(name)],
            cwd=tmp_path,
            env={**cluster_environment, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    installation.upgrade(dsn)
    add_nodes(connection, "n1", "n2")
    kept = add_job(connection)
    assert site.generation(connection).number == 0
    run("backup")
    lost = add_job(connection)
    connection.execute("DROP TABLE module_runs")
    connection.execute("UPDATE resources SET state = 'Dead'")
    connection.close()
    assert run("restore") == "restored; the database is as it should be\n"
    with psycopg.connect(dsn, autocommit=True) as restored:
        assert restored.execute("SELECT array_agg(job_id) FROM jobs").fetchone() == ([kept],)
        assert restored.execute("SELECT DISTINCT state FROM resources").fetchall() == [("Alive",)]
        assert site.generation(restored).number == 1
        again = add_job(restored)
        assert again > lost
        assert restored.execute("SELECT count(*) FROM event_logs WHERE type = 'RESTORED'").fetchone() == (1,)
    assert "generation" in run("look")
