"""The ESP2 benchmark (Effective System Performance, NERSC): 230 jobs of 14 types that measure a batch scheduler.

A. Wong et al., "ESP: a system utilization benchmark" (SC 2000); sizes, counts, times and order come from ESP 2.2. A
job's size is a fraction of the machine. Two rules turn it into processors. ESP's own is the nearest whole number. On
machines whose nodes are given whole, that number is rounded up to whole nodes. The two Z jobs take the whole machine.

Efficiency = lower bound of the makespan (all work / processors) over the real makespan.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.traces.trace import TraceJob, in_submit_order


@dataclass(frozen=True, slots=True)
class Esp2Type:
    """One row of the mix: fraction of the machine, number of jobs, run time in seconds (full and light variant)."""

    name: str
    fraction: float
    count: int
    seconds: int
    light_seconds: int


TYPES = (
    Esp2Type("A", 0.03125, 75, 267, 22),
    Esp2Type("B", 0.06250, 9, 322, 27),
    Esp2Type("C", 0.50000, 3, 534, 45),
    Esp2Type("D", 0.25000, 3, 616, 51),
    Esp2Type("E", 0.50000, 3, 315, 26),
    Esp2Type("F", 0.06250, 9, 1846, 154),
    Esp2Type("G", 0.12500, 6, 1334, 111),
    Esp2Type("H", 0.15820, 6, 1067, 89),
    Esp2Type("I", 0.03125, 24, 1432, 119),
    Esp2Type("J", 0.06250, 24, 725, 60),
    Esp2Type("K", 0.09570, 15, 487, 41),
    Esp2Type("L", 0.12500, 36, 366, 30),
    Esp2Type("M", 0.25000, 15, 187, 15),
    Esp2Type("Z", 1.00000, 2, 100, 10),
)

FULL_MACHINE = "Z"
_FULL_MACHINE_SUBMITS = (2400, 7200)
_LIGHT_FULL_MACHINE_SUBMITS = (200, 600)
_FIRST_AT_ONCE = 50
_MEAN_GAP, _GAP_WIDTH = 30.0, 5.0
_WALLTIME_FACTOR = 1.5


@dataclass(frozen=True, slots=True)
class EspJob:
    """A job of the mix: its name (``A1``), type, processors and run time in seconds."""

    name: str
    kind: str
    procs: int
    seconds: int


def job_mix(machine: Machine, *, light: bool = False, full_machine: bool = True) -> tuple[EspJob, ...]:
    """Return the jobs in the benchmark's fixed pseudo-random order.

    ``full_machine`` False leaves the Z jobs out.
    """
    names = [
        EspJob(f"{kind.name}{number}", kind.name, size(kind, machine), _seconds(kind, light))
        for kind in TYPES
        if full_machine or kind.name != FULL_MACHINE
        for number in range(1, kind.count + 1)
    ]
    return tuple(_shuffled(names))


def _seconds(kind: Esp2Type, light: bool) -> int:
    return kind.light_seconds if light else kind.seconds


def size(kind: Esp2Type, machine: Machine) -> int:
    """Return the processors of a job of type ``kind``: nearest whole number, half up, at least 1, then whole nodes."""
    return machine.size(max(1, math.floor(kind.fraction * machine.procs + 0.5)))


def _shuffled(jobs: list[EspJob]) -> list[EspJob]:
    """Return ``jobs`` in the order of the benchmark's own linear congruential generator."""
    rest = sorted(jobs, key=lambda job: (job.kind, int(job.name[1:])))
    order = []
    state = 142
    while rest:
        state = (state * 3476221 + 1) % 1_000_000
        order.append(rest.pop(state % len(rest)))
    return order


def all_at_once(mix: Sequence[EspJob]) -> tuple[TraceJob, ...]:
    """Return the workload with every job submitted at 0, in the order of ``mix``; walltimes are 1.5 times the run."""
    return tuple(_trace_job(number, job, 0) for number, job in enumerate(mix, start=1))


def multimode(mix: Sequence[EspJob], seed: int, *, light: bool = False) -> tuple[tuple[TraceJob, ...], frozenset[int]]:
    """Return the workload of the multimode test, and the indexes of its Z jobs, which no other job may overtake.

    50 jobs come at once, then one every 30 s on average (Gaussian, 5 s wide). The Z jobs come at 2,400 and 7,200 s. The
    light variant has a twelfth of all these times.
    """
    draw = random.Random(seed)
    shrink = 12 if light else 1
    full_machine = iter(_LIGHT_FULL_MACHINE_SUBMITS if light else _FULL_MACHINE_SUBMITS)
    jobs, now, queued = [], 0.0, 0
    for number, job in enumerate(mix, start=1):
        if job.kind == FULL_MACHINE:
            jobs.append(_trace_job(number, job, next(full_machine)))
            continue
        queued += 1
        if queued > _FIRST_AT_ONCE:
            now += max(0.0, draw.gauss(_MEAN_GAP, _GAP_WIDTH)) / shrink
        jobs.append(_trace_job(number, job, round(now)))
    workload = in_submit_order(jobs)
    urgent = {number for number, job in enumerate(mix, start=1) if job.kind == FULL_MACHINE}
    return workload, frozenset(index for index, job in enumerate(workload) if job.number in urgent)


def _trace_job(number: int, job: EspJob, submit: int) -> TraceJob:
    return TraceJob(number, submit, job.seconds, math.ceil(job.seconds * _WALLTIME_FACTOR), job.procs)


def work(jobs: Sequence[TraceJob]) -> float:
    """Return the processor seconds of ``jobs``."""
    return math.fsum(job.procs * job.run for job in jobs)


def efficiency(jobs: Sequence[TraceJob], starts: Sequence[float], procs: int) -> float:
    """Return work / processors over the time from the first submission to the last end."""
    ends = [start + job.run for job, start in zip(jobs, starts, strict=True)]
    return work(jobs) / procs / (max(ends) - min(job.submit for job in jobs))
