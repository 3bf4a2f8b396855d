"""Several clusters and their broker, measured on this machine: ``oarpy bench grid [PART ...]``.

Clusters and the broker have servers and databases of their own. The parts are: ``array`` of ``date`` on three clusters;
``place`` one job; components that start ``together``; programs over all clusters that move after an ``early_end``, and
whose parts begin when all are ready (``parts``); ``takeover`` by a second server of the broker after the first one
was killed; ``passes`` over waiting jobs on five clusters, which have doors and databases alone; ``experiments`` by one
process and by two; ``common`` starts on ten clusters, by the core alone; a ``month`` of logs in ``--traces``, which is
simulated. Without a part, all of them are measured.
"""

from __future__ import annotations

import argparse
import os
import pwd
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from oarpy.grid.core.broker_state import HeuristicName, ReallocationRules
from oarpy.local_cluster.sandbox import Sandbox, Settings, command, local_nodes, running_sandbox
from oarpy.local_cluster.user_commands import user_command
from oarpy.store.grid import broker_jobs, clusters, metajobs
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from oarpy.store.grid.metajobs import NewMetajob

from .grid_passes import door_grid
from .results import save
from .virtual_time import TRACES, common_starts, month_of_logs

BROKER = "bench"
CLUSTERS = ("north", "south", "west")
HEURISTICS: tuple[HeuristicName, ...] = ("mct", "minmin", "maxmin", "maxgain", "maxrelgain", "sufferage")
_LEAD = 30
"""Seconds from a submission to the first deadline."""
_CORES = 34
_LOOK = 0.05
_PATIENCE = 300
_GRANT = "INSERT INTO grid_grants (broker, broker_user, local_user, granted_by) VALUES (%s, %s, %s, 'bench')"
_LEFT = "SELECT count(*) FROM grid_jobs WHERE id = ANY(%s) AND state NOT IN ('Terminated', 'Error', 'Missed')"
_RATE = """
    SELECT extract(epoch FROM max(ended_at) - min(submitted_at))::float8, count(*) FILTER (WHERE state = 'Terminated')
    FROM grid_jobs WHERE id = ANY(%s)
"""
_REASONS = "SELECT id, state, exit_status, message FROM grid_jobs WHERE id = ANY(%s) AND state <> 'Terminated'"
_UNBEGUN = "SELECT message, count(*) FROM grid_jobs WHERE id = ANY(%s) AND started_at IS NULL GROUP BY message"
_PLACED = """
    SELECT extract(epoch FROM t.done_at - j.submitted_at)::float8
    FROM grid_jobs j JOIN grid_parts p ON p.job = j.id JOIN grid_transactions t ON t.id = p.transaction
    WHERE j.id = %s AND t.state = 'Done' AND t.committed
"""
_STARTS = """
    SELECT extract(epoch FROM max(p.started_at) - min(p.started_at))::float8,
           extract(epoch FROM max(p.started_at) - min(j.deadline))::float8, count(*)
    FROM grid_jobs j JOIN grid_parts p ON p.job = j.id
    WHERE j.id = ANY(%s) AND p.started_at IS NOT NULL GROUP BY j.id
"""


_MAPPED = "SELECT state = 'Mapped' FROM grid_jobs WHERE id = %s"
_SHIFTED = """
    SELECT max(extract(epoch FROM t.done_at))::float8
    FROM grid_shifts s JOIN grid_transactions t ON t.id = s.transaction
    WHERE s.job = %s AND s.outcome = 'moved' AND t.state = 'Done'
"""
_FREED = "SELECT extract(epoch FROM ended_at)::float8 FROM jobs WHERE job_id = %s"


@dataclass(slots=True)
class BenchGrid:
    """Three clusters with a server each, and a broker that enters them as whoever measures."""

    broker: Sandbox
    connection: psycopg.Connection[tuple[Any, ...]]
    folder: Path
    """The folder in which jobs run: anybody may write there."""
    clusters: Mapping[str, Sandbox]
    local_user: str
    """The user who submits local jobs."""

    def submit(self, kind: str, program: str, components: int = 1, copies: int = 1, **more: Any) -> list[int]:
        """Submit jobs of one core a component; return their ids."""
        request = (NewGridComponent("/core=1", 1),) * components
        job = NewGridJob(BROKER, kind, program, 600, request, str(self.folder), **more)
        return broker_jobs.insert(self.connection, job, copies)

    def settle(self, jobs: Sequence[int]) -> None:
        """Wait until jobs are over."""
        _until(lambda: self.row(_LEFT, jobs)[0] == 0, "jobs are over")

    def row(self, query: str, *values: Any) -> tuple[Any, ...]:
        """Return the row that a query has."""
        row = self.connection.execute(query, values).fetchone()
        assert row is not None
        return row

    def placed(self, job: int) -> float:
        """Wait until a job has its place; return how many seconds that took from its submission."""
        _until(lambda: self.connection.execute(_PLACED, [job]).fetchone() is not None, "a job is placed")
        return float(self.row(_PLACED, job)[0])

    def array_rate(self, jobs: int) -> float:
        """Return the jobs a second of an array of ``date``, from its submission to the last end."""
        ids = self.submit("mapped", "date", copies=jobs)
        self.settle(ids)
        seconds, ended = self.row(_RATE, ids)
        if ended != jobs:
            rows = self.connection.execute(_REASONS, [ids]).fetchall()
            raise SystemExit(f"{ended} of {jobs} jobs ended well: {rows[:3]}")
        return float(jobs / seconds)

    def place_seconds(self, times: int) -> float:
        """Return the median seconds from the submission of a job to its place on a cluster."""
        seconds = []
        for _ in range(times):
            (job,) = self.submit("mapped", "true")
            seconds.append(self.placed(job))
            self.settle([job])
        return statistics.median(seconds)

    def together(self, jobs: int) -> dict[str, Any]:
        """Return how far apart the components of a job start, and how long after its deadline the last one does.

        ``not_begun`` says why others have not begun, and how many.
        """
        first = float(int(time.time())) + _LEAD
        ids = [
            self.submit("coallocated", "true", len(CLUSTERS), deadline=first + place, wait=_LEAD)[0]
            for place in range(jobs)
        ]
        self.settle(ids)
        rows = self.connection.execute(_STARTS, [ids]).fetchall()
        whole = [row for row in rows if row[2] == len(CLUSTERS)]
        if len(whole) < len(rows):
            raise SystemExit(f"{len(rows) - len(whole)} jobs began in part")
        apart = sorted(float(row[0]) for row in whole)
        late = sorted(float(row[1]) for row in whole)
        return {
            "jobs": jobs,
            "began": len(whole),
            "not_begun": dict(self.connection.execute(_UNBEGUN, [ids]).fetchall()),
            "median_apart_seconds": statistics.median(apart),
            "p99_apart_seconds": apart[int(0.99 * (len(apart) - 1))],
            "p99_after_deadline_seconds": late[int(0.99 * (len(late) - 1))],
        }

    def early_ends(self, times: int) -> dict[str, Any]:
        """Return how long it takes from the last of the early ends of local jobs until all clusters know the new place.

        The local jobs hold all clusters, and a program over all of them waits for their ends.
        """
        spent = []
        for _ in range(times):
            local = {name: self._occupy(name) for name in CLUSTERS}
            job = self._spread(3 * _CORES - 6, 600)
            _until(lambda job=job: self.row(_MAPPED, job)[0], "a program waits on all clusters")  # type: ignore[misc]
            for name, number in local.items():
                self._at(name, "oardel", str(number))
            ended = max(self._ended(name, number) for name, number in local.items())
            _until(lambda job=job: self.row(_SHIFTED, job)[0] is not None, "it moves")  # type: ignore[misc]
            spent.append(float(self.row(_SHIFTED, job)[0]) - ended)
            broker_jobs.ask_deletion(self.connection, [job], BROKER)
            self.settle([job])
        spent.sort()
        return {"times": times, "median_seconds": statistics.median(spent), "p95_seconds": spent[_rank(0.95, times)]}

    def parts_begin(self, jobs: int) -> dict[str, Any]:
        """Return how far apart the parts of programs over all clusters begin, the one of the program last."""
        ids = []
        for _ in range(jobs):
            ids.append(self._spread(3, 60, dict.fromkeys(CLUSTERS, 1)))
            time.sleep(1)
        self.settle(ids)
        rows = self.connection.execute(_STARTS, [ids]).fetchall()
        apart = sorted(float(row[0]) for row in rows if row[2] == len(CLUSTERS))
        if len(apart) < jobs:
            raise SystemExit(f"{jobs - len(apart)} of {jobs} programs did not begin on all clusters")
        return {
            "jobs": jobs,
            "median_apart_seconds": statistics.median(apart),
            "p99_apart_seconds": apart[_rank(0.99, jobs)],
        }

    def _spread(self, procs: int, walltime: float, at_most: Mapping[str, int] | None = None) -> int:
        """Submit a program over clusters; return its id."""
        request = (NewGridComponent(f"/core={procs}", procs),)
        with self.connection.transaction():
            (job,) = broker_jobs.insert(
                self.connection, NewGridJob(BROKER, "metajob", "true", walltime, request, str(self.folder))
            )
            metajobs.add(self.connection, job, NewMetajob("/core", procs, "shift", at_most=at_most))
        return job

    def _occupy(self, name: str) -> int:
        """Let a local job hold a whole cluster, and wait until it runs; return its number."""
        printed = self._at(name, "oarsub", "-l", f"/core={_CORES},walltime=0:20:0", "sleep 1200")
        job = int(printed.rpartition("OAR_JOB_ID=")[2].split()[0])
        self.clusters[name].wait_for([job], ("Running",), _PATIENCE)
        return job

    def _ended(self, name: str, job: int) -> float:
        """Wait until a local job is over; return when its resources were free."""
        self.clusters[name].wait_for([job], ("Error", "Terminated"), _PATIENCE)
        with psycopg.connect(self.clusters[name].dsn()) as connection:
            row = connection.execute(_FREED, [job]).fetchone()
            assert row is not None
            return float(row[0])

    def _at(self, name: str, *words: str) -> str:
        """Run a command of a local user on a cluster; return what it printed."""
        socket = self.clusters[name].directory / "gateway" / "socket"
        command_there = user_command(pwd.getpwnam(self.local_user).pw_uid, *words)
        started = ["env", "-i", f"OARPY_GATEWAY_SOCKET={socket}", *command_there]
        return subprocess.run(started, capture_output=True, text=True, check=True, cwd=self.folder).stdout

    def takeover_seconds(self, standby: Sandbox) -> float:
        """Kill the broker's server with all its processes; return when a job has its place, counted from then."""
        standby.start()
        standby.wait_for_gateway(60)
        server = self.broker.server
        assert server is not None
        killed = time.monotonic()
        for pid in [server.pid, *_children(server.pid)]:
            with suppress(ProcessLookupError):  # some end with what started them
                os.kill(pid, signal.SIGKILL)
        (job,) = self.submit("mapped", "true")
        self.placed(job)
        return time.monotonic() - killed


@contextmanager
def bench_grid(directory: Path) -> Iterator[BenchGrid]:
    """Run three clusters of 34 cores, and a broker."""
    account = pwd.getpwuid(os.getuid()).pw_name
    local = account if os.getuid() else "nobody"
    settings: Settings = {"door": {"brokers": {BROKER: account}}}
    sandboxes: dict[str, Sandbox] = {}
    with ExitStack() as stack:
        for name in CLUSTERS:
            nodes = local_nodes(f"/host={name}[1-17]/core={{2}}")
            cluster = stack.enter_context(running_sandbox(directory / name, settings, nodes))
            cluster.wait_for_gateway(60)
            sandboxes[name] = cluster
            with psycopg.connect(cluster.dsn()) as connection:
                connection.execute(_GRANT, [BROKER, BROKER, local])
        broker = stack.enter_context(running_sandbox(directory / "broker", {"grid": {"enabled": True, "name": BROKER}}))
        connection = stack.enter_context(psycopg.connect(broker.dsn(), autocommit=True))
        for place, name in enumerate(CLUSTERS):
            words = ["env", f"OARPY_CONFIG={directory / name / 'config.toml'}", command("oargriddoor"), BROKER]
            clusters.put(connection, name, "oarpy", words, place=place)
        folder = directory / "jobs"
        folder.mkdir()
        folder.chmod(0o777)
        yield BenchGrid(broker, connection, folder, sandboxes, local)


def _children(pid: int) -> list[int]:
    """Return all that a process has started, and what these have."""
    pids: list[int] = []
    for path in Path(f"/proc/{pid}").glob("task/*/children"):
        for child in map(int, path.read_text().split()):
            pids += [child, *_children(child)]
    return pids


def _until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise SystemExit(f"{what}: not within {_PATIENCE} s")
        time.sleep(_LOOK)


def real_clusters(directory: Path, parts: Sequence[str], jobs: int, programs: int) -> dict[str, Any]:
    """Measure what needs clusters whose jobs run."""
    report: dict[str, Any] = {}
    with bench_grid(directory) as grid:
        grid.settle(grid.submit("mapped", "true", copies=3))
        if "place" in parts:
            report["place_seconds"] = _printed("a job has its place, s (aim 0.3)", grid.place_seconds(20))
        if "array" in parts:
            report["array_jobs_per_second"] = _printed(f"array of {jobs} date, jobs/s (aim 100)", grid.array_rate(jobs))
        if "together" in parts:
            report["together"] = _printed("components that start together (aim: p99 1 s)", grid.together(jobs // 10))
        if "early_end" in parts:
            moved = grid.early_ends(programs)
            report["early_end"] = _printed("early end to committed shift (aim: p95 4 s)", moved)
        if "parts" in parts:
            begun = grid.parts_begin(programs)
            report["parts"] = _printed("parts of programs begin (aim: p99 1 s)", begun)
        if "takeover" in parts:
            database = {"url": grid.broker.dsn()}
            standby = Sandbox(directory / "standby", {**grid.broker.settings, "database": database})
            standby.create()
            try:
                report["takeover_seconds"] = _printed("takeover, s (aim 10)", grid.takeover_seconds(standby))
            finally:
                standby.stop()
    return report


def reallocation_passes(directory: Path, jobs: int, cores: int, algorithms: Sequence[int]) -> list[dict[str, Any]]:
    """Measure passes by each heuristic: planned, and by the first one also made."""
    passes = []
    with door_grid(directory, cores, jobs) as grid:
        for algorithm in algorithms:
            for heuristic in HEURISTICS:
                rules = ReallocationRules(algorithm=1 if algorithm == 1 else 2, heuristic=heuristic)
                passes.append(
                    _printed(f"pass planned (aim {5 if heuristic == 'mct' else 60} s)", asdict(grid.planned(rules)))
                )
        passes.append({**_printed("pass made", asdict(grid.make_pass(ReallocationRules(algorithm=1)))), "made": True})
    return passes


def experiments(directory: Path) -> dict[str, float]:
    """Return the seconds of an experiment by one process and by two, and their ratio."""
    spent = []
    for processes in (1, 2):
        sandbox = Sandbox(directory)
        (directory / "work").mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        sandbox.run(
            *("oarpy", "reproduce", "deadlines", "--quick", "--fresh"),
            *("--processes", str(processes), "--output", str(directory / f"by{processes}")),
        )
        spent.append(time.monotonic() - began)
    return {"one_process": spent[0], "two_processes": spent[1], "ratio": spent[1] / spent[0]}


def _rank(share: float, count: int) -> int:
    """Return the place of a quantile in so many values that rise."""
    return int(share * (count - 1))


def _printed(what: str, value: Any) -> Any:
    sys.stdout.write(f"{what}: {value}\n")
    sys.stdout.flush()
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parts = ("array", "place", "together", "early_end", "parts", "takeover")
    others = ("passes", "experiments", "common", "month")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", nargs="*", choices=[[], *parts, *others], help="what to measure (all)")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of the array, and jobs that wait (1000)")
    parser.add_argument("--programs", type=int, default=50, help="programs over all clusters that move, and begin (50)")
    parser.add_argument("--cores", type=int, default=1024, help="cores of each cluster on which jobs wait (1024)")
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder of the SWF files of the month")
    parser.add_argument("--algorithm", type=int, action="append", choices=(1, 2), help="of passes (1)")
    chosen = parser.parse_args(arguments)
    wanted = chosen.part or (*parts, *others)
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="oarpy-bench-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        if set(parts) & set(wanted):
            report |= real_clusters(directory, wanted, chosen.jobs, chosen.programs)
        if "passes" in wanted:
            algorithms = chosen.algorithm or (1,)
            report["passes"] = reallocation_passes(directory / "doors", chosen.jobs, chosen.cores, algorithms)
        if "experiments" in wanted:
            ratio = experiments(directory / "experiments")
            report["experiments"] = _printed("experiments by two processes (aim: ratio 0.6)", ratio)
    virtual: dict[str, Any] = {}
    if "common" in wanted:
        virtual["common"] = _printed("a common start on 10 clusters of 1,000 slots (aim: 0.2 s)", common_starts())
    if "month" in wanted:
        month = asdict(month_of_logs(chosen.traces))
        virtual["month"] = _printed("30 days of flexco, remap, simulated (aim: 100 s, 200 MiB)", month)
    if report:
        save("grid", report)
    if virtual:
        save("virtual_time", virtual)
    return 0


if __name__ == "__main__":
    sys.exit(main())
