"""A whole cluster with prologues, epilogues and a host for deploy jobs, of which processes are killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from tests.harness.server_processes import server_pids
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
DEADLINE = 60.0
KINDS = ("prologue", "epilogue", "server_prologue", "server_epilogue")

# Each notes what it is run for; that of a node also where: the node files of local nodes are in folders of their own.
_SCRIPT = """\
#!/bin/sh
echo "{kind} $1 $(basename "$(dirname "$(dirname "$3")")")" >> {folder}/log
while test -e {folder}/hold.{kind}; do sleep 0.05; done
test ! -e {folder}/fail.{kind}.$1
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cluster_database: dict[str, str]) -> Iterator[Sandbox]:
    folder = tmp_path_factory.mktemp("scripts")
    for kind in KINDS:
        path = folder / kind
        path.write_text(_SCRIPT.format(kind=kind, folder=folder))
        path.chmod(0o755)
    (folder / "log").touch()
    scripts = {kind: str(folder / kind) for kind in KINDS}
    settings: Settings = {
        "jobs": {"kill_grace": 1.0, "deploy_host": "localhost", **scripts},
        "database": cluster_database,
    }
    nodes = local_nodes("/host=n[1-2]/core={2}", "-p", "deploy=YES")
    with running_sandbox(folder / "cluster", settings, nodes) as made:
        yield made


def ran(cluster: Sandbox, job: int) -> Counter[str]:
    """How often each script ran for a job, with its node."""
    lines = (cluster.directory.parent / "log").read_text().splitlines()
    return Counter(f"{kind} {node}" for kind, one, node in map(str.split, lines) if one == str(job))


def expected(*nodes: str) -> Counter[str]:
    on_nodes = [f"{kind} {node}" for node in nodes for kind in ("prologue", "epilogue")]
    return Counter([*on_nodes, "server_prologue .", "server_epilogue ."])


def kill_launcher(cluster: Sandbox) -> None:
    assert cluster.server is not None
    (pid,) = server_pids("launcher", cluster.server.pid, cluster.directory / "postgresql")
    os.kill(pid, signal.SIGKILL)


def test_every_script_runs_once_for_every_job_on_every_node(cluster: Sandbox) -> None:
    wide = cluster.job_ids("-l", "/nodes=2/core=1", "date")
    narrow = cluster.job_ids("--array", "4", "-l", "/core=1", "date")
    cluster.wait_for([*wide, *narrow], ["Terminated"], DEADLINE)
    assert ran(cluster, wide[0]) == expected("n1", "n2")
    for job in narrow:
        assert ran(cluster, job) in (expected("n1"), expected("n2"))


def test_nodes_that_a_job_gets_and_gives_back_have_their_scripts_each_time(cluster: Sandbox) -> None:
    (job,) = cluster.job_ids("-l", "{host='n1'}/nodes=1,walltime=1:0:0", "sleep 600")
    cluster.wait_for([job], ["Running"], DEADLINE)
    for _ in range(2):
        assert cluster.run("oarresize", str(job), "+1").stdout == f"Granted: job {job} has n2.\n"
        assert cluster.run("oarresize", str(job), "-n2").stdout == f"Released: job {job} has n2 no more.\n"
    assert ran(cluster, job)["epilogue n1"] == 0
    cluster.run("oardel", str(job))
    cluster.wait_for([job], ["Error"], DEADLINE)
    assert ran(cluster, job) == expected("n1", "n2", "n2")


@pytest.mark.parametrize("kind", ["prologue", "epilogue"])
def test_a_launcher_killed_during_the_scripts_of_nodes_loses_nothing(cluster: Sandbox, kind: str) -> None:
    hold = cluster.directory.parent / f"hold.{kind}"
    hold.touch()
    (job,) = cluster.job_ids("-l", "/nodes=2/core=1", "date")
    until(lambda: ran(cluster, job)[f"{kind} n1"] + ran(cluster, job)[f"{kind} n2"] == 2, f"no {kind}")
    kill_launcher(cluster)
    hold.unlink()
    cluster.wait_for([job], ["Terminated"], DEADLINE)
    assert ran(cluster, job) == expected("n1", "n2")


def test_a_launcher_killed_during_the_prologue_of_the_server_ends_the_job_and_says_so(cluster: Sandbox) -> None:
    hold = cluster.directory.parent / "hold.server_prologue"
    hold.touch()
    (job,) = cluster.job_ids("-l", "/nodes=2/core=1", "date")
    until(lambda: ran(cluster, job)["server_prologue ."] == 1, "no prologue")
    kill_launcher(cluster)
    hold.unlink()
    cluster.wait_for([job], ["Error"], DEADLINE)
    assert ran(cluster, job) == Counter(["server_prologue .", "server_epilogue ."])
    assert "SERVER_PROLOGUE_LOST" in cluster.run("oarstat", "-e", "-j", str(job)).stdout


def test_a_deploy_job_runs_on_its_host(cluster: Sandbox) -> None:
    work = cluster.directory / "work"
    (job,) = cluster.job_ids(
        "-t", "deploy", "-l", "/nodes=2", "sort -u $OAR_NODEFILE; dirname $(dirname $OAR_NODEFILE)"
    )
    cluster.wait_for([job], ["Terminated"], DEADLINE)
    assert ran(cluster, job) == expected("localhost")
    *nodes, state = (work / f"OAR.{job}.stdout").read_text().split()
    assert (nodes, Path(state).name) == (["n1", "n2"], "localhost")


def test_a_failing_prologue_of_a_node_is_its_nodes_affair(cluster: Sandbox) -> None:
    folder = cluster.directory.parent
    (last,) = cluster.job_ids("-l", "/core=1", "date")
    cluster.wait_for([last], ["Terminated"], DEADLINE)
    fail = folder / f"fail.prologue.{last + 1}"
    fail.touch()
    (job,) = cluster.job_ids("-t", "idempotent", "-l", "/core=1", "date")
    assert job == last + 1
    cluster.wait_for([job], ["Error"], DEADLINE)
    cluster.wait_for([job + 1], ["Terminated"], DEADLINE)
    assert cluster.run("oarnodes", "-s").stdout.count("Suspected") == 2
    cluster.run("oarnodesetting", "-s", "Alive", "-h", "n1", "-h", "n2")
