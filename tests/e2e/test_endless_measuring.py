"""A rate script that never ends: its job is ended, and told; what waits runs with the walltime of its user, or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from oarpy.local_cluster.transcript import FINAL

pytestmark = pytest.mark.e2e
MAPPED = ("--processes", "2", "--iterations", "50", "--sizes", "a", "--rate", "./rate.sh")


def test_measuring_ends_at_its_limit(tmp_path: Path, dsn: str) -> None:
    settings: Settings = {"database": {"url": dsn}, "processes": {"rate_limit": 3}, "scheduler": {"security_time": 1}}
    with running_sandbox(tmp_path / "cluster", settings, local_nodes("/host=node1/cpu={1}/core={2}")) as sandbox:
        sandbox.wait_for_gateway(30)
        for name, text in (("rate.sh", "exec sleep 600"), ("program", 'echo "map: $OAR_MAPFILE"')):
            path = sandbox.directory / "work" / name
            path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            path.chmod(0o755)
        own = submitted(sandbox, "-l", "core=1,walltime=0:10:0", "-O", "out")
        without = submitted(sandbox, "-l", "core=1")
        ended = sandbox.wait_for([own, without], FINAL, 120)
        assert ended == {own: "Terminated", without: "Error"}, sandbox.run("oarstat", "-f").stdout
        assert (sandbox.directory / "work" / "out").read_text(encoding="utf-8") == "map: \n"
        told = sandbox.run("oarstat", "-f", "-j", str(own)).stdout
        assert "walltime = 0:10:0" in told, told
        for job in (own, without):
            events = sandbox.run("oarstat", "--events", "-j", str(job)).stdout
            assert "NOT_MAPPED" in events, events
        told = sandbox.run("oarstat", "-f", "-j", str(min(own, without) - 1)).stdout
        assert "name = rates" in told, told
        assert "message = killed: its walltime was over" in told, told


def submitted(sandbox: Sandbox, *options: str) -> int:
    """Submit the program; return its job."""
    return int(sandbox.run("oarsub", *MAPPED, *options, "./program").stdout.rpartition("OAR_JOB_ID=")[2])
