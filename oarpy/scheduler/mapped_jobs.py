"""Jobs whose processes are mapped over the nodes that they get: the map decides how long they take there.

::

    walltime so far --> place --> cores by type of node --> map --> seconds --> walltime
         ^                                                                         |
         '-------------- another walltime: place again, five times at most ---------'

A job that was mapped before begins with the walltime of its last map, a new job with that of the slowest type. A job
that still moves after five times gets the longest of its walltimes, and more if the types where it then goes need
more. So no walltime is too short for its map. If that takes more than five times too, all walltimes that follow are
doubled each time. Then jobs are placed 33 times at most, and once more for each job that moves to other types only by
then.

After chapter 5 of M. A. S. Netto, "Adaptive Co-Allocation of Distributed Resources for Parallel Applications" (2009).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from oarpy.processes.mapping import ProcessMap, Program, Rates
from oarpy.processes.models import LONGEST, ROUNDS, bounded, mapped_or_usual, walltime_of
from oarpy.scheduler.fitting import Place, Placed
from oarpy.scheduler.resources.platform import Block
from oarpy.scheduler.snapshot import Snapshot, WaitingJob

Cores = Mapping[str, int]
"""How many cores by type of node."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The map and the walltime of a job that follow from the types of its nodes; ``walltime`` in seconds."""

    cores: Cores
    map: ProcessMap
    walltime: int


@dataclass(frozen=True, slots=True)
class MappedJob:
    """A job that waits: its program, and the rates of its sizes on the types of nodes that it may have.

    It takes ``cores`` as was found when it was submitted. In the last pass it had ``settled``, and its ``walltime``.
    """

    program: Program
    model: str
    rates: Rates
    cores: int
    settled: Cores | None = None
    walltime: int = 0


@dataclass(frozen=True, slots=True)
class FittedJobs:
    """The walltimes that follow from new places, by job."""

    fits: Mapping[int, Fit]
    faults: tuple[str, ...] = ()


@dataclass(slots=True)
class Fitter:
    """Maps jobs, and remembers the maps. A walltime exceeds the prediction by ``margin`` percent."""

    margin: int
    _found: dict[tuple[Any, ...], Fit] = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)

    def fit(self, job: MappedJob, cores: Cores) -> Fit:
        """Return the map and the walltime of ``job`` on its cores; it has rates for the types of all of them."""
        rates = tuple((kind, tuple(job.rates[kind].items())) for kind in cores)
        key = job.program, job.model, tuple(cores.items()), rates
        if key not in self._found:
            if len(self._found) > _MOST_REMEMBERED:
                self._found.clear()
            process_map = self._mapped(job, cores)
            self._found[key] = Fit(cores, process_map, walltime_of(process_map.seconds, self.margin))
        return self._found[key]

    def longest(self, job: MappedJob) -> int:
        """Return the walltime on the slowest type alone."""
        return max(self.fit(job, {kind: job.cores}).walltime for kind in job.rates)

    def failed(self) -> tuple[str, ...]:
        """Return the failures of plug-ins since the last call."""
        failed, self._failed = tuple(sorted(self._failed)), set()
        return failed

    def _mapped(self, job: MappedJob, cores: Cores) -> ProcessMap:
        process_map, failure = mapped_or_usual(job.model, cores, {kind: job.rates[kind] for kind in cores}, job.program)
        if failure:
            self._failed.add(failure)
        return bounded(process_map)


_MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class MappedJobs:
    """Fits the walltimes of jobs to their places. ``kinds`` are the cores of each type of nodes.

    It may serve pass after pass: it knows from earlier passes which sets of resources jobs have settled on.
    """

    jobs: Mapping[int, MappedJob]
    kinds: Sequence[Block]
    fitter: Fitter
    _settled: dict[int, int] = field(default_factory=dict)

    def fitted(self, snapshot: Snapshot, place: Place) -> tuple[Placed, FittedJobs]:
        """Have jobs placed until walltimes and places agree."""
        fits: dict[int, Fit] = {}
        longest: dict[int, int] = {}
        for _ in range(ROUNDS):
            placed = place(_with_walltimes(snapshot, fits))
            moved = self._moved(placed, fits)
            before = {job: self._walltime(job, fits) for job in moved}
            fits |= moved
            if all(fit.walltime == before[job] for job, fit in moved.items()):
                return placed, FittedJobs(fits, self.fitter.failed())
            for job, fit in moved.items():
                longest[job] = max(longest.get(job, 0), before[job], fit.walltime)
        fits |= {job: replace(fits[job], walltime=longest[job]) for job in moved}
        rounds = 0
        while True:
            if rounds >= ROUNDS:
                fits = {job: replace(fit, walltime=min(2 * fit.walltime, LONGEST)) for job, fit in fits.items()}
            placed = place(_with_walltimes(snapshot, fits))
            moved = self._moved(placed, fits)
            short = {job for job, fit in moved.items() if fit.walltime > self._walltime(job, fits)}
            fits |= {
                job: fit if job in short else replace(fit, walltime=self._walltime(job, fits))
                for job, fit in moved.items()
            }
            if not short:
                return placed, FittedJobs(fits, self.fitter.failed())
            rounds += 1

    def _walltime(self, job: int, fits: Mapping[int, Fit]) -> int:
        return fits[job].walltime if job in fits else self.jobs[job].walltime

    def _moved(self, placed: Placed, fits: Mapping[int, Fit]) -> dict[int, Fit]:
        """Return new fits for jobs that are now placed on other node types than before."""
        moved = {}
        for placement in placed[0].placements:
            job = self.jobs.get(placement.job)
            if job is None or not placement.bits or (not fits and self._settled.get(placement.job) == placement.bits):
                continue
            cores = {
                str(kind.value): count for kind in self.kinds if (count := (kind.bits & placement.bits).bit_count())
            }
            before = fits[placement.job].cores if placement.job in fits else job.settled
            if cores == before:
                if not fits:
                    self._settled[placement.job] = placement.bits
            elif cores and cores.keys() <= job.rates.keys():
                moved[placement.job] = self.fitter.fit(job, cores)
        return moved


def _with_walltimes(snapshot: Snapshot, fits: Mapping[int, Fit]) -> Snapshot:
    """Return the snapshot with the walltimes that follow."""
    if not fits:
        return snapshot
    return replace(
        snapshot,
        waiting=tuple(with_walltime(job, fits[job.id].walltime) if job.id in fits else job for job in snapshot.waiting),
    )


def with_walltime(job: WaitingJob, walltime: float) -> WaitingJob:
    """Return the job with another walltime in all its alternatives."""
    return structs.replace(job, alternatives=tuple(replace(way, walltime=walltime) for way in job.alternatives))
