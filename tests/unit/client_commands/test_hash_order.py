"""What the planner and the simulator print does not depend on how this interpreter orders hashes."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = re.compile(rb'"seconds": ?[0-9.e-]+')
"""How long it took differs between runs, and nothing else."""
REQUESTS = ("/core={}", "/nodes={}/core=2", "/switch=1/nodes={}", "/core={}+/nodes=1", "{{gpu = 'yes'}}/core={}")


def _scenario(seed: int) -> str:
    draw = random.Random(seed)
    rows = [
        {
            "id": n + 1,
            "network_address": f"n{n // 4}",
            "core": n,
            "switch": f"s{n // 16}",
            "gpu": ("yes", "no")[n // 4 % 2],
        }
        for n in range(64)
    ]
    roles = ("", "", "besteffort", "container=a", "inner=a", "timesharing=user,*", "placeholder=p", "allowed=p")
    jobs = [
        {
            "id": n,
            "user": f"user{draw.randrange(5)}",
            "project": f"project{draw.randrange(3)}",
            "queue": draw.choice(("default", "night")),
            "types": [kind] if (kind := draw.choice(roles)) else [],
            "requests": [
                {"resources": draw.choice(REQUESTS).format(draw.randint(1, 4)), "walltime": draw.randint(1, 50)}
                for _ in range(draw.randint(1, 2))
            ],
            "properties": draw.choice(("", "gpu = 'no'", "core < 40")),
            "depends_on": [draw.randrange(1, n)] if n > 1 and draw.random() < 0.1 else [],
        }
        for n in range(1, 121)
    ]
    queues = [{"name": "default", "priority": 3}, {"name": "night", "priority": 3, "policy": "smallest"}]
    quotas = [{"user": "/", "resources": 40}, {"project": "/", "type": "besteffort", "jobs": 3}]
    return json.dumps({"resources": rows, "queues": queues, "jobs": jobs, "quotas": quotas, "security_time": 1})


def _trace(seed: int) -> str:
    draw, lines, submit = random.Random(seed), [], 0
    for number in range(1, 201):
        submit += draw.randint(0, 30)
        run, procs = draw.randint(1, 400), draw.randint(1, 16)
        asked = run + draw.randint(0, 200)
        lines.append(
            f"{number} {submit} -1 {run} {procs} -1 -1 {procs} {asked} -1 1 {draw.randint(1, 9)} 1 1 1 1 -1 -1"
        )
    return "\n".join(lines) + "\n"


def _printed(seed: str, *arguments: str) -> bytes:
    command = [sys.executable, "-c", "from oarpy.commands.oarpy import main; main()", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONHASHSEED": seed})
    assert done.returncode == 0, done.stderr.decode()
    return SECONDS.sub(b"", done.stdout)


@pytest.mark.long
def test_plans_are_the_same_bytes_whatever_the_order_of_hashes(tmp_path: Path) -> None:
    paths = []
    for seed in range(3):
        path = tmp_path / f"{seed}.json"
        path.write_text(_scenario(seed), encoding="utf-8")
        paths.append(str(path))
    first = _printed("1", "plan", *paths)
    assert first.count(b'"verdict"') == 360
    assert first == _printed("2", "plan", *paths)


@pytest.mark.long
def test_replays_are_the_same_bytes_whatever_the_order_of_hashes(tmp_path: Path) -> None:
    trace = tmp_path / "trace.swf"
    trace.write_text(_trace(1), encoding="utf-8")
    printed = []
    for seed in ("1", "2"):
        jobs = tmp_path / f"{seed}.csv"
        arguments = (
            "--trace",
            str(trace),
            "--procs",
            "16",
            "--policy",
            "conservative",
            "--output",
            str(jobs),
            "--json",
        )
        _printed(seed, "simulate", *arguments)
        printed.append(jobs.read_bytes())
    assert printed[0].count(b"\n") > 200
    assert printed[0] == printed[1]
