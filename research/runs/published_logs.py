"""Logs of clusters, brought to a published load: a log loses records by chance, or gets such of its other months."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from pathlib import Path

import numpy as np

from oarpy.model.errors import UsageError
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.traces.swf import read_swf
from oarpy.simulation.traces.trace import TraceJob

DAY = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLog:
    """A log as an experiment takes it: the first day, the load (%) of so many processors, and which jobs count.

    Sizes are in processors, run times in seconds. With ``scaled`` (records, days), so many first jobs come in so many
    days: submissions are scaled.
    """

    name: str
    first_day: int = 0
    procs: int
    load: float
    smallest: int = 1
    largest: float = inf
    shortest: float = 0
    longest: float = inf
    scaled: tuple[int, int] | None = None

    def counts(self, job: TraceJob) -> bool:
        """Tell whether a job has a size and a run time that count."""
        return self.smallest <= job.procs <= self.largest and self.shortest <= job.run <= self.longest


@dataclass(frozen=True, slots=True)
class LogPart:
    """The jobs of a part of a log, submitted from 0 on; ``lost`` and ``added`` bring it to ``load``."""

    jobs: tuple[TraceJob, ...]
    lost: int
    added: int
    load: float


def find_logs(names: Iterable[str], folder: Path) -> dict[str, str]:
    """Return the files of logs below a folder. Raises :class:`UsageError` for a log that is not there."""
    places = {}
    for name in names:
        log = next(iter(sorted(folder.rglob(f"{name}.swf*"))), None)
        if log is None:
            raise UsageError(f"no {name} below '{folder}'", hint="get it from the Parallel Workloads Archive")
        places[name] = str(log)
    return places


@lru_cache(maxsize=16)
def part_of_log(log: PublishedLog, path: str, days: int, seed: int, kind: int) -> LogPart:
    """Return a part of so many days with its published load, within a point of it; drawn by generator ``kind``."""
    everybody = [job for job in read_swf(Path(path), Machine(log.procs)).jobs if log.counts(job)]
    begin, length = log.first_day * DAY, days * DAY
    if log.scaled is not None:
        everybody = _scaled(everybody, *log.scaled)
    inside = [replace(job, submit=job.submit - begin) for job in everybody if begin <= job.submit < begin + length]
    others = [job for job in everybody if not begin <= job.submit < begin + length]
    point = log.procs * length / 100
    work = sum(job.procs * job.run for job in inside)
    numbers = np.random.default_rng([seed, kind])
    lost: set[int] = set()
    for place in numbers.permutation(len(inside)):
        if work <= (log.load + 1) * point:
            break
        lost.add(int(place))
        work -= inside[place].procs * inside[place].run
    jobs = [job for place, job in enumerate(inside) if place not in lost]
    added: list[TraceJob] = []
    for place in numbers.permutation(len(others)) if not lost else ():
        if work >= (log.load - 1) * point:
            break
        job = others[place]
        if work + job.procs * job.run <= (log.load + 1) * point:
            added.append(replace(job, submit=job.submit % length))
            work += job.procs * job.run
    jobs = sorted([*jobs, *added], key=lambda job: (job.submit, job.number))
    return LogPart(tuple(jobs), len(lost), len(added), work / point)


def _scaled(jobs: Sequence[TraceJob], records: int, days: int) -> list[TraceJob]:
    """Return jobs with submissions scaled: the first is at 0, the one after so many records at the end of the days."""
    first, end = jobs[0].submit, jobs[min(records, len(jobs) - 1)].submit
    return [replace(job, submit=(job.submit - first) * days * DAY / (end - first)) for job in jobs]
