"""A whole cluster over real sshd nodes: server modules as processes, jobs by ``oarsub``, and its processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from oarpy.local_cluster.sandbox import Sandbox
from research.benchmarks.server_processes import is_running, name_of, parent_of, pids_with
from tests.harness.passable_folder import passable_folder
from tests.harness.sshd_nodes import SshdCluster, SshdNode, find_sshd, start_nodes
from tests.harness.waiting import until

LOST_TIMEOUT = 6.0
NODES, CORES = 5, 2
IMPOSTOR = "node5"
"""Its host key is not the one that is known."""


def marked(mark: str) -> list[int]:
    """The processes of this machine whose ``OARPY_JOB`` begins with ``mark``."""
    wanted = f"OARPY_JOB={mark}".encode()
    return pids_with(lambda entry: entry.startswith(wanted))


def descendants(root: int) -> list[int]:
    """All processes below ``root``."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


@dataclass(slots=True)
class SshCluster:
    """The sandbox, its nodes, and an open connection to its database."""

    sandbox: Sandbox
    sshd: SshdCluster
    connection: psycopg.Connection[tuple[Any, ...]]
    instance: str
    revived: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        """Where jobs are submitted, and so run."""
        return self.sandbox.directory / "work"

    @property
    def client_options(self) -> str:
        """What a script gives to ``ssh`` so that it knows the nodes by name."""
        return " ".join(self.sshd.ssh_options())

    def node(self, name: str) -> SshdNode:
        """One node."""
        return next(node for node in self.sshd.nodes if node.name == name)

    def script(self, name: str, text: str) -> Path:
        """Write an executable script in the folder where jobs run."""
        path = self.work / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def submit(self, *arguments: str) -> int:
        """Submit one job."""
        (job,) = self.sandbox.job_ids(*arguments)
        return job

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask the database."""
        cursor = self.connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []

    def job(self, job: int, column: str = "state") -> Any:
        """One column of a job."""
        query = psycopg.sql.SQL("SELECT {} FROM jobs WHERE job_id = %s").format(psycopg.sql.Identifier(column))
        row = self.connection.execute(query, [job]).fetchone()
        assert row is not None
        return row[0]

    def wait_for(self, job: int, *states: str) -> None:
        """Wait until a job is in one of ``states``; not any more when it is over."""
        final = {"Terminated", "Error"}
        until(lambda: self.job(job) in {*states, *final}, lambda: f"job {job} is {self.job(job)}, not {states}")
        assert self.job(job) in states, (self.job(job), self.job(job, "message"))

    def mark(self, job: int) -> str:
        """The mark of all processes of a job's present attempt."""
        return f"{self.instance}/{job}/{self.job(job, 'attempt')}"

    def kill_node(self, name: str) -> None:
        """Kill sshd of a node, its connections and the agent behind them with SIGKILL; jobs run on there."""
        daemon = self.revived[name].pid if name in self.revived else self.node(name).pid
        below = descendants(daemon)
        connections = [pid for pid in below if name_of(pid).startswith("sshd")]
        agents = [pid for pid in below if _is_agent(pid) and not _is_agent(parent_of(pid))]
        for pid in (daemon, *connections, *agents):
            with suppress(ProcessLookupError):  # its connection may have just ended, as after the server was killed
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(is_running, (daemon, *connections, *agents))), f"node {name} is dead")

    def revive_node(self, name: str) -> None:
        """Start sshd of a node again."""
        home = self.node(name).directory
        command = [find_sshd(), "-D", "-f", str(home / "sshd_config"), "-E", str(home / "sshd.log")]
        self.revived[name] = subprocess.Popen(command)

    def delete_all(self) -> None:
        """Delete every live job and wait until they are over."""
        live = "SELECT job_id FROM jobs WHERE state NOT IN ('Terminated', 'Error')"
        self.sql(f"INSERT INTO kill_requests (job_id) {live} ON CONFLICT DO NOTHING")
        until(lambda: self.sql(live) == [], lambda: f"live jobs: {self.sql(live)}")

    def end_revived(self) -> None:
        """End the daemons that :meth:`revive_node` started, and their connections."""
        for process in self.revived.values():
            below = descendants(process.pid)
            process.kill()
            process.wait()
            for pid in below:
                if is_running(pid):
                    os.kill(pid, signal.SIGKILL)


@contextmanager
def run_cluster(
    database: Mapping[str, str], **sections: Mapping[str, str | int | float | bool | list[str]]
) -> Iterator[SshCluster]:
    """Run a cluster on ``database`` in a folder that every user may pass through (those of pytest are closed).

    ``sections`` are more of its configuration.
    """
    with passable_folder("oarpy-ssh-") as directory, start_nodes(NODES, directory / "sshd") as sshd:
        _falsify_host_key(sshd)
        settings = _settings(sshd)
        for name, values in sections.items():
            settings[name] = {**settings.get(name, {}), **values}
        sandbox = Sandbox(directory / "cluster", {**settings, "database": database})
        try:
            sandbox.create()
            sandbox.start()
            _add_nodes(sandbox, sshd)
            yield from _connected(sandbox, sshd)
        finally:
            sandbox.stop()


def _connected(sandbox: Sandbox, sshd: SshdCluster) -> Iterator[SshCluster]:
    with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
        row = connection.execute("SELECT instance::text FROM site").fetchone()
        assert row is not None
        cluster = SshCluster(sandbox, sshd, connection, row[0])
        tried = "SELECT count(*) FROM nodes WHERE channel <> 'unknown'"
        messages = "SELECT network_address, channel, channel_message FROM nodes"
        until(lambda: cluster.sql(tried) == [(NODES,)], lambda: f"not all nodes were tried: {cluster.sql(messages)}")
        try:
            yield cluster
        finally:
            sandbox.stop_server(signal.SIGTERM)
            for pid in marked(f"{cluster.instance}/"):
                os.kill(pid, signal.SIGKILL)
            cluster.end_revived()


def _settings(sshd: SshdCluster) -> dict[str, dict[str, str | int | float | bool | list[str]]]:
    return {
        "nodes": {
            "user": sshd.user,
            "key_file": str(sshd.key_file),
            "known_hosts": str(sshd.known_hosts),
            "lost_timeout": LOST_TIMEOUT,
            "ping_interval": 1.0,
        },
        "jobs": {"kill_grace": 1.0},
    }


def _add_nodes(sandbox: Sandbox, sshd: SshdCluster) -> None:
    for node in sshd.nodes:
        pattern = f"/host={node.name}/cpu={{1}}/core={{{CORES}}}"
        where = ["--transport", "ssh", "--address", node.address, "--port", str(node.port)]
        sandbox.run("oaradmin", "resources", "add", pattern, *where)


def _falsify_host_key(sshd: SshdCluster) -> None:
    """Know the impostor by the key of another node."""
    lines = sshd.known_hosts.read_text().splitlines()
    number = [node.name for node in sshd.nodes].index(IMPOSTOR)
    lines[number] = " ".join([lines[number].split()[0], *lines[0].split()[1:]])
    sshd.known_hosts.write_text("\n".join(lines) + "\n")


def _is_agent(pid: int) -> bool:
    return name_of(pid).startswith("python")
