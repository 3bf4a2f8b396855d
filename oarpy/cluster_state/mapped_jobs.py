"""Jobs whose processes are mapped, as a part of the state of the cluster: rates decide which requests they make."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

import structlog
from msgspec import structs

from oarpy.cluster_state.state_part import StatePart
from oarpy.configuration import Configuration
from oarpy.model.node_types import ONE_TYPE, of_types
from oarpy.model.reasons import Reason, Why
from oarpy.processes.dealing import shares
from oarpy.processes.mapping import Program
from oarpy.processes.models import LONGEST
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.mapped_jobs import Fit, FittedJobs, Fitter, MappedJob, MappedJobs, with_walltime
from oarpy.scheduler.resources.platform import Block, Platform
from oarpy.scheduler.snapshot import Snapshot, WaitingJob, condition
from oarpy.store.database import Connection
from oarpy.store.passes import decisions, mapped_jobs
from oarpy.store.passes.mapped_jobs import MappedRow, SettledRow

log = structlog.get_logger()

NOT_MAPPED = "NOT_MAPPED"
"""The event of a job that cannot be mapped."""

_NO_RATES = "no type of nodes has rates of all its sizes"
_OWN_WALLTIME = f"{_NO_RATES}: it runs without a map, with the walltime that its user gave"
_NO_WALLTIME = f"{_NO_RATES}, and it was given no walltime: mend the script of --rate, or give -l walltime"


def node_types(platform: Platform, node_type: str) -> tuple[Block, ...]:
    """Return the resources of each type of nodes; ``node_type`` is the property that tells them apart, if any does."""
    if not node_type:
        return (Block(ONE_TYPE, platform.default_type),)
    return platform.blocks(node_type)


@dataclass(frozen=True, slots=True)
class _Rated:
    """A job that waits, and the rates of the types of which all its sizes have one."""

    row: MappedRow
    job: MappedJob

    @property
    def hopeless(self) -> bool:
        """Whether there are no rates, and no job measures any."""
        return not self.job.rates and not self.row.measuring


class MappedProcesses(StatePart):
    """The jobs of the cluster whose processes are mapped."""

    THERE = mapped_jobs.ANY_THERE

    def __init__(self, configuration: Configuration) -> None:
        self._property = configuration.scheduler.node_type
        self._fitter = Fitter(configuration.processes.margin)
        self._connection: Connection | None = None
        self._version: tuple[object, ...] = ()
        self._rated: dict[int, _Rated] = {}
        self._unrated: dict[int, _Rated] = {}
        """The jobs among these that have no rates."""
        self._asking: dict[int, tuple[WaitingJob, Platform, WaitingJob]] = {}
        """The requesting form of each job, with the job and the platform that it was made from."""
        self._fitting: tuple[Platform, MappedJobs] | None = None
        """The step of the last pass, and its platform."""

    def read(self, connection: Connection, *, any_there: bool) -> None:
        """Read jobs and rates, unless they are as they were."""
        version = mapped_jobs.version(connection) if any_there else ()
        # a job without rates waits for jobs that measure, which are not looked at here
        if connection is self._connection and version == self._version and not self._unrated:
            return
        self._version, self._connection, self._asking, self._fitting = version, connection, {}, None
        self._rated = _rated(connection) if any_there else {}
        self._unrated = {number: rated for number, rated in self._rated.items() if not rated.job.rates}

    def changed(self, jobs: tuple[WaitingJob, ...], platform: Platform) -> tuple[WaitingJob, ...]:
        """Return the jobs, those that are mapped with the walltime that follows, on types that have rates."""
        if not self._rated:
            return jobs
        return tuple(self._changed(job, platform) if job.id in self._rated else job for job in jobs)

    def _changed(self, job: WaitingJob, platform: Platform) -> WaitingJob:
        known = self._asking.get(job.id)
        if known is not None and known[0] is job and known[1] is platform:
            return known[2]
        asking = self._made(job, self._rated[job.id], platform)
        self._asking[job.id] = job, platform, asking
        return asking

    def _made(self, job: WaitingJob, rated: _Rated, platform: Platform) -> WaitingJob:
        if rated.hopeless and not rated.row.own_walltime:
            return structs.replace(job, fault=_NO_WALLTIME)
        if not rated.job.rates or job.fault:
            return job
        kinds = [kind.value for kind in node_types(platform, self._property) if str(kind.value) in rated.job.rates]
        there = condition(job.properties, of_types(self._property, kinds) if kinds else "false")
        return with_walltime(structs.replace(job, properties=there), self._walltime(rated))

    def _walltime(self, rated: _Rated) -> int:
        """Return the walltime of a job so far: of its last place, or on the slowest type."""
        if rated.row.walltime is not None and rated.row.node_property == self._property:
            return rated.row.walltime
        return self._fitter.longest(rated.job)

    def fitting(self, snapshot: Snapshot) -> MappedJobs | None:
        """Return the step that fits walltimes to places, if jobs with rates wait."""
        platform = snapshot.platform
        if self._fitting is None or self._fitting[0] is not platform:
            jobs = {number: self._fitted(rated) for number, rated in self._rated.items() if rated.job.rates}
            self._fitting = platform, MappedJobs(jobs, node_types(platform, self._property), self._fitter)
        return self._fitting[1] if self._fitting[1].jobs else None

    def _fitted(self, rated: _Rated) -> MappedJob:
        """Return a job with its cores and walltime of the last pass, unless types were another property then."""
        settled = rated.row.settled if rated.row.node_property == self._property else None
        return replace(rated.job, settled=settled, walltime=self._walltime(rated))

    def write(self, connection: Connection, decided: Decisions, snapshot: Snapshot, gone: Collection[int]) -> None:
        """Write the maps of jobs; a job without rates goes on without a map, or ends."""
        if isinstance(decided.fitted, FittedJobs):
            for fault in decided.fitted.faults:
                log.error("a map by the usual model", reason=fault)
            settled = [_settled(number, self._rated[number].job, fit) for number, fit in decided.fitted.fits.items()]
            mapped_jobs.settle(connection, settled, self._property)
        if not self._rated:
            return
        here = {job.id for job in snapshot.waiting}
        if not self._rated.keys() <= here | {job.id for job in snapshot.holding}:
            mapped_jobs.end(connection)
        hopeless = [rated.row for number, rated in self._unrated.items() if rated.hopeless and number in here]
        mapped_jobs.give_up(connection, [row.job for row in hopeless if row.own_walltime], _OWN_WALLTIME)
        refused = [(row.job, Reason(Why.FAULT, _NO_WALLTIME)) for row in hopeless if not row.own_walltime]
        if refused:
            decisions.refuse(connection, refused, NOT_MAPPED, {})


def _rated(connection: Connection) -> dict[int, _Rated]:
    """Return the jobs that wait with their rates, the sizes in the order in which they were given."""
    rows = {row.job: row for row in mapped_jobs.live(connection)}
    rates: dict[int, dict[str, dict[str, float]]] = {}
    for rate in mapped_jobs.rates(connection):
        rates.setdefault(rate.job, {}).setdefault(rate.kind, {})[rate.size] = rate.rate
    jobs = {}
    for number, row in rows.items():
        known = {
            kind: {size: its[size] for size in row.sizes}
            for kind, its in sorted(rates.get(number, {}).items())
            if its.keys() >= set(row.sizes)
        }
        program = Program(row.processes, row.iterations)
        jobs[number] = _Rated(row, MappedJob(program, row.model, known, row.cores))
    return jobs


def _settled(number: int, job: MappedJob, fit: Fit) -> SettledRow:
    """Return the row of a map: of each type the processes as its cores take turns, or of each size, and their times."""

    def seconds(kind: str, size: str) -> float:
        return min(job.program.iterations / job.rates[kind][size], LONGEST)

    assigned = {kind: shares(fit.map, kind, partial(seconds, kind)) for kind in fit.map.assigned}
    return SettledRow(number, fit.map.seconds, fit.walltime, fit.cores, assigned)
