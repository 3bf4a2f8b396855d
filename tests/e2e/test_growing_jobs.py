"""Jobs that grow and shrink for real: files, processes and log-ins on their nodes, whoever is killed in between."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, command, local_nodes, running_sandbox
from oarpy.store.jobs import extensions, resizes
from oarpy.store.platform import site
from oarpy.wire.jobs import JobKey
from research.benchmarks.server_processes import children_of, server_processes
from tests.harness.transport_driver import marked
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

DEADLINE = 90.0
Truth = psycopg.Connection[tuple[Any, ...]]

# The present nodes as the job itself reads them, in a file that is replaced whole.
JOB = "while :; do uniq $OAR_NODEFILE > next && mv next seen; sleep 0.02; done"
HELD = """
    SELECT array_agg(DISTINCT r.network_address ORDER BY r.network_address)
    FROM assigned_resources a JOIN resources r USING (resource_id)
    WHERE a.job_id = %s AND upper_inf(a.during) AND NOT EXISTS (
        SELECT FROM resizes s WHERE s.job_id = a.job_id AND s.done_at IS NULL)
"""
NODE = "SELECT array_agg(resource_id) FROM resources WHERE network_address = %s"


@dataclass(slots=True)
class Growing:
    """A cluster of three nodes, its database, and a job that runs on the second one."""

    sandbox: Sandbox
    truth: Truth
    job: int

    def grow(self) -> None:
        """Ask for one host more."""
        extensions.ask(self.truth, self.job, "firm", None, {"": 1})

    def leave(self, node: str) -> None:
        """Give a host back."""
        ((resources,),) = self.truth.execute(NODE, [node]).fetchall()
        assert resizes.order(self.truth, self.job, "release", resources) is not None

    def settled(self, *nodes: str) -> None:
        """Wait until the job has these nodes, and reads so; the first one first."""

        def held() -> list[str] | None:
            row = self.truth.execute(HELD, [self.job]).fetchone()
            return None if row is None else row[0]

        until(lambda: held() == sorted(nodes), lambda: f"holds {held()}, not {nodes}")
        seen = self.sandbox.directory / "work" / "seen"
        until(lambda: seen.exists() and seen.read_text().split() == [*nodes], lambda: f"reads {seen.read_text()}")

    def oarsh(self, node: str, text: str) -> subprocess.CompletedProcess[str]:
        """Run a step of the job."""
        words = [command("oarsh"), "-j", str(self.job), node, text]
        environment = self.sandbox.environment()
        return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=DEADLINE, check=False)

    def step(self, node: str) -> subprocess.Popen[bytes]:
        """Begin a step that does not end by itself; it runs when this returns."""
        words = [command("oarsh"), "-j", str(self.job), node, "echo begun; exec sleep 600"]
        step = subprocess.Popen(words, stdout=subprocess.PIPE, env=self.sandbox.environment())
        assert step.stdout is not None
        assert step.stdout.readline() == b"begun\n"
        return step

    def processes(self) -> list[int]:
        """The processes of the job, on any node."""
        return marked(JobKey(self.job, 1), site.instance(self.truth))

    def steps(self) -> list[int]:
        """The processes of steps that have begun."""
        return [pid for pid in self.processes() if _words(pid) == ["sleep", "600"]]

    def launcher(self) -> int:
        """The process that talks to nodes."""
        assert self.sandbox.server is not None
        supervisor = self.sandbox.server.pid
        until(lambda: "launcher" in server_processes(supervisor), "a launcher")
        return server_processes(supervisor)["launcher"][0]

    def die_before_telling(self, change: Callable[[], None], decided: str) -> None:
        """Make a change, wait until a row of it is there, and kill launcher and agents before they do it."""
        launcher = self.launcher()
        os.kill(launcher, signal.SIGSTOP)
        change()
        until(lambda: (self.truth.execute(decided, [self.job]).fetchone() or (0,))[0], decided)
        for pid in (*children_of(launcher), launcher):
            os.kill(pid, signal.SIGKILL)


def _words(pid: int) -> list[str]:
    """The words of a process, none if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    return []


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory, cluster_database: dict[str, str]) -> Iterator[Sandbox]:
    nodes = local_nodes("/host=n[1-3]/cpu={1}/core={2}")
    settings: Settings = {
        "modules": {"restart_delay": 0.1},
        "jobs": {"kill_grace": 1.0},
        "database": cluster_database,
    }
    with running_sandbox(tmp_path_factory.mktemp("growing"), settings, nodes) as made:
        yield made


@pytest.fixture
def growing(sandbox: Sandbox) -> Iterator[Growing]:
    (sandbox.directory / "work" / "seen").unlink(missing_ok=True)
    (job,) = sandbox.job_ids("-l", "{host='n2'}/nodes=1,walltime=1:0:0", JOB)
    sandbox.wait_for([job], ["Running"], DEADLINE)
    with psycopg.connect(sandbox.dsn(), autocommit=True) as truth:
        made = Growing(sandbox, truth, job)
        made.settled("n2")
        yield made
        sandbox.run("oardel", str(job), check=False)
        sandbox.wait_for([job], ["Error"], DEADLINE)
        assert made.processes() == []
        assert not list((sandbox.directory / "nodes").glob(f"*/files/{job}.*"))


def test_a_job_works_on_a_host_that_it_got_and_no_more_on_one_that_it_gave_back(growing: Growing) -> None:
    more = growing.sandbox.run("oarresize", str(growing.job), "+1")
    assert more.stdout == f"Granted: job {growing.job} has n1.\n"
    growing.settled("n2", "n1")
    assert growing.oarsh("n1", "uniq $OAR_NODEFILE; echo $OAR_JOB_ID").stdout.split() == ["n2", "n1", str(growing.job)]
    with growing.step("n1") as step:
        until(growing.steps, "the step runs on the host that the job got")
        fewer = growing.sandbox.run("oarresize", str(growing.job), "-n1")
        assert fewer.stdout == f"Released: job {growing.job} has n1 no more.\n"
        growing.settled("n2")
        assert step.wait(DEADLINE) != 0
    assert growing.steps() == []
    refused = growing.oarsh("n1", "true")
    assert refused.returncode == 4
    assert refused.stderr.startswith(f"oarsh: 'n1' is not a node of job {growing.job}")
    (other,) = growing.sandbox.job_ids("-l", "{host='n1'}/nodes=1,walltime=0:1:0", "true")
    growing.sandbox.wait_for([other], ["Terminated"], DEADLINE)
    growing.grow()
    growing.settled("n2", "n1")
    assert growing.oarsh("n1", "exit 3").returncode == 3


def test_nothing_is_lost_when_launcher_and_agents_are_killed_between(growing: Growing) -> None:
    ordered = "SELECT count(*) FROM resizes WHERE job_id = %s AND done_at IS NULL"
    growing.die_before_telling(growing.grow, ordered)
    growing.settled("n2", "n1")
    with growing.step("n1") as step:
        growing.die_before_telling(lambda: growing.leave("n1"), ordered)
        growing.settled("n2")
        step.wait(DEADLINE)
    assert growing.oarsh("n1", "true").returncode == 4
    rows = growing.truth.execute("SELECT kind FROM resizes WHERE job_id = %s ORDER BY resize_id", [growing.job])
    assert rows.fetchall() == [("grant",), ("release",)]


def test_a_job_that_ends_while_it_grows_leaves_nothing(growing: Growing) -> None:
    launcher = growing.launcher()
    os.kill(launcher, signal.SIGSTOP)
    growing.grow()
    ordered = "SELECT count(*) FROM resizes WHERE job_id = %s"
    until(lambda: growing.truth.execute(ordered, [growing.job]).fetchall() == [(1,)], "the grant is ordered")
    growing.sandbox.run("oardel", str(growing.job))
    os.kill(launcher, signal.SIGCONT)
    growing.sandbox.wait_for([growing.job], ["Error"], DEADLINE)
    until(lambda: resizes.opened(growing.truth) == [], "no resize is open")
    states = "SELECT DISTINCT state FROM extensions WHERE job_id = %s"
    until(lambda: growing.truth.execute(states, [growing.job]).fetchall() == [("Over",)], "the extension is over")
