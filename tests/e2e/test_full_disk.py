"""A server whose log cannot be written: it goes on as if nothing were wrong."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Settings, local_nodes, running_sandbox
from oarpy.model.errors import Unreachable
from oarpy.store.database import reachable
from tests.harness.server_processes import server_pids
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
DEADLINE = 60.0


def test_a_log_on_a_full_disk_stops_nobody(tmp_path: Path, dsn: str) -> None:
    (tmp_path / "server.log").symlink_to("/dev/full")
    settings: Settings = {"modules": {"restart_delay": 0.1}, "database": {"url": dsn}}
    with running_sandbox(tmp_path, settings, local_nodes("/host=n1/cpu={1}/core={1}")) as one:
        assert one.server is not None
        supervisor = one.server.pid
        (first,) = one.job_ids("true")
        one.wait_for([first], ["Terminated"], DEADLINE)
        for kind in ("launcher", "gateway"):
            before = server_pids(kind, supervisor, tmp_path)
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            until(
                lambda kind=kind, before=before: server_pids(kind, supervisor, tmp_path) not in ([], before),  # type: ignore[misc]
                f"another {kind}",
                DEADLINE,
            )
        (second,) = one.job_ids("true")
        one.wait_for([second], ["Terminated"], DEADLINE)
        assert one.server.poll() is None


@pytest.mark.parametrize("error", [psycopg.errors.DiskFull, psycopg.errors.TooManyConnections])
def test_a_database_without_room_is_told_from_one_that_is_lost(error: type[psycopg.OperationalError]) -> None:
    with pytest.raises(Unreachable, match="the database has no room to work: no space left") as met, reachable():
        raise error("no space left\nmore")
    assert "an admin has to make room for it" in str(met.value)
    with pytest.raises(Unreachable, match="the database connection was lost: gone"), reachable():
        raise psycopg.OperationalError("gone")
