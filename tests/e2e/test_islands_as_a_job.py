"""The optimiser of the examples as a job with a map: it is measured, mapped, and computes on two nodes."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from oarpy.local_cluster.transcript import FINAL

pytestmark = pytest.mark.e2e
PROGRAM = f"{shlex.quote(sys.executable)} -m oarpy.examples.island_optimiser.run_islands"


def test_islands_compute_where_the_map_says(tmp_path: Path, dsn: str) -> None:
    settings: Settings = {"database": {"url": dsn}, "scheduler": {"security_time": 1}}
    nodes = local_nodes("/host=node[1-2]/cpu={1}/core={1}")
    with running_sandbox(tmp_path / "cluster", settings, nodes) as sandbox:
        sandbox.wait_for_gateway(30)
        program(sandbox, "rate.sh", f'exec {PROGRAM} --individuals 64 --rate "$1" "$2"')
        program(sandbox, "islands", f'cp "$OAR_MAPFILE" "map.$1"\nexec {PROGRAM} --individuals 64 --model "$1"')
        for model in ("sync", "async"):
            computed(sandbox, model)


def computed(sandbox: Sandbox, model: str) -> None:
    """Run the program as a job on two nodes, and look at its map and its result."""
    mapped = ("--processes", "6", "--iterations", "50", "--sizes", "regular,random", "--model", model)
    asked = ("--rate", "./rate.sh", "-l", "/nodes=2/core=1", "-O", "found", "-E", "told", f"./islands {model}")
    job = int(sandbox.run("oarsub", *mapped, *asked).stdout.rpartition("OAR_JOB_ID=")[2])
    ended = sandbox.wait_for([job], FINAL, 120)
    work = sandbox.directory / "work"
    told = (work / "told").read_text(encoding="utf-8")
    assert ended[job] == "Terminated", told
    lines = [line.split() for line in (work / f"map.{model}").read_text(encoding="utf-8").splitlines()]
    assert {host for _, _, host, _, _ in lines} == {"node1", "node2"}
    assert sorted(size for _, size, _, _, _ in lines) == ["random"] * 3 + ["regular"] * 3
    found = (work / "found").read_text(encoding="utf-8").splitlines()[-1]
    assert re.match(r"6 processes on 2 cores: epsilon \d\.\d+, ", found), found + told


def program(sandbox: Sandbox, name: str, text: str) -> None:
    """Write a program into the folder of the user."""
    path = sandbox.directory / "work" / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
