"""The changes between two passes, and whether the plan of the first can be kept in the second.

See :mod:`oarpy.scheduler.passes.replanning` for the changes that are harmless, and why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf

from oarpy.model.dates import NO_DATES
from oarpy.model.request import Count
from oarpy.scheduler.gantt.gantt import bits_held
from oarpy.scheduler.job_roles import Roles, roles_of
from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.order.ranking import BrokenOrder, by_priority
from oarpy.scheduler.passes.continued import ContinuedPass
from oarpy.scheduler.passes.turns import Stage
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import HoldingJob, Snapshot, WaitingJob, conditions
from oarpy.scheduler.verdicts import Verdict

_PLAIN = Roles()
_COMPARED_ELSEWHERE = (
    "now",
    "holding",
    "waiting",
    "filters",
    "filter_errors",
    "returning",
    "shown",
    "outcomes",
    "spans",
    "priorities",
)
_NO_MATTER_OF_PLACES = ("rules", "reservations", "walltime_requests", "asleep", "power", "rested", "windows", "fitting")
_RULES = tuple(
    field.name for field in fields(Snapshot) if field.name not in (*_COMPARED_ELSEWHERE, *_NO_MATTER_OF_PLACES)
)
"""All other fields of a snapshot, also future ones."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The changes between two passes: jobs that started as planned, and new jobs by stage.

    ``early`` is true if resources are free earlier than planned: a job ended early, or a waiting job is gone.
    """

    started: tuple[HoldingJob, ...]
    fresh: tuple[Stage, ...]
    early: bool = False


@dataclass(slots=True)
class LastPass:
    """The last pass, without refused reservations that can be forgotten.

    ``conditions`` are the conditions known then, ``anteriors`` the jobs that waiting jobs depend on. ``starting`` jobs
    were due to start at once; ``next_start`` is the first predicted start of the others. ``steady`` is true if the
    passing of time changes no placement. ``halves`` is true if a waiting job asks for half of the free resources.
    """

    snapshot: Snapshot
    orders: Mapping[str, Order]
    matchers: Matchers
    made: ContinuedPass
    placements: dict[int, Placement]
    conditions: frozenset[str]
    anteriors: frozenset[int]
    steady: bool
    halves: bool
    starting: frozenset[int] = frozenset()
    next_start: float = inf

    def foresee(self, placements: Sequence[Placement]) -> None:
        """Note the starts of the plan: the jobs that start at once, and the next predicted start."""
        self.starting = frozenset(placement.job for placement in placements if placement.verdict is Verdict.STARTS)
        later = (
            placement.start
            for placement in placements
            if placement.start is not None and placement.verdict is not Verdict.STARTS
        )
        self.next_start = min(later, default=inf)


def changed_since(
    last: LastPass, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers, *, early: bool
) -> Changed | None:
    """Return the changes since the last pass, None if they need a full pass.

    Unless ``early`` is set, resources that are free earlier than planned need a full pass too.
    """
    before = last.snapshot
    if orders is not last.orders or matchers is not last.matchers or not _same_rules(before, snapshot):
        return None
    held = _held(last, snapshot)
    if held is None:
        return None
    started, ended = held
    gone = {job.id for job in started}
    if gone and last.halves and not early:
        return None
    if gone and last.made.planner.any_parked:
        # a job that waited for its anterior gets its own turn back when the anterior has started
        return None
    if early and not {job.id for job in snapshot.waiting} >= {job.id for job in before.waiting} - gone:
        ended, gone = True, {job.id for job in before.waiting} - {job.id for job in snapshot.waiting}
    if ended and not early:
        return None
    if (gone or ended or snapshot.now > before.now) and not (last.steady and snapshot.now <= _next_start(last, gone)):
        return None
    kept = tuple(job for job in before.waiting if job.id not in gone) if gone else before.waiting
    fresh = snapshot.waiting[len(kept) :]
    if snapshot.waiting[: len(kept)] != kept or not (ended or _same_past(last, snapshot, fresh)):
        return None
    if ended and not all(map(is_plain, fresh)):
        return None
    stages = _stages(last, snapshot, fresh, gone)
    return None if stages is None else Changed(started, stages, ended)


def _same_rules(before: Snapshot, snapshot: Snapshot) -> bool:
    """Tell whether all inputs besides the jobs are the same, and the clock has not gone back."""
    return snapshot.now >= before.now and all(getattr(before, name) == getattr(snapshot, name) for name in _RULES)


def _same_past(last: LastPass, snapshot: Snapshot, fresh: Sequence[WaitingJob]) -> bool:
    """Tell whether conditions and ended jobs mean the same to the jobs that waited before."""
    before = last.snapshot
    ended = (snapshot.outcomes.keys() | snapshot.spans.keys()) - (before.outcomes.keys() | before.spans.keys())
    if not last.anteriors.isdisjoint(ended) or not last.anteriors.isdisjoint(job.id for job in fresh):
        return False
    for old, new in (
        (before.filters, snapshot.filters),
        (before.filter_errors, snapshot.filter_errors),
        (before.outcomes, snapshot.outcomes),
        (before.spans, snapshot.spans),
    ):
        if old is not new and not old.items() <= new.items():
            return False
    known = snapshot.filters.keys() | snapshot.filter_errors.keys()
    return known <= last.conditions or conditions(before.waiting).isdisjoint(known - last.conditions)


def _next_start(last: LastPass, gone: set[int]) -> float:
    """Return the first start foreseen for a job that still waits."""
    return last.next_start if last.starting <= gone else last.snapshot.now


def _held(last: LastPass, snapshot: Snapshot) -> tuple[tuple[HoldingJob, ...], bool] | None:
    """Return the jobs that hold resources now as planned, and whether a job ended early or an anterior ended.

    Return None if other jobs hold resources, or if a job is still there in its security time after its end.
    """
    before = {job.id: job for job in last.snapshot.holding}
    started = []
    for job in snapshot.holding:
        if job.end <= snapshot.now and _was_to_hold(job, last, snapshot):
            return None
        old = before.pop(job.id, None)
        if old is None:
            if not _as_planned(job, last, snapshot):
                return None
            started.append(job)
        elif old != job:
            return None
    ended = any(number in last.anteriors or _was_to_hold(job, last, snapshot) for number, job in before.items())
    return tuple(started), ended


def _was_to_hold(job: HoldingJob, last: LastPass, snapshot: Snapshot) -> bool:
    """Tell whether the last pass let ``job`` hold its resources beyond the instant of ``snapshot``."""
    return job.end > last.snapshot.now and job.end + snapshot.security_time > snapshot.now


def _as_planned(job: HoldingJob, last: LastPass, snapshot: Snapshot) -> bool:
    """Tell whether ``job`` holds the resources that the last pass started it with, for the planned time."""
    placement = last.placements.get(job.id)
    return (
        placement is not None
        and placement.verdict is Verdict.STARTS
        and job.start <= snapshot.now
        and job.end == placement.end
        and bits_held(snapshot.platform, job) == placement.bits
        and is_plain(job)
    )


def _stages(
    last: LastPass, snapshot: Snapshot, fresh: Sequence[WaitingJob], gone: set[int]
) -> tuple[Stage, ...] | None:
    """Return the new jobs by stage, in order; None unless they come behind all others, whose order stands."""
    groups = by_priority(snapshot.queues)
    place = {queue.name: rank for rank, queues in enumerate(groups) for queue in queues}
    if not all(_can_be_added(job, last, place) for job in fresh):
        return None
    depth = Precedence.of(snapshot).depth
    by_stage: dict[tuple[int, int], list[WaitingJob]] = {}
    for job in fresh:
        by_stage.setdefault((depth(job), place[job.queue]), []).append(job)
    stage = last.made.stages[-1]
    key = stage.depth, place[stage.queues[0].name]
    if any(other < key for other in by_stage):
        return None
    highest = min((level for level, _ in by_stage), default=0)
    if any(depth(job) > highest for job in snapshot.holding):
        return None
    try:
        behind = _behind(last, snapshot, by_stage.pop(key, []), gone)
        if behind is None:
            return None
        stages = [Stage(stage.queues, stage.depth, jobs=behind)] if behind else []
        for (level, rank), jobs in sorted(by_stage.items(), key=lambda item: item[0]):
            ordered = last.made.ranking(snapshot).ordered(jobs, groups[rank][0])
            stages.append(Stage(groups[rank], level, jobs=ordered))
    except BrokenOrder:
        return None
    return tuple(stages)


def _can_be_added(job: WaitingJob, last: LastPass, place: Mapping[str, int]) -> bool:
    """Tell whether a new job does not affect the waiting jobs, whatever its rank behind them."""
    if job.queue not in place or job.reservation is not None:
        return False
    roles = roles_of(job)
    return not roles.containers and last.made.knows(roles.profile)


def _behind(last: LastPass, snapshot: Snapshot, fresh: list[WaitingJob], gone: set[int]) -> list[WaitingJob] | None:
    """Return the new jobs of the last stage in order; None if they, or jobs before them, change places."""
    ranking = last.made.ranking(snapshot)
    *others, stage = last.made.stages
    if any(ranking.behind(_left(other.jobs, gone), [], other.queues[0]) is None for other in others):
        return None
    return ranking.behind(_left(stage.jobs, gone), fresh, stage.queues[0])


def _left(jobs: list[WaitingJob], gone: set[int]) -> list[WaitingJob]:
    """Return the jobs that still wait."""
    return [job for job in jobs if job.id not in gone] if gone else jobs


def is_steady(snapshot: Snapshot) -> bool:
    """Tell whether time changes no placement until the next predicted start."""
    limited = snapshot.quotas or snapshot.consumables or snapshot.outages or snapshot.projects is not None
    return not limited and all(map(is_plain, snapshot.waiting)) and all(map(is_plain, snapshot.holding))


def is_plain(job: WaitingJob | HoldingJob) -> bool:
    """Tell whether a job is unshared, cannot be cancelled, and has no dates; its anteriors may have ends."""
    if job.besteffort or roles_of(job) != _PLAIN:
        return False
    if isinstance(job, HoldingJob):
        return not job.amounts and not job.given_back and job.resumes is None
    shifted = any(dependency.earliest is not None or dependency.latest is not None for dependency in job.depends_on)
    return job.reservation is None and job.dates is NO_DATES and not shifted


def can_be_forgotten(job: WaitingJob, placement: Placement, anteriors: Collection[int]) -> bool:
    """Tell whether a job is a reservation that a pass refused, and its end changes nothing for other jobs."""
    refused = job.reservation is not None and placement.start is None and placement.verdict is not Verdict.HELD
    return refused and job.id not in anteriors and not roles_of(job).containers


def asks_for_half(job: WaitingJob) -> bool:
    """Tell whether a job asks for half of the free resources.

    It would get less once jobs behind it have started, because these then come before it.
    """
    levels = (level for way in job.alternatives for group in way.groups for level in group.levels)
    return any(level.count == Count.BESTHALF for level in levels)
