"""``oarsrun`` across two nodes, through the gateway and without it, from outside the job and from inside."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, command, local_nodes, running_sandbox
from research.benchmarks.server_processes import is_running

pytestmark = pytest.mark.e2e
DEADLINE = 60.0
WAYS = pytest.mark.parametrize("way", [{}, {"OARPY_GATEWAY_SOCKET": ""}], ids=["gateway", "direct"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cluster_database: dict[str, str]) -> Iterator[Sandbox]:
    nodes = local_nodes("/host=n[1-2]/cpu={1}/core={2}")
    settings: Settings = {"jobs": {"kill_grace": 1.0}, "database": cluster_database}
    with running_sandbox(tmp_path_factory.mktemp("oarsrun"), settings, nodes) as made:
        yield made


@pytest.fixture(scope="module")
def job(cluster: Sandbox) -> str:
    (found,) = cluster.job_ids("-l", "/nodes=2/core=2", "sleep 600")
    cluster.wait_for([found], ["Running"], DEADLINE)
    return str(found)


def oarsrun(cluster: Sandbox, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    environment = {**cluster.environment(), **variables}
    return subprocess.run(
        [command("oarsrun"), *words], capture_output=True, env=environment, text=True, timeout=DEADLINE, check=False
    )


@WAYS
def test_once_on_each_node_and_the_worst_status(cluster: Sandbox, job: str, way: dict[str, str]) -> None:
    script = "echo $OAR_STEP_RANK of $OAR_STEP_SIZE in $OAR_JOB_ID; printf no-end >&2; exit $((OAR_STEP_RANK * 3))"
    done = oarsrun(cluster, script, OAR_JOB_ID=job, **way)
    assert done.returncode == 3
    assert sorted(done.stdout.splitlines()) == [f"n1: 0 of 2 in {job}", f"n2: 1 of 2 in {job}"]
    assert sorted(done.stderr.splitlines()) == ["n1: no-end", "n2: no-end"]


def test_json(cluster: Sandbox, job: str) -> None:
    done = oarsrun(cluster, "-J", "-j", job, "echo $OAR_STEP_RANK; kill -9 $$")
    assert done.returncode == 137
    ends = [
        {"rank": rank, "host": f"n{rank + 1}", "status": 137, "error": None, "stdout": f"{rank}\n", "stderr": ""}
        for rank in (0, 1)
    ]
    assert json.loads(done.stdout) == {"job_id": int(job), "status": 137, "processes": ends}


@WAYS
def test_an_interrupt_ends_all_processes(cluster: Sandbox, job: str, way: dict[str, str]) -> None:
    process = subprocess.Popen(
        [command("oarsrun"), "-j", job, "--no-prefix", "trap '' HUP TERM; echo $$; while :; do sleep 0.2; done"],
        stdout=subprocess.PIPE,
        env={**cluster.environment(), **way},
        text=True,
    )
    assert process.stdout is not None
    pids = [int(process.stdout.readline()) for _ in range(2)]
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 130
    process.stdout.close()
    end = time.monotonic() + DEADLINE
    while any(map(is_running, pids)):
        assert time.monotonic() < end, "they run on"
        time.sleep(0.1)


def test_what_is_refused_is_said_in_a_line(cluster: Sandbox, job: str) -> None:
    for words, status, what in (
        (("-j", job, " "), 2, "no command"),
        (("-j", "99999", "true"), 4, "there is no job 99999"),
        (("true",), 2, "no job given"),
    ):
        done = oarsrun(cluster, *words)
        assert done.returncode == status, done
        assert done.stderr.startswith(f"oarsrun: {what}")
        assert done.stderr.count("\n") == 1
    done = oarsrun(cluster, "-j", job, "/no/such/program")
    assert done.returncode == 127


def test_inside_a_job(cluster: Sandbox, job: str) -> None:
    cluster.run("oardel", job)
    (inside,) = cluster.job_ids("-l", "/nodes=2/core=2", f"{command('oarsrun')} echo here > out 2>&1; echo $? >> out")
    out = Path(cluster.directory, "work", "out")
    end = time.monotonic() + DEADLINE
    while "Terminated" not in cluster.run("oarstat", "-s", "-j", str(inside)).stdout:
        assert time.monotonic() < end, "the job does not end"
        time.sleep(0.1)
    lines = out.read_text().splitlines()
    assert (sorted(lines[:2]), lines[2:]) == (["n1: here", "n2: here"], ["0"])
