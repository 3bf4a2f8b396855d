"""Many nodes on one machine, each with an agent of its own: ``oarpy bench nodes [--nodes N]``.

It measures the memory of the agents, the time until all channels are open, and the start of a job on all nodes. It
measures the latter again while one agent is stopped (SIGSTOP). Last, it tells how long the health check takes with a
node that does not come back.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, command, local_nodes
from oarpy.model.errors import OarpyError

from .results import save
from .server_processes import AGENT, LAUNCHER, holdings, node_of, server_processes

NODES = 200
LOST_TIMEOUT = 5.0
_DEADLINE = 300.0
_POLL = 0.01
_MIB = 1024


class ManyNodes:
    """A running cluster of ``count`` local nodes with one core each, and what is done to it."""

    def __init__(self, directory: Path, count: int) -> None:
        self.count = count
        self.sandbox = Sandbox(directory, {"log": {"level": "warning"}, "nodes": {"lost_timeout": LOST_TIMEOUT}})

    def start(self) -> float:
        """Start everything; return the seconds from the first node known to the last channel open."""
        self.sandbox.create()
        self.sandbox.start()
        self.sandbox.run(*local_nodes(f"/host=n[1-{self.count}]/cpu={{1}}/core={{1}}"))
        return self._seconds_until(lambda: self.nodes_in("connected") == self.count, "all channels are open")

    def stop(self) -> None:
        """Stop everything and remove the database."""
        self.sandbox.discard()

    def nodes_in(self, channel: str) -> int:
        """Count the nodes that have a channel in that state."""
        count = self._value("SELECT count(*) FROM nodes WHERE channel = %s", channel)
        return count if isinstance(count, int) else 0

    def suspected(self) -> list[str]:
        """Return the nodes that the health check has given up."""
        names = self._value(
            "SELECT coalesce(array_agg(DISTINCT network_address), '{}') FROM resources WHERE state = %s", "Suspected"
        )
        return [str(name) for name in names] if isinstance(names, list) else []

    def start_of_job(self, nodes: int, without: str = "") -> float:
        """Run a job on ``nodes`` nodes, and end it.

        Return the seconds from the start of ``oarsub`` until it is Running.
        """
        places = ["-p", f"network_address != '{without}'"] if without else []
        began = time.perf_counter()
        job = self.sandbox.job_ids("-l", f"/nodes={nodes},walltime=0:10:0", *places, "sleep 600")[0]
        state = "SELECT count(*) FROM jobs WHERE state = 'Running' AND job_id = %s"
        self._seconds_until(lambda: bool(self._value(state, job)), f"a job on {nodes} nodes runs")
        seconds = time.perf_counter() - began
        self.sandbox.run("oardel", str(job))
        live = "SELECT count(*) FROM jobs WHERE state NOT IN ('Terminated', 'Error') AND job_id = %s"
        self._seconds_until(lambda: not self._value(live, job), f"the job on {nodes} nodes has ended")
        return seconds

    def processes(self) -> dict[str, list[int]]:
        """Return the processes of the cluster by kind."""
        server = self.sandbox.server
        return server_processes(server.pid) if server else {}

    def agent_of(self, node: str) -> int:
        """Return the process of a node's agent."""
        return next(pid for pid in self.processes()[AGENT] if node_of(pid) == node)

    def pause(self, node: str) -> int:
        """Stop the agent of a node (SIGSTOP), as a machine that hangs. Return its process."""
        agent = self.agent_of(node)
        os.kill(agent, signal.SIGSTOP)
        return agent

    def break_node(self, node: str) -> Path:
        """Keep any agent from starting on the node: a file is where its folder was. Return where the folder is now."""
        folder = self.sandbox.directory / "nodes" / node
        kept = folder.with_name(f"{node}.kept")
        folder.rename(kept)
        folder.touch()
        return kept

    def mend_node(self, node: str, kept: Path) -> None:
        """Undo :meth:`break_node`."""
        folder = self.sandbox.directory / "nodes" / node
        folder.unlink()
        kept.rename(folder)

    def until_suspected(self) -> list[str]:
        """Wait until a node is suspected; return all that are."""
        self._seconds_until(lambda: bool(self.suspected()), "a node is suspected")
        return self.suspected()

    def until_healthy(self) -> float:
        """Wait until all nodes are connected and none is suspected; return the seconds waited."""
        return self._seconds_until(
            lambda: self.nodes_in("connected") == self.count and not self.suspected(), "all nodes are well"
        )

    def _value(self, statement: str, *values: object) -> object:
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            row: tuple[object, ...] | None = connection.execute(statement.encode(), values).fetchone()
        return row[0] if row else None

    @staticmethod
    def _seconds_until(condition: Callable[[], bool], what: str) -> float:
        began = time.perf_counter()
        while not condition():
            if time.perf_counter() - began > _DEADLINE:
                raise OarpyError(f"after {_DEADLINE:g} s it is still not so that {what}")
            time.sleep(_POLL)
        return time.perf_counter() - began


def measure(cluster: ManyNodes) -> dict[str, float]:
    """Run every measurement once."""
    report: dict[str, float] = {"nodes": cluster.count, "channels_open_seconds": cluster.start()}
    held = holdings(cluster.processes())
    agents, launcher = held[AGENT], held[LAUNCHER]
    report["agent_resident_mib"] = agents.resident / agents.processes / _MIB
    report["agent_shared_out_mib"] = agents.shared_out / agents.processes / _MIB
    report["all_agents_mib"] = agents.shared_out / _MIB
    report["launcher_mib"] = launcher.resident / _MIB
    report["launcher_threads"] = launcher.threads
    report["launcher_descriptors"] = launcher.descriptors
    cluster.start_of_job(1)
    report["job_on_one_seconds"] = cluster.start_of_job(1)
    report["job_on_all_seconds"] = cluster.start_of_job(cluster.count)
    return report | with_one_stopped(cluster, f"n{cluster.count // 2}")


def with_one_stopped(cluster: ManyNodes, node: str) -> dict[str, float]:
    """Stop a node's agent for good; measure the jobs of the others, then the health check, then the node's return."""
    began = time.perf_counter()
    cluster.pause(node)
    kept = cluster.break_node(node)
    report = {
        "stopped_job_on_one_seconds": cluster.start_of_job(1, without=node),
        "stopped_job_on_others_seconds": cluster.start_of_job(cluster.count - 1, without=node),
    }
    suspected = cluster.until_suspected()
    report["suspected_after_seconds"] = time.perf_counter() - began
    if suspected != [node]:
        raise OarpyError(f"suspected are {', '.join(suspected)}, and only {node} does not answer")
    cluster.mend_node(node, kept)
    report["back_after_seconds"] = cluster.until_healthy()
    return report


_MEANINGS = {
    "channels_open_seconds": "from the nodes being known until all channels are open, s",
    "agent_resident_mib": "one agent, resident, MiB",
    "agent_shared_out_mib": "one agent, shared pages divided among their users, MiB",
    "all_agents_mib": "all agents, the same, MiB",
    "launcher_mib": "launcher, resident, MiB",
    "launcher_threads": "launcher, threads",
    "launcher_descriptors": "launcher, descriptors",
    "job_on_one_seconds": "oarsub -l /nodes=1: from its start until Running, s",
    "job_on_all_seconds": "oarsub -l /nodes={nodes}: the same, s",
    "stopped_job_on_one_seconds": "one agent stopped: /nodes=1, s",
    "stopped_job_on_others_seconds": "one agent stopped: all the others, s",
    "suspected_after_seconds": "from the stop until that node (and no other) is Suspected, s",
    "back_after_seconds": "from its repair until it is Alive again, s",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--folder", type=Path, default=None, help="keep the cluster's data and logs there")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="oarpy-nodes-") as folder:
        cluster = ManyNodes(options.folder or Path(folder), options.nodes)
        try:
            report = measure(cluster)
        finally:
            cluster.stop()
    title = f"{options.nodes} nodes, lost_timeout {LOST_TIMEOUT:g} s, load {os.getloadavg()[0]:.1f}"
    lines = [title, *(f"{text.format(nodes=options.nodes):<72}{report[key]:>9.2f}" for key, text in _MEANINGS.items())]
    sys.stdout.write("\n".join(lines) + "\n")
    save("nodes", {"lost_timeout": LOST_TIMEOUT, **report})
    return 0


if __name__ == "__main__":
    if not Path(command("oarsub")).exists():
        raise SystemExit("install oarpy first: make test, or pip install -e '.[embedded]'")
    raise SystemExit(main())
