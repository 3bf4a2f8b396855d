"""Whose jobs a Slurm takes, by the account that the broker's command enters as."""

from __future__ import annotations

from pathlib import Path

import pytest

from oarpy.grid.calls.parts import GridPart, PartRequest
from oarpy.grid.calls.table import CallRefused, Prepare
from oarpy.grid.clusters.slurm.cluster import SlurmCluster


def slurm(folder: Path, uid: int) -> SlurmCluster:
    """Return a Slurm whose host has these commands: nobody has jobs, and the next one is 17."""
    commands = {"id": f"echo {uid}; echo asked >> {folder}/asked", "squeue": "true", "sbatch": "echo 17"}
    for name, text in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return SlurmCluster("west", ["env", f"HOME={folder}", f"PATH={folder}:/usr/bin:/bin"])


def prepare(cluster: SlurmCluster, user: str, name: str = "p1") -> str:
    """Have a part of a user made; return the job."""
    request = PartRequest(user=user, resources="/core=1", procs=1, walltime=60)
    return cluster.ask(Prepare(name, GridPart(name, "queued", request, "date"), 60, key=name)).job


def test_a_slurm_that_is_entered_as_root_takes_jobs_of_root_alone(tmp_path: Path) -> None:
    cluster = slurm(tmp_path, 0)
    with pytest.raises(CallRefused, match="entered as root, and jobs of 'ann' would be root's"):
        prepare(cluster, "ann")
    assert prepare(cluster, "root") == "17"


def test_an_account_takes_jobs_of_all_and_is_looked_at_once(tmp_path: Path) -> None:
    cluster = slurm(tmp_path, 1000)
    assert [prepare(cluster, "ann", name) for name in ("p1", "p2")] == ["17", "17"]
    assert (tmp_path / "asked").read_text() == "asked\n"
