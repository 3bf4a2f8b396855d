"""A pass that places jobs by their predicted run times, and not by their walltimes.

A prediction may be wrong, so no promise depends on one::

    job 3 waits        |-- predicted --|.............. walltime|
    reservation                                    |==========|      job 3 would be in its way: it goes elsewhere

1. Running jobs hold their resources until their predicted ends; a job that outlives its prediction gets a longer one.
2. Waiting jobs are placed for their predicted times, beside everything.
3. If a job's walltime would overlap a promise on the same resources (reservations, tasks of bags, outages), the job is
   placed by its walltime. All jobs are placed anew, until there is no such job.

Only the walltime ends a job, so a job starts with its whole walltime. If reservations wait for their answers, all jobs
are placed by walltimes: an accepted reservation is then a promise that no job can run into. Jobs that share resources,
hold amounts, have dates, or are inside others are also placed by walltimes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from oarpy.model.dates import NO_DATES
from oarpy.scheduler.gantt.gantt import bits_held
from oarpy.scheduler.job_roles import PLAIN, roles_of
from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.plan import Placement, Plan, plan
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import HoldingJob, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict

_MINUTE, _HOUR = 60, 3600
GROWTH = (_MINUTE, 5 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR, 5 * _HOUR, 10 * _HOUR)
"""The seconds by which a prediction grows each time a job outlives it."""


@dataclass(frozen=True, slots=True)
class ByPredictions:
    """The further outcome of a pass by predictions, which is empty."""

    dates: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PredictedStep:
    """Places jobs by predictions: ``runs`` has the seconds that jobs will run in all, by job."""

    runs: Mapping[int, float]

    def place(
        self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers | None
    ) -> tuple[Plan, ByPredictions]:
        """Place every waiting job."""
        if any(job.reservation is not None for job in snapshot.waiting) or _limits_hours(snapshot):
            return plan(snapshot, orders, matchers), ByPredictions()
        waiting = {job.id: job for job in snapshot.waiting if job.id in self.runs and is_predictable(job)}
        promises = _promises(snapshot)
        holding = tuple(self._shortened(job, snapshot) for job in snapshot.holding)
        by_walltime: set[int] = set()
        while True:
            short = {number: job for number, job in waiting.items() if number not in by_walltime}
            asking = tuple(_for(job, self.runs[job.id]) if job.id in short else job for job in snapshot.waiting)
            predicted = plan(replace(snapshot, holding=holding, waiting=asking), orders, matchers)
            ending = {
                placement.job: _by_walltime(placement, short[placement.job])
                for placement in predicted.placements
                if placement.job in short
            }
            risky = {
                number for number, placement in ending.items() if _meets(placement, promises, snapshot.security_time)
            }
            if not risky:
                break
            by_walltime |= risky
        # a started job keeps its resources until its walltime is over
        placements = tuple(
            ending[placement.job] if placement.verdict is Verdict.STARTS and placement.job in ending else placement
            for placement in predicted.placements
        )
        return replace(predicted, placements=placements), ByPredictions()

    def _shortened(self, job: HoldingJob, snapshot: Snapshot) -> HoldingJob:
        """Return a running job with its predicted run time as its walltime."""
        run = self.runs.get(job.id)
        if run is None or job.start > snapshot.now or job.resumes is not None or roles_of(job) != PLAIN:
            return job
        return structs.replace(job, walltime=grown(run, snapshot.now - job.start, job.walltime))


def grown(run: float, elapsed: float, walltime: float) -> float:
    """Return the run time of a job with a predicted time ``run`` that has run for ``elapsed`` seconds.

    >>> grown(600, 500, 7200), grown(600, 600, 7200), grown(600, 700, 7200), grown(600, 700, 800)
    (600, 660, 960, 800)
    """
    for more in (0, *GROWTH):
        run += more
        if run > elapsed:
            return min(run, walltime)
    return walltime


def is_predictable(job: WaitingJob) -> bool:
    """Tell whether a job may be placed by a prediction: it is unshared, and has no dates and no amounts."""
    plain = roles_of(job) == PLAIN and job.dates == NO_DATES and job.part is None and job.reservation is None
    return plain and not any(way.consumes for way in job.alternatives)


def _for(job: WaitingJob, run: float) -> WaitingJob:
    ways = tuple(replace(way, walltime=min(run, way.walltime)) for way in job.alternatives)
    return structs.replace(job, alternatives=ways)


def _by_walltime(placement: Placement, job: WaitingJob) -> Placement:
    """Return the placement of a job with its walltime as the end."""
    if placement.start is None or placement.alternative is None:
        return placement
    return replace(placement, end=placement.start + job.alternatives[placement.alternative].walltime)


def _promises(snapshot: Snapshot) -> list[tuple[float, float, int]]:
    """Return the promises: begin, end and resources of each."""
    promises = [(outage.begin, outage.end, outage.bits) for outage in snapshot.outages]
    for job in snapshot.holding:
        if job.start > snapshot.now:
            promises.append((job.start, job.end, bits_held(snapshot.platform, job)))
        if job.resumes is not None:
            promises.append((job.resumes, job.end, job.given_back))
    return promises


def _meets(placement: Placement, promises: Sequence[tuple[float, float, int]], security: float) -> bool:
    """Tell whether a job that ran for its whole walltime would overlap a promise."""
    if placement.start is None or placement.end is None:
        return False
    begin, end = placement.start, placement.end + security
    return any(bits & placement.bits and since < end and begin < until for since, until, bits in promises)


def _limits_hours(snapshot: Snapshot) -> bool:
    """Tell whether quotas or budgets count walltimes."""
    return snapshot.projects is not None or any(rule.resource_hours >= 0 for rule in snapshot.quotas)
