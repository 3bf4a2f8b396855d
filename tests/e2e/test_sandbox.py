"""A cluster in a folder that is thrown away while jobs run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import local_nodes, running_sandbox
from research.benchmarks.server_processes import all_pids, environment_of
from tests.harness.waiting import DEADLINE, until

pytestmark = pytest.mark.e2e


def test_nothing_goes_on_of_a_cluster_that_is_gone(tmp_path: Path) -> None:
    """Its jobs neither, also what left their process tree; nor the supervisors of these, nor what is in memory."""
    folder = tmp_path / "cluster"
    with running_sandbox(folder, {}, local_nodes("/host=n1/cpu={1}/core={2}")) as cluster:
        jobs = cluster.job_ids("-l", "/core=2", "sh -c 'setsid sleep 600 & sleep 600'")
        cluster.wait_for(jobs, ["Running"], DEADLINE)
        assert len(_processes_of(folder)) > 2
        calls = (folder / "nodes" / "n1" / "calls").resolve()
        assert calls.is_dir()
    until(lambda: not _processes_of(folder), "processes are left")
    assert not calls.exists()


def test_a_cluster_below_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its paths are written with ``~``: jobs run, passes are recorded, applications can negotiate."""
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = {"gateway": {"socket": "~/run/gateway"}, "scheduler": {"record_passes": "~/passes"}}
    with running_sandbox(tmp_path / "cluster", settings, local_nodes("/host=n1/cpu={1}/core={2}")) as cluster:
        cluster.wait_for(cluster.job_ids("true"), ["Terminated"], DEADLINE)
        assert list((tmp_path / "passes").iterdir())
        for name in ("gateway", "negotiator.sock"):
            until((tmp_path / "run" / name).is_socket, f"nobody listens at {name}")


def _processes_of(folder: Path) -> list[int]:
    return [pid for pid in all_pids() if os.fsencode(f"{folder}/") in environment_of(pid)]
