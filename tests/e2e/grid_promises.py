"""What a grid promises whatever fails, asked of all its databases: while it runs, and when all is over."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from oarpy.grid.local.local_grid import LocalGrid
from oarpy.local_cluster.sandbox import Sandbox
from oarpy.model.errors import OarpyError

LATE = 5.0
"""Seconds after its ttl within which a hold must be gone."""
LONE = {"coallocated": 30.0, "metajob": 65.0}
"""Seconds after the broker knows within which a part that began alone must be ended, by kind of job."""
_GATHERED = 65.0
"""Seconds after its promised start within which a program over clusters begins that was placed once."""
_POLL = 0.05

_STARTABLE = """
    SELECT p.part FROM door_parts p JOIN jobs j USING (job_id) WHERE p.state = 'Committed' AND is_live(j.state)
"""
_OVERDUE = "SELECT part FROM door_parts WHERE lapses_at < clock_timestamp()"
_PRESENT = """
    SELECT substr(application_name, 7) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'oarpy %'
"""
# The broker knows that one runs, and of another one not.
_ALONE = """
    SELECT p.job, p.transaction, j.kind, array_agg(p.name) FILTER (WHERE p.state = 'Running'),
        array_agg(p.cluster) FILTER (WHERE p.state = 'Running')
    FROM grid_parts p JOIN grid_jobs j ON j.id = p.job WHERE j.kind IN ('coallocated', 'metajob')
    GROUP BY p.job, p.transaction, j.kind
    HAVING bool_or(p.state = 'Running') AND bool_or(p.started_at IS NULL)
"""
_NEEDED = {"canceller", "launcher"}
_LEFT = {
    "live jobs": "SELECT job_id, state, message FROM jobs WHERE is_live(state)",
    "parts that are held": "SELECT part, state, lapses_at FROM door_parts WHERE lapses_at IS NOT NULL",
    "gates": "SELECT job_id FROM launch_gates",
    "resources still held": "SELECT job_id, resource_id FROM assigned_resources WHERE upper_inf(during)",
}
_OPEN = {
    "jobs that are not over": """
        SELECT id, kind, state, message FROM grid_jobs WHERE state NOT IN ('Terminated', 'Error', 'Missed')""",
    "transactions that are not done": "SELECT id, kind, module, state FROM grid_transactions WHERE state <> 'Done'",
    "parts that are not over": "SELECT name, state, cluster FROM grid_parts WHERE state NOT IN ('Ended', 'Gone')",
}
_LATE_STARTS = """
    SELECT j.id, m.placings, extract(epoch FROM j.started_at - m.promised_start)::float8, j.message
    FROM grid_metajobs m JOIN grid_jobs j ON j.id = m.job WHERE j.started_at IS NOT NULL
"""
_SHIFTS = "SELECT operation || ' ' || outcome, count(*) FROM grid_shifts GROUP BY 1 ORDER BY 1"
_JOBS = "SELECT id, kind, state, components, exit_status, message FROM grid_jobs WHERE kind <> 'bag' ORDER BY id"


@dataclass(slots=True)
class _Sample:
    """What a cluster said: parts that could start or run, parts past their ttl, and who is connected."""

    startable: set[str]
    overdue: set[str]
    present: set[str]


class _Asked:
    """A database that is asked again and again, on a connection that is made anew when it breaks."""

    def __init__(self, there: Sandbox) -> None:
        self._there = there
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what is answered. Raises :class:`psycopg.Error` and :class:`OarpyError` while it is away."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._there.dsn(), autocommit=True, connect_timeout=2)
        try:
            return self._connection.execute(query).fetchall()
        except psycopg.Error:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def column(self, query: str) -> set[str]:
        """Return the first column of the answer."""
        return {row[0] for row in self.rows(query)}


class PromiseWatch(threading.Thread):
    """Samples all databases until it is told to end. ``cut_off`` names the clusters that cannot be reached or hang.

    Time counts only while whoever has to act is there: the canceller for holds; for parts alone, the broker too.
    """

    def __init__(self, grid: LocalGrid, cut_off: Callable[[], Iterable[str]]) -> None:
        super().__init__(name="promises", daemon=True)
        self._clusters = {name: _Asked(one) for name, one in grid.clusters.items()}
        self._broker = _Asked(grid.broker)
        self._cut_off = cut_off
        self._over = threading.Event()
        self._held_late: dict[str, float] = defaultdict(float)
        self._alone: dict[tuple[int, int], float] = defaultdict(float)
        self._wrong: set[str] = set()
        self.samples = 0

    @property
    def wrong(self) -> list[str]:
        """Which promises were broken."""
        return sorted(self._wrong)

    @property
    def longest_alone(self) -> float:
        """How long, in seconds, a part ran alone at most."""
        return max(self._alone.values(), default=0.0)

    @property
    def latest_hold(self) -> float:
        """How long after its ttl, in seconds, a hold was still there at most."""
        return max(self._held_late.values(), default=0.0)

    def end(self) -> None:
        """Ask no more."""
        self._over.set()
        self.join()
        for one in (self._broker, *self._clusters.values()):
            one.close()

    def run(self) -> None:
        """Sample again and again."""
        before = time.monotonic()
        while not self._over.wait(_POLL):
            now = time.monotonic()
            try:
                self._look(now - before)
            except Exception as error:
                self._wrong.add(f"the checker failed: {type(error).__name__}: {error}")
            before = now

    def _look(self, passed: float) -> None:
        samples = {name: sample for name in self._clusters if (sample := self._sample(name)) is not None}
        self.samples += len(samples) == len(self._clusters)
        self._look_for_copies(samples)
        for name, sample in samples.items():
            if "canceller" in sample.present:
                for part in sample.overdue:
                    self._held_late[f"{part} on {name}"] += passed
        late = [(one, seconds) for one, seconds in self._held_late.items() if seconds > LATE]
        self._wrong |= {f"{one} was held {LATE:g} s after its ttl" for one, _ in late}
        with suppress(psycopg.Error, OarpyError):
            self._look_for_alone(samples, passed)

    def _sample(self, name: str) -> _Sample | None:
        asked = self._clusters[name]
        try:
            return _Sample(asked.column(_STARTABLE), asked.column(_OVERDUE), asked.column(_PRESENT))
        except (psycopg.Error, OarpyError):
            return None

    def _look_for_copies(self, samples: Mapping[str, _Sample]) -> None:
        """Look twice: a job that moved between two looks was never there twice, one seen by both looks was."""
        doubles = _doubles(samples)
        if not doubles:
            return
        again = {name: sample for name in samples if (sample := self._sample(name)) is not None}
        for component, copies in _doubles(again).items():
            if len(both := copies & doubles.get(component, set())) > 1:
                self._wrong.add(f"component {component} had copies that could start: {', '.join(sorted(both))}")

    def _look_for_alone(self, samples: Mapping[str, _Sample], passed: float) -> None:
        able = {"watcher", "claimer"} <= self._broker.column(_PRESENT)
        for job, transaction, kind, names, clusters in self._broker.rows(_ALONE):
            reached = all(
                name in samples and name not in self._cut_off() and samples[name].present >= _NEEDED
                for name in clusters
            )
            runs = any(name in sample.startable for sample in samples.values() for name in names)
            if able and reached and runs:
                self._alone[job, transaction] += passed
                if self._alone[job, transaction] > LONE[kind]:
                    self._wrong.add(f"a part of job {job} ran alone for more than {LONE[kind]:g} s: {names}")


def _doubles(samples: Mapping[str, _Sample]) -> dict[str, set[str]]:
    """Return the components of which several parts could start, with these."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, sample in samples.items():
        for part in sample.startable:
            found[part.rpartition(".")[0]].add(f"{part} on {name}")
    return {component: copies for component, copies in found.items() if len(copies) > 1}


# When all is over


def unfinished(grid: LocalGrid) -> list[str]:
    """Say what is not over yet, on the broker and on all clusters."""
    found = []
    for name, there in {"broker": grid.broker, **grid.clusters}.items():
        try:
            with psycopg.connect(there.dsn(), autocommit=True) as connection:
                for what, query in (_OPEN if name == "broker" else _LEFT).items():
                    if rows := connection.execute(query).fetchall():
                        found.append(f"{what} ({name}): {len(rows)}, such as {rows[:4]}")
        except (psycopg.Error, OarpyError) as error:
            found.append(f"the database of {name} is away: {error}")
    return found


@dataclass(slots=True)
class GridOutcome:
    """What became of the jobs, by kind and state; what is wrong; seconds between the starts of components."""

    ended: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    spreads: list[float] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)
    """Why jobs with several components did not run, without numbers."""
    alone: int = 0
    """Jobs of which a part ran and another one did not."""
    replayed: str = ""
    shifts: dict[str, int] = field(default_factory=dict)
    """Moves of programs over clusters, by what was done and what came of it."""


def outcome(grid: LocalGrid) -> GridOutcome:
    """Hold what jobs wrote against what the broker says, and check all books."""
    found = GridOutcome()
    marks = _marks(grid)
    for job, kind, state, parts, status, message in grid.sql(_JOBS):
        components = 1 if kind == "metajob" else parts  # its program begins once
        found.ended[f"{kind} {state}"] += 1
        begun = {number: marks[job, number] for number in range(components) if marks[job, number]}
        shown = f"{kind} job {job} is {state} ({message!r}, exit status {status}), its components began {begun}"
        twice = any(len(instants) > 1 for instants in begun.values())
        whole = len(begun) == components
        if (
            twice
            or (state == "Terminated" and not whole)
            or (kind == "mapped" and (state, status) != ("Terminated", 0))
        ):
            found.wrong.append(shown)
        elif state != "Terminated" and not message:
            found.wrong.append(f"nothing is told: {shown}")
        if kind in ("coallocated", "metajob") and state != "Terminated":
            found.missed[re.sub(r"[0-9.]+", "N", message)[:80]] += 1
        if kind == "coallocated" and begun and not whole:
            found.alone += 1
        if kind == "coallocated" and state == "Terminated" and whole:
            instants = [one[0] for one in begun.values()]
            found.spreads.append(max(instants) - min(instants))
    found.wrong += [
        f"metajob {job} was placed once, and began {late:.1f} s after its promise: {message!r}"
        for job, placings, late, message in grid.sql(_LATE_STARTS)
        if placings == 1 and late > _GATHERED
    ]
    found.shifts = dict(grid.sql(_SHIFTS))
    known = {row[0] for row in grid.sql("SELECT id FROM grid_jobs")}
    found.wrong += [f"a mark of job {job}, which is not known" for job, _ in marks if job not in known]
    _check_books(grid, found)
    return found


def _marks(grid: LocalGrid) -> dict[tuple[int, int], list[float]]:
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for line in (grid.home / "marks").read_text().splitlines():
        job, component, instant = line.split()
        found[int(job), int(component)].append(float(instant))
    return found


def _check_books(grid: LocalGrid, found: GridOutcome) -> None:
    for name, there in {"broker": grid.broker, **grid.clusters}.items():
        checked = _run(there, "oarpy", "db", "check")
        if checked.returncode:
            found.wrong.append(f"oarpy db check of {name}: {checked.stdout}{checked.stderr}")
    replayed = _run(grid.broker, "oarpy", "grid", "replay")
    found.replayed = (replayed.stdout.splitlines() or [replayed.stderr])[-1]
    same = re.fullmatch(r"(\d+) of \1 decisions the same", found.replayed)
    if replayed.returncode or same is None:
        found.wrong.append(f"oarpy grid replay: {replayed.stdout[-2000:]}{replayed.stderr}")
    doubts = _run(grid.broker, "oargridctl", "doubts", "--json")
    if doubts.returncode or json.loads(doubts.stdout) not in ([], {}):
        found.wrong.append(f"oargridctl doubts: {doubts.stdout}{doubts.stderr}")


def _run(there: Sandbox, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command, again if it meets a connection of a gateway that was ended meanwhile (exit status 6)."""
    for _ in range(5):
        done = there.run(*words, check=False)
        if done.returncode != 6:
            break
    return done
