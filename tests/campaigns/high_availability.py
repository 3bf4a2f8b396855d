"""Two servers on one replicated database, over real sshd nodes: each of them is killed in turn while jobs run.

``python -m tests.campaigns.high_availability`` runs it by hand and prints how long everything took. A test runs the
same.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, Settings
from oarpy.model.errors import OarpyError
from research.benchmarks.server_processes import children_of, parent_of
from tests.campaigns.books import wrong_books
from tests.campaigns.replicated_database import ReplicatedDatabase, replicated_database
from tests.harness import bare_environment
from tests.harness.passable_folder import passable_folder
from tests.harness.sshd_nodes import SshdCluster, start_nodes

NODES, CORES = 3, 4
UNREACHABLE = 6
_DEADLINE = 60.0


@dataclass(slots=True)
class Pair:
    """Two servers that share the database and the nodes, each with a gateway of its own."""

    first: Sandbox
    second: Sandbox
    url: str
    """The DSN of the database that takes writes."""
    work: Path
    seconds: dict[str, float] = field(default_factory=dict)
    """How long it took from each blow until a job submitted after it ran."""

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask whichever database takes writes."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query, values).fetchall()

    def leaders(self) -> set[str]:
        """The supervisors, ``first`` or ``second``, whose modules lead."""
        rows = self.sql("SELECT pid FROM module_runs WHERE at > now() - interval '2 minutes'")
        owners = {"first": self.first.server, "second": self.second.server}
        parents = {server.pid: name for name, server in owners.items() if server is not None}
        return {parents[parent] for (pid,) in rows if (parent := parent_of(pid)) in parents}

    def kill_server(self, sandbox: Sandbox) -> None:
        """Kill a server with all its processes at once, as when its machine dies."""
        assert sandbox.server is not None
        for pid in (*children_of(sandbox.server.pid), sandbox.server.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        sandbox.stop_server(signal.SIGKILL)

    def measure(self, what: str, sandbox: Sandbox, began: float) -> int:
        """Submit until it works, wait until that job runs, and note the seconds since ``began``."""
        job = self.submit(sandbox, "sleep 0.1")
        until(lambda: self.state(job) not in ("Waiting", "toLaunch", "Launching"), f"job {job} starts")
        self.seconds[what] = time.monotonic() - began
        return job

    def submit(self, sandbox: Sandbox, command: str, *options: str) -> int:
        """Submit through the gateway of ``sandbox``, again while the answer is "unreachable"."""
        end = time.monotonic() + _DEADLINE
        while True:
            done = sandbox.run("oarsub", *options, command, check=False)
            if done.returncode == 0:
                return int(done.stdout.partition("OAR_JOB_ID=")[2].split()[0])
            if done.returncode != UNREACHABLE or time.monotonic() > end:
                raise OarpyError(f"oarsub ended with {done.returncode}: {done.stderr}")

    def submit_all(self) -> tuple[list[int], list[int]]:
        """Have jobs run that end with :meth:`end_all`, and submit short ones after them; return both."""
        wait = f"while [ ! -e {self._gate} ]; do sleep 0.2; done"
        command = f"sh -c 'echo \"$OAR_JOB_ID $$\" >> {self.work}/begun; {wait}'"
        long = [self.submit(self.first, command, "-l", "/nodes=2/core=1") for _ in range(3)]
        until(lambda: all(self.state(job) == "Running" for job in long), "the long jobs run")
        return long, [self.submit(self.first, "sleep 0.3") for _ in range(10)]

    def end_all(self, long: list[int], others: list[int]) -> list[str]:
        """Let the long jobs end and wait for all; return what is wrong (nothing, if all is well)."""
        self._gate.touch()
        jobs = [*long, *others]
        until(lambda: all(self.state(job) in ("Terminated", "Error") for job in jobs), "all jobs end")
        until(lambda: self.sql("SELECT 1 FROM jobs WHERE NOT accounted") == [], "all jobs are accounted")
        with psycopg.connect(self.url, autocommit=True) as connection:
            wrong = wrong_books(connection)
        if (count := self.sql("SELECT count(*) FROM jobs")) != [(len(jobs),)]:
            wrong.append(f"{count} jobs are known, {len(jobs)} were submitted")
        begun = sorted(int(line.split()[0]) for line in (self.work / "begun").read_text().splitlines())
        if begun != sorted(long):
            wrong.append(f"the long jobs {long} began as {begun}")
        return wrong

    @property
    def _gate(self) -> Path:
        return self.work / "gate"

    def state(self, job: int) -> str:
        """The state of a job; ``unknown`` while the database is away."""
        try:
            return str(self.sql("SELECT state FROM jobs WHERE job_id = %s", job)[0][0])
        except psycopg.OperationalError:
            return "unknown"


def report(pair: Pair, wrong: Sequence[str]) -> int:
    """Print how long everything took and what is wrong; return the exit status, 1 if anything is."""
    for what, seconds in pair.seconds.items():
        print(f"{what}: a job submitted then ran after {seconds:.1f} s")
    print("\n".join(f"WRONG: {line}" for line in wrong) or "all jobs ended exactly once, books in order")
    return 1 if wrong else 0


def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for something true."""
    end = time.monotonic() + _DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise OarpyError(f"not within {_DEADLINE:g} s: {what}")
        time.sleep(0.02)


@contextmanager
def started(first: Sandbox, second: Sandbox, url: str, nodes: Iterable[tuple[str, str, int]]) -> Iterator[Pair]:
    """Start both servers, the first of which leads; ``nodes`` are names, addresses and ports of SSH servers."""
    with ExitStack() as stack:
        for sandbox in (first, second):
            sandbox.create()
            stack.callback(sandbox.stop)
        for name, address, port in nodes:
            where = ["--transport", "ssh", "--address", address, "--port", str(port)]
            first.run("oaradmin", "resources", "add", f"/host={name}/cpu={{1}}/core={{{CORES}}}", *where)
        pair = Pair(first, second, url, first.directory / "work")
        first.start()
        until(lambda: pair.leaders() == {"first"}, "the first server leads")
        second.start()
        yield pair


@contextmanager
def run_pair(directory: Path) -> Iterator[tuple[Pair, ReplicatedDatabase]]:
    """Run both servers, the database pair and the nodes below ``directory``."""
    with ExitStack() as stack:
        sshd = stack.enter_context(start_nodes(NODES, directory / "sshd"))
        database = stack.enter_context(replicated_database(directory / "postgresql"))
        settings = _settings(database, sshd, directory)
        first, second = Sandbox(directory / "first", settings), Sandbox(directory / "second", settings)
        nodes = [(node.name, node.address, node.port) for node in sshd.nodes]
        yield stack.enter_context(started(first, second, database.url, nodes)), database


def _settings(database: ReplicatedDatabase, sshd: SshdCluster, directory: Path) -> Settings:
    return {
        "database": {"url": database.url, "connect_timeout": 2},
        "nodes": {
            "user": sshd.user,
            "key_file": str(sshd.key_file),
            "known_hosts": str(sshd.known_hosts),
            "state_directory": str(directory / "nodes"),
        },
    }


def run(pair: Pair, database: ReplicatedDatabase) -> list[str]:
    """Strike server, database and server again; return what is wrong at the end (nothing, if all is well)."""
    long, burst = pair.submit_all()

    began = time.monotonic()
    pair.kill_server(pair.first)
    burst.append(pair.measure("the leading server killed", pair.second, began))

    began = time.monotonic()
    database.primary.kill()
    refused = pair.second.run("oarstat", check=False)
    database.promote()
    burst.append(pair.measure("the database's host killed, the standby promoted", pair.second, began))

    pair.first.start()
    began = time.monotonic()
    pair.kill_server(pair.second)
    burst.append(pair.measure("the second server killed, the first one back", pair.first, began))

    return [*pair.end_all(long, burst), *_wrong_refusal(refused.returncode, refused.stderr)]


def _wrong_refusal(status: int, message: str) -> list[str]:
    if status == UNREACHABLE and message.count("\n") == 1:
        return []
    return [f"oarstat without a database ended with {status}: {message}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it once and print what happened; exit status 1 if anything was wrong."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    with passable_folder("oarpy-ha-") as directory, run_pair(directory) as (pair, database):
        wrong = run(pair, database)
    return report(pair, wrong)


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
