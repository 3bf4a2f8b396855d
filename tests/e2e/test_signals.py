"""Signals, checkpoints and kills on every node of a job: real processes on two nodes, its program and a step."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, command, local_nodes, running_sandbox
from research.benchmarks.server_processes import is_running
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
DEADLINE = 60.0


@dataclass(slots=True)
class Spread:
    """A job with its program on the first node and a step on the second one; each notes the signals it catches."""

    cluster: Sandbox
    job: int
    files: dict[str, Path]
    step: subprocess.Popen[str]

    def wait_for(self, node: str, word: str) -> None:
        """Wait until the process on a node has noted something."""
        until(lambda: word in self.notes(node), f"{node}: {word}")

    def notes(self, node: str) -> list[str]:
        """What the process on a node has noted: first its process id."""
        return self.files[node].read_text().split() if self.files[node].exists() else []

    def pid(self, node: str) -> int:
        """The process on a node."""
        return int(self.notes(node)[0])

    def state(self) -> str:
        """The job's state."""
        with psycopg.connect(self.cluster.dsn()) as connection:
            row = connection.execute("SELECT state FROM jobs WHERE job_id = %s", [self.job]).fetchone()
        assert row is not None
        return str(row[0])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cluster_database: dict[str, str]) -> Iterator[Sandbox]:
    nodes = local_nodes("/host=n[1-2]/cpu={1}/core={1}")
    settings: Settings = {"jobs": {"kill_grace": 4.0}, "database": cluster_database}
    with running_sandbox(tmp_path_factory.mktemp("signals"), settings, nodes) as made:
        yield made


@contextmanager
def spread(cluster: Sandbox, name: str, traps: str, *options: str, walltime: str = "0:10:0") -> Iterator[Spread]:
    """Run a job whose two processes have these traps, in which ``$F`` is the file for notes."""
    files = {node: cluster.directory / "work" / f"{name}.{node}" for node in ("n1", "n2")}
    text = traps + "; echo $$ > $F; while :; do sleep 0.1; done"
    request = ["-l", f"/nodes=2,walltime={walltime}", *options]
    (job,) = cluster.job_ids(*request, f"F={files['n1']}; {text}")
    until(files["n1"].exists, "the job does not run")
    cluster.wait_for([job], ["Running"], DEADLINE)
    words = [command("oarsh"), "-n", "-j", str(job), "n2", f"F={files['n2']}; {text}"]
    with subprocess.Popen(words, env=cluster.environment(), text=True) as step:
        made = Spread(cluster, job, files, step)
        try:
            until(lambda: bool(made.notes("n2")) and bool(made.notes("n1")), "both run")
            yield made
        finally:
            if made.state() not in ("Terminated", "Error", "Finishing"):
                cluster.run("oardel", str(job))
            until(lambda: made.state() in ("Terminated", "Error"), "it is over")
            step.wait(DEADLINE)


NOTING = "trap 'echo usr1 >> $F' USR1; trap 'echo usr2 >> $F' USR2"
SAVING = "trap 'echo term >> $F; sleep 0.5; echo saved >> $F; exit 0' TERM"
DEAF = "trap '' TERM HUP"


def test_a_signal_and_a_checkpoint_reach_both_nodes_once(cluster: Sandbox) -> None:
    with spread(cluster, "signal", NOTING) as job:
        cluster.run("oardel", "-s", "USR1", str(job.job))
        for node in ("n1", "n2"):
            job.wait_for(node, "usr1")
        cluster.run("oardel", "-c", str(job.job))
        for node in ("n1", "n2"):
            job.wait_for(node, "usr2")
            assert job.notes(node)[1:] == ["usr1", "usr2"]


def test_the_checkpoint_before_the_walltime_reaches_both_nodes_once(cluster: Sandbox) -> None:
    options = ["--checkpoint", "20", "--signal", "10"]
    with spread(cluster, "checkpoint", NOTING, *options, walltime="0:0:32") as job:
        for node in ("n1", "n2"):
            job.wait_for(node, "usr1")
            assert job.notes(node)[1:] == ["usr1"]
        assert job.state() == "Running"


@pytest.mark.parametrize("asked", [True, False], ids=["oardel", "walltime"])
def test_both_nodes_get_term_and_time(cluster: Sandbox, asked: bool) -> None:
    with spread(cluster, f"term-{asked}", SAVING, walltime="0:10:0" if asked else "0:0:10") as job:
        pids = [job.pid(node) for node in ("n1", "n2")]
        if asked:
            cluster.run("oardel", str(job.job))
        for node in ("n1", "n2"):
            job.wait_for(node, "saved")
        until(lambda: job.state() == "Error", "the job ends")
        assert not any(map(is_running, pids))


def test_who_ignores_term_is_killed_on_both_nodes(cluster: Sandbox) -> None:
    with spread(cluster, "deaf", DEAF) as job:
        pids = [job.pid(node) for node in ("n1", "n2")]
        cluster.run("oardel", str(job.job))
        until(lambda: job.state() == "Error", "the job ends")
        assert not any(map(is_running, pids))
