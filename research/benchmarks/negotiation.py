"""Applications that negotiate, and what they cost: ``oarpy bench negotiation [--applications N]``.

Launchers of 200 applications wait for hosts among 1,000 batch jobs on 1,024 hosts. Jobs end early, by twos: the first
one when all is at rest, the second one right after the pass that saw the first. Measured is the time from the commit of
an end until the last launcher has read the view that shows it; each answers it with ``keep``. Agents are left out:
what the launcher module and the nodes do is written by the benchmark.

Then a pass is decided again in this process, with the time that each view takes, and connections are left idle. Last, a
job on four real nodes asks for a host and gives it back, some times.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.configuration import load
from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes
from oarpy.model.errors import OarpyError
from oarpy.modules.registry import module_command
from oarpy.negotiation.core import cluster_pass
from oarpy.scheduler.decide import decide
from oarpy.store import database

from .growing_job import grant_times
from .launcher_connections import LauncherConnection, LauncherCrowd
from .processor_time import of_processes, session_of
from .results import save
from .server_processes import children_of, holding

MODULES = ("automaton", "metascheduler", "negotiator")
SETTINGS: Settings = {
    "log": {"level": "warning"},
    "negotiation": {
        "connections": 4000,
        "connections_per_user": 4000,
        "first_request_timeout": 36_000.0,
        "patience": 36_000.0,
    },
}
TIMER = 1.0
"""Seconds of the re-scheduling timer, which is the default."""
_ARRAY = 20
"""Batch jobs of one submission."""
_QUIET = 1.5 * TIMER
_DEADLINE = 120.0
_KEPT_AT = 15.0
"""Seconds until hosts that were freed are kept back, if they are."""
_BEGIN = re.compile(rb'"changes":\{[^\[]*\[(\d+)')

_LET_RUN = """
    UPDATE jobs SET state = %s, started_at = coalesce(started_at, now()) WHERE state IN ('toLaunch', 'Launching')
"""
_END = (
    "UPDATE jobs SET state = 'Finishing', final_state = 'Terminated' WHERE job_id = %s",
    "UPDATE jobs SET state = 'Terminated', ended_at = now(), exit_status = 0, left_nothing = true WHERE job_id = %s",
)
_RUNNING = """
    SELECT job_id FROM jobs WHERE state = 'Running' AND expected_end(jobs) > now() + interval '5 minutes'
    AND NOT 'negotiated' = ANY(types) ORDER BY random() LIMIT %s
"""
_MADE = "SELECT extract(epoch FROM made_at)::int FROM ghosts WHERE job_id = %s"
_IN_LINE = "SELECT count(*) FROM applications WHERE state IN ('RequestSent', 'Waiting')"
_WAITING = "SELECT count(*) FROM jobs WHERE state = 'Waiting'"
# What a subscription and its first view leave, of jobs that are held.
_SUBSCRIBED = """
    INSERT INTO applications (job_id, serial, view)
    SELECT job_id, 1, jsonb_build_object('all', jsonb_build_array(1, jsonb_build_array(extract(epoch FROM now())::int)))
    FROM jobs WHERE array_id = %s RETURNING job_id
"""

Connection = psycopg.Connection[tuple[int]]


class NegotiatingCluster:
    """The modules that applications take, over simulated hosts; the benchmark does what nodes would."""

    def __init__(self, sandbox: Sandbox, connection: Connection, processes: dict[str, subprocess.Popen[bytes]]) -> None:
        self.sandbox, self.connection, self.processes = sandbox, connection, processes
        directory = sandbox.directory
        self.crowd = LauncherCrowd(str(directory / "gateway" / "socket"), sandbox.environment(), directory)

    def submit(self, jobs: int, hosts: int, draw: random.Random) -> None:
        """Submit batch jobs of log-uniform sizes and walltimes."""
        for _ in range(jobs // _ARRAY):
            size, minutes = _log_uniform(draw, 1, hosts // 32), _log_uniform(draw, 10, 600)
            words = ("--array", str(_ARRAY), "-l", f"/nodes={size},walltime=0:{minutes}:0", "sleep 1")
            self.sandbox.run("oarsub", *words)
            self.crowd.listen(0)

    def subscribe(self, hosts: int, draw: random.Random) -> LauncherConnection:
        """Start an application and let it ask for hosts."""
        launcher = self.crowd.open()
        launcher.say("subscribe")
        self._until(lambda: self.hears(launcher, b"changeNotify"), "a launcher has its first view")
        launcher.job = launcher.take("subscribed")[0][1]["job"]
        wanted = {"all": _log_uniform(draw, hosts // 64, hosts // 4)}
        launcher.say("request", tag=1, hosts=wanted, walltime=60 * _log_uniform(draw, 10, 600))
        return launcher

    def attach(self, jobs: Sequence[int]) -> None:
        """Open a connection for each of these applications, and let it be told what there is."""
        for job in jobs:
            launcher = self.crowd.open()
            launcher.say("attach", job=job)
            self._until(lambda opened=launcher: self.hears(opened, b"changeNotify"), "a launcher is attached")  # type: ignore[misc]

    def hears(self, connection: LauncherConnection, word: bytes) -> bool:
        """Listen a little; tell whether a launcher has heard a message of that word."""
        self.crowd.listen(0.05)
        return any(word in line for _, line in connection.heard)

    def rest(self) -> None:
        """Let what was chosen run, and listen until launchers are told nothing more."""
        until = time.monotonic() + _DEADLINE
        quiet = time.monotonic()
        while time.monotonic() - quiet < _QUIET:
            self.let_run()
            if self.crowd.listen(0.1) or self.answer():
                quiet = time.monotonic()
            if time.monotonic() > until:
                raise OarpyError(f"launchers are still told something after {_DEADLINE:g} s")
        for launcher in self.crowd.all:
            launcher.heard.clear()

    def let_run(self) -> None:
        """Let the jobs that the last pass chose run."""
        for state in ("Launching", "Running"):
            self.connection.execute(_LET_RUN, [state])

    def answer(self) -> int:
        """Let launchers answer their views; return how many there were."""
        answered = 0
        for launcher in self.crowd.all:
            views = launcher.take("changeNotify")
            if views:
                launcher.say("keep", serial=views[-1][1]["serial"])
                answered += 1
        return answered

    def end(self, job: int) -> float:
        """End a running job; return when that was committed (epoch seconds)."""
        for statement in _END:
            self.connection.execute(statement, [job])
        return time.time()

    def delay(self, job: int, ended: float) -> float | None:
        """Return the seconds until the last launcher has read the view of the pass that saw the end of a job.

        The row that is kept back of the job names that pass. Return None if nothing was kept back. Launchers whose view
        did not change get no message.
        """
        read: dict[LauncherConnection, list[tuple[float, int]]] = {}
        decided = math.inf
        last, until = time.time(), time.monotonic() + _KEPT_AT
        while time.monotonic() < until and (math.isinf(decided) or time.time() - last < TIMER / 2):
            self.crowd.listen(0.02)
            for launcher in self.crowd.all:
                if views_read := _views(launcher):
                    read.setdefault(launcher, []).extend(views_read)
                    last = time.time()
            if math.isinf(decided) and (row := self.connection.execute(_MADE, [job]).fetchone()):
                decided, last = row[0], time.time()
        seen = [at for views in read.values() for at, instant in views if instant == decided]
        return max(seen) - ended if seen else None

    def count(self, statement: str) -> int:
        """Return the number that a statement asks for."""
        return self._value(statement)

    def _value(self, statement: str) -> int:
        row = self.connection.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _DEADLINE
        while not condition():
            if time.monotonic() > until:
                raise OarpyError(f"after {_DEADLINE:g} s it is still not so that {what}")


def _views(connection: LauncherConnection) -> list[tuple[float, int]]:
    """Return when a launcher has read views, and when the pass was that made each; it answers them."""
    views = [(at, int(begin[1])) for at, line in connection.heard if (begin := _BEGIN.search(line))]
    for _, view in connection.take("changeNotify"):
        connection.say("keep", serial=view["serial"])
    return views


@contextmanager
def negotiating_cluster(directory: Path, hosts: int, cores: int) -> Iterator[NegotiatingCluster]:
    """A database, the modules that applications take, a gateway, and hosts that nobody looks after."""
    sandbox = Sandbox(directory, SETTINGS)
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        sandbox.create()
        sandbox.run(*local_nodes(f"/host=n[1-{hosts}]/core={{{cores}}}"))
        with (directory / "server.log").open("ab") as log:
            for name in (*MODULES, "gateway"):
                words = ("oarpy.gateway",) if name == "gateway" else ("oarpy.modules", name)
                processes[name] = subprocess.Popen(
                    module_command(*words), env=sandbox.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
        sandbox.wait_for_gateway(_DEADLINE)
        with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
            cluster = NegotiatingCluster(sandbox, connection, processes)
            yield cluster
            cluster.crowd.close()
    finally:
        for process in processes.values():
            process.terminate()
            process.wait()
        sandbox.discard()


def delays(cluster: NegotiatingCluster, rounds: int, draw: random.Random) -> tuple[list[float], list[float]]:
    """Return the seconds from ends of jobs to the last view read: when all was at rest, and right after a pass."""
    seconds: tuple[list[float], list[float]] = [], []
    for number in range(rounds):
        cluster.rest()
        jobs = [row[0] for row in cluster.connection.execute(_RUNNING, [2]).fetchall()]
        for job, kind in zip(jobs, seconds, strict=True):
            last = cluster.delay(job, cluster.end(job))
            if last is not None:
                kind.append(last)
            time.sleep(draw.uniform(0.0, TIMER / 2))
            kept_back = "nothing kept back" if last is None else f"{last:.3f} s"
            sys.stdout.write(f"{number + 1:3} {kept_back}, {cluster.count(_IN_LINE)} in line\n")
            sys.stdout.flush()
    return seconds


def view_times(sandbox: Sandbox) -> tuple[list[float], float]:
    """Decide once more about what there is; return the processor seconds of each view, and of the whole pass."""
    os.environ["OARPY_CONFIG"] = str(sandbox.configuration_file)
    configuration = load()
    occupation, spent = cluster_pass._GanttOccupation, []
    view = occupation.view

    def timed(*arguments: Any) -> object:
        began = time.process_time()
        try:
            return view(*arguments)
        finally:
            spent.append(time.process_time() - began)

    with database.connect(sandbox.dsn(), "benchmark") as connection:
        reading = SnapshotReader(configuration).read(connection, int(time.time()))
    decide(reading.snapshot)
    occupation.view = timed  # type: ignore[assignment, method-assign]
    try:
        began = time.process_time()
        decide(reading.snapshot)
        return spent, time.process_time() - began
    finally:
        occupation.view = view  # type: ignore[method-assign]


def idle_costs(cluster: NegotiatingCluster, connections: int, seconds: float) -> dict[str, float]:
    """Return what connections of as many applications take: MiB, and the share of a processor, database included."""
    cluster.crowd.close()
    first = cluster.sandbox.job_ids("--array", str(connections), "--hold", "-l", "/nodes=1,walltime=1:0:0", "date")[0]
    jobs = [row[0] for row in cluster.connection.execute(_SUBSCRIBED, [first]).fetchall()]
    cluster.rest()
    before = _memory(cluster)
    cluster.attach(jobs)
    cluster.rest()
    after, spent, began = _memory(cluster), _spent(cluster), time.monotonic()
    time.sleep(seconds)
    used = (_spent(cluster) - spent) / (time.monotonic() - began)
    return {"idle_connections": connections, "idle_mib": (after - before) / 1024, "idle_percent": 100 * used}


def _speaking(cluster: NegotiatingCluster) -> list[int]:
    """Return the processes that connections of launchers take."""
    gateway = cluster.processes["gateway"].pid
    return [cluster.processes["negotiator"].pid, gateway, *children_of(gateway)]


def _memory(cluster: NegotiatingCluster) -> int:
    pids = [*_speaking(cluster), session_of(cluster.connection, "oarpy negotiator")]
    return sum(holding(pid).shared_out for pid in pids)


def _spent(cluster: NegotiatingCluster) -> float:
    return of_processes([*_speaking(cluster), session_of(cluster.connection, "oarpy negotiator")])


def _log_uniform(draw: random.Random, low: int, high: int) -> int:
    return min(high, int(math.exp(draw.uniform(math.log(low), math.log(high + 1)))))


def _high(values: Sequence[float], part: float) -> float:
    """Return the value that at most ``part`` of the others exceed."""
    return sorted(values)[math.ceil(len(values) * (1 - part)) - 1]


def measure(cluster: NegotiatingCluster, options: argparse.Namespace) -> dict[str, float]:
    """Run every measurement once."""
    draw = random.Random(1)
    for part in (options.jobs // 2, options.jobs - options.jobs // 2):
        cluster.submit(part, options.hosts, draw)
        if not cluster.crowd.all:
            cluster.rest()
            for _ in range(options.applications):
                cluster.subscribe(options.hosts, draw)
    cluster.rest()
    report: dict[str, float] = {"in_line": cluster.count(_IN_LINE), "waiting": cluster.count(_WAITING)}
    at_rest, after_pass = delays(cluster, options.rounds, draw)
    both = [*at_rest, *after_pass]
    report |= {"event_median_seconds": statistics.median(both), "event_p95_seconds": _high(both, 0.05)}
    report |= {"at_rest_p95_seconds": _high(at_rest, 0.05), "after_pass_p95_seconds": _high(after_pass, 0.05)}
    views, whole = view_times(cluster.sandbox)
    report |= {"view_median_ms": 1000 * statistics.median(views), "view_longest_ms": 1000 * max(views)}
    report |= {"decision_seconds": whole}
    report |= idle_costs(cluster, options.idle, options.seconds)
    grants = grant_times(options.rounds)
    return report | {"grant_median_seconds": statistics.median(grants), "grant_longest_seconds": max(grants)}


_MEANINGS = {
    "in_line": "applications in line",
    "waiting": "jobs that wait, these included",
    "event_median_seconds": "from the commit of an end to the last view read, median, s",
    "event_p95_seconds": f"the same, 95 % (at most {TIMER + 0.3:g}), s",
    "at_rest_p95_seconds": "of ends when all is at rest, 95 %, s",
    "after_pass_p95_seconds": "of ends right after a pass, 95 %, s",
    "view_median_ms": "one view, median, ms of the processor",
    "view_longest_ms": "the same, the longest (at most 5), ms",
    "decision_seconds": "all decisions of such a pass, s of the processor",
    "idle_connections": "idle connections",
    "idle_mib": "they take (at most 100), MiB",
    "idle_percent": "and (at most 1) % of a processor",
    "grant_median_seconds": "from extend to granted, median, s",
    "grant_longest_seconds": "the same, the longest (at most 0.5), s",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--applications", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1000, help=f"batch jobs, a multiple of {2 * _ARRAY}")
    parser.add_argument("--hosts", type=int, default=1024)
    parser.add_argument("--cores", type=int, default=4, help="of each host")
    parser.add_argument("--rounds", type=int, default=20, help="of two ends of jobs each")
    parser.add_argument("--idle", type=int, default=1000, help="idle connections")
    parser.add_argument("--seconds", type=float, default=20.0, help="for which these are left alone")
    parser.add_argument("--folder", type=Path, default=None, help="keep the cluster's logs there")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder,
        negotiating_cluster(options.folder or Path(folder), options.hosts, options.cores) as cluster,
    ):
        report = measure(cluster, options)
    lines = [f"{text:<72}{report[key]:>9.3f}" for key, text in _MEANINGS.items()]
    sys.stdout.write("\n".join([*lines, f"load average {os.getloadavg()[0]:.1f}"]) + "\n")
    save("negotiation", {"applications": options.applications, "jobs": options.jobs, "hosts": options.hosts, **report})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
