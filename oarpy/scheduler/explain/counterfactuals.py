"""The reason why a job does not start, and the changes that would let it start, tried at its turn in the queue.

Each result is a placement on the timeline of the pass, at the job's own rank. ``plan`` would give the same answer if
the job had been submitted with the change. A relaxed job has one alternative: the predicted one, or the first without a
prediction. Job 3 asks for 3 cores for 4 units. It would start now with 2 cores, or for 3 units::

    as asked                 fewer            shorter
    1 1 . . . 2 2 3 3 3 3    1 1 . . . 2 2    1 1 3 3 3 2 2
    . . . . . 2 2 3 3 3 3    3 3 3 3 . 2 2    . . 3 3 3 2 2
    . . . . . 2 2 3 3 3 3    3 3 3 3 . 2 2    . . 3 3 3 2 2
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from msgspec import structs

from oarpy.model.reasons import HELD, Reason
from oarpy.model.request import Consumption, Group, Level, ResourceRequest
from oarpy.scheduler.explain.blocking_jobs import Holder, QuotaUse, holders, quota_use
from oarpy.scheduler.explain.written_filters import WrittenFilters, all_written
from oarpy.scheduler.gantt.gantt import Claim
from oarpy.scheduler.order.queue_orders import ORDERS, Order
from oarpy.scheduler.passes.probe import DRIFT, Probe, Stale
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.rules.energy import Waking
from oarpy.scheduler.snapshot import Snapshot, WaitingJob, condition
from oarpy.scheduler.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Rank:
    """Place of a job, from 1, among the jobs of its queue that are not held, in the order of the queue."""

    place: int
    among: int


@dataclass(frozen=True, slots=True)
class Fewer:
    """A smaller request that would start now, with ``count`` of ``level`` in the first group; one more would not."""

    level: str
    count: int
    request: ResourceRequest


@dataclass(frozen=True, slots=True)
class Shorter:
    """The longest walltime (whole seconds) that would start at ``start``, which is now or earlier than predicted."""

    walltime: int
    start: float


@dataclass(frozen=True, slots=True)
class Unfiltered:
    """Without the filter ``dropped``, which its user wrote, the job would start at ``start``.

    ``group`` counts from 0, None is the job's own.
    """

    dropped: str
    group: int | None
    start: float


@dataclass(frozen=True, slots=True)
class Shortage:
    """The resources that the platform lacks for one group.

    ``counts`` are (level, requested count, largest count that could be served, 0 for none). ``admitted`` counts the
    resources that meet ``condition``, as the user wrote it; it is None if the condition could not be evaluated.
    ``left`` counts the resources that also meet the filters of the site. ``group`` counts from 0.
    """

    group: int
    condition: str
    admitted: int | None
    counts: tuple[tuple[str, int, int], ...]
    left: int | None = None


@dataclass(frozen=True, slots=True)
class Counterfactuals:
    """Everything known about why a waiting job waits. Instants are on the snapshot's axis, None is "no prediction".

    ``alternative`` is the predicted one, on the resources ``bits``. ``leaner`` are the largest smaller amounts that
    would start now; ``resumed`` is when a held job would start if it were not.
    """

    job: int
    verdict: Verdict
    reason: Reason
    alternative: int | None
    start: float | None
    bits: int
    rank: Rank | None = None
    holders: tuple[Holder, ...] = ()
    quota: QuotaUse | None = None
    shortages: tuple[Shortage, ...] = ()
    fewer: Fewer | None = None
    leaner: tuple[Consumption, ...] = ()
    shorter_now: Shorter | None = None
    shorter: Shorter | None = None
    unfiltered: tuple[Unfiltered, ...] = ()
    resumed: float | None = None

    @property
    def resources(self) -> int:
        """The number of predicted resources."""
        return self.bits.bit_count()


AWAKE = Waking()


def counterfactuals(
    snapshot: Snapshot,
    job_id: int,
    orders: Mapping[str, Order] = ORDERS,
    matchers: Matchers | None = None,
    foreseen: Mapping[int, Claim] | None = None,
    waking: Waking = AWAKE,
    written: WrittenFilters | None = None,
) -> Counterfactuals:
    """Plan as far as ``job_id`` and try relaxed requests there. Raises KeyError when it does not wait.

    Starts take the time to wake sleeping nodes into account, by ``waking``. ``written`` are the filters that the user
    wrote; only these are named in the answer (None: all filters).

    ``foreseen`` are the placements of a pass that has just ended. They save planning the jobs ahead once more. They are
    not used if they do not agree with ``snapshot``.
    """
    job = next((other for other in snapshot.waiting if other.id == job_id), None)
    if job is None:
        raise KeyError(job_id)
    probe = _probe(snapshot, job, orders, matchers, foreseen or {})
    decision = probe.decision
    claim = None if decision.found is None else decision.found.claim
    start = None if claim is None else waking.start(claim, snapshot.now)
    if job.held:
        return Counterfactuals(job_id, Verdict.HELD, HELD, None, None, 0, resumed=start)
    way = 0 if decision.found is None else decision.found.option.index
    answer = Counterfactuals(
        job=job_id,
        verdict=decision.verdict,
        reason=decision.reason,
        alternative=None if decision.found is None else way,
        start=start,
        bits=0 if claim is None else claim.bits,
        rank=_rank(probe),
        holders=holders(probe, claim),
        quota=quota_use(probe) if decision.verdict is Verdict.QUOTA else None,
    )
    if job.reservation is not None or not job.alternatives:
        return answer
    known = written or all_written(job)
    return _relaxed(
        answer,
        _Trials(probe, waking),
        structs.replace(job, alternatives=(job.alternatives[way],)),
        replace(known, groups=(known.groups[way],)),
    )


def _probe(
    snapshot: Snapshot,
    job: WaitingJob,
    orders: Mapping[str, Order],
    matchers: Matchers | None,
    foreseen: Mapping[int, Claim],
) -> Probe:
    """Plan as far as ``job``: from the foreseen placements if they lead to its foreseen start, else by a full pass."""
    if foreseen:
        with suppress(Stale):
            probe = Probe(snapshot, job, orders, matchers, foreseen)
            place, expected = probe.decision.found, foreseen.get(job.id)
            if expected is None or (place is not None and abs(place.claim.start - expected.start) <= DRIFT):
                return probe
    return Probe(snapshot, job, orders, matchers)


@dataclass(frozen=True, slots=True)
class _Trials:
    """Finds the start that the job would have with another request."""

    probe: Probe
    waking: Waking

    @property
    def now(self) -> float:
        """The instant of the pass."""
        return self.probe.snapshot.now

    def start(self, job: WaitingJob) -> float | None:
        """Return when ``job``, relaxed, would start; None when it would not."""
        place = self.probe.trial(job)
        return None if place is None else self.waking.start(place.claim, self.now)


def _relaxed(answer: Counterfactuals, trials: _Trials, job: WaitingJob, written: WrittenFilters) -> Counterfactuals:
    """Add to ``answer`` the changes that would start the job earlier; nothing for a job that starts now."""
    if answer.start == trials.now:
        return answer
    shorter_now, shorter = _shorter(trials, job, answer.start)
    answer = replace(
        answer,
        fewer=_fewer(trials, job, written),
        leaner=tuple(_leaner(trials, job)),
        shorter_now=shorter_now,
        shorter=shorter,
        unfiltered=tuple(_unfiltered(trials, job, answer.start, written)),
    )
    if answer.verdict in (Verdict.NEVER, Verdict.RESOURCES_DOWN):
        answer = replace(answer, shortages=tuple(_shortages(trials.probe, job, answer.verdict, written)))
    return answer


def _rank(probe: Probe) -> Rank | None:
    """Return the place of the probed job in its own queue, None for a reservation."""
    rivals = [job.id for job in probe.lined_up if job.queue == probe.job.queue and not job.held]
    return Rank(rivals.index(probe.job.id) + 1, len(rivals)) if probe.job.id in rivals else None


def _fewer(trials: _Trials, job: WaitingJob, written: WrittenFilters) -> Fewer | None:
    """Search for the largest count with which the job starts now, at the outermost level that can be reduced."""
    for depth, level in enumerate(job.alternatives[0].groups[0].levels):
        if level.count > 1:

            def starts(count: int, depth: int = depth) -> bool:
                return trials.start(with_count(job, 0, depth, count)) == trials.now

            count = _largest(level.count, starts)
            if not count:
                return None
            relaxed = with_count(job, 0, depth, count).alternatives[0]
            groups = (
                replace(group, filter=parts.written)
                for group, parts in zip(relaxed.groups, written.groups[0], strict=True)
            )
            return Fewer(level.name, count, ResourceRequest(tuple(groups), consumes=relaxed.consumes))
    return None


def _leaner(trials: _Trials, job: WaitingJob) -> Iterator[Consumption]:
    """Find, for each consumable, the largest smaller amount that would start now."""
    for rank, consumption in enumerate(job.alternatives[0].consumes):

        def starts(amount: int, rank: int = rank) -> bool:
            return trials.start(with_amount(job, rank, amount)) == trials.now

        if amount := _largest(consumption.amount, starts):
            yield replace(consumption, amount=amount)


def _shorter(trials: _Trials, job: WaitingJob, start: float | None) -> tuple[Shorter | None, Shorter | None]:
    """Return the longest walltime that would start now, and the longest that would start before ``start``."""
    known: dict[int, float] = {}

    def start_of(walltime: int) -> float:
        if walltime not in known:
            start = trials.start(with_walltime(job, walltime))
            known[walltime] = math.inf if start is None else start
        return known[walltime]

    before, requested = math.inf if start is None else start, math.ceil(job.alternatives[0].walltime)
    at_once = _largest(requested, lambda walltime: start_of(walltime) == trials.now)
    sooner = _largest(requested, lambda walltime: start_of(walltime) < before)
    return (
        Shorter(at_once, trials.now) if at_once else None,
        Shorter(sooner, start_of(sooner)) if sooner else None,
    )


def _largest(requested: int, serves: Callable[[int], bool]) -> int:
    """Return the largest number below ``requested`` that serves; 0 if 1 does not. ``requested`` itself does not serve.

    It assumes that if a number serves, smaller ones serve too. Otherwise the result still serves, and the next number
    does not.
    """
    if requested < 2 or not serves(1):
        return 0
    low, high = 1, requested
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if serves(middle) else (low, middle)
    return low


def _unfiltered(trials: _Trials, job: WaitingJob, start: float | None, written: WrittenFilters) -> Iterator[Unfiltered]:
    """Drop the user's own filter of the job, then of each group in turn; yield the drops that give an earlier start."""
    groups = job.alternatives[0].groups
    tries: list[tuple[str, int | None, WaitingJob]] = [
        (written.own.written, None, structs.replace(job, properties=written.own.rest))
    ]
    for place, (group, parts) in enumerate(zip(groups, written.groups[0], strict=True)):
        tries.append((parts.written, place, with_group(job, place, replace(group, filter=parts.rest))))
    for dropped, rank, relaxed in tries:
        if (
            not dropped
            or (rank is not None and _is_of_a_type(trials.probe, condition(job.properties, groups[rank].filter)))
            or not all(_is_known(trials.probe, text) for text in _conditions(relaxed))
        ):
            continue
        sooner = trials.start(relaxed)
        if sooner is not None and (start is None or sooner < start):
            yield Unfiltered(dropped, rank, sooner)


def _shortages(probe: Probe, job: WaitingJob, verdict: Verdict, written: WrittenFilters) -> Iterator[Shortage]:
    """Find, for each group that an empty platform cannot serve, the largest possible count of each level."""
    alive_only = verdict is Verdict.RESOURCES_DOWN
    for rank, group in enumerate(job.alternatives[0].groups):
        alone = _alone(job, group)
        if probe.servable(alone, alive_only=alive_only):
            continue
        named, left = written.told(written.groups[0][rank]), probe.admitted(condition(job.properties, group.filter))
        counts = tuple(
            (level.name, level.count, _most(probe, alone, depth, alive_only))
            for depth, level in enumerate(group.levels)
            if level.count > 0
        )
        yield Shortage(rank, named, probe.admitted(named), counts, left)


def _most(probe: Probe, alone: WaitingJob, depth: int, alive_only: bool) -> int:
    """Return the largest count of one level below the requested one that an empty platform serves."""
    requested = alone.alternatives[0].groups[0].levels[depth].count
    return _largest(requested, lambda count: probe.servable(with_count(alone, 0, depth, count), alive_only=alive_only))


def with_walltime(job: WaitingJob, walltime: float) -> WaitingJob:
    """Return ``job`` with another walltime of its only alternative."""
    return structs.replace(job, alternatives=(replace(job.alternatives[0], walltime=walltime),))


def with_amount(job: WaitingJob, rank: int, amount: int) -> WaitingJob:
    """Return ``job`` with another amount of the consumable at place ``rank`` of its only alternative."""
    way = job.alternatives[0]
    consumes = (*way.consumes[:rank], replace(way.consumes[rank], amount=amount), *way.consumes[rank + 1 :])
    return structs.replace(job, alternatives=(replace(way, consumes=consumes),))


def with_group(job: WaitingJob, rank: int, group: Group) -> WaitingJob:
    """Return ``job`` with another group at place ``rank`` of its only alternative."""
    way = job.alternatives[0]
    groups = (*way.groups[:rank], group, *way.groups[rank + 1 :])
    return structs.replace(job, alternatives=(replace(way, groups=groups),))


def with_count(job: WaitingJob, rank: int, depth: int, count: int) -> WaitingJob:
    """Return ``job`` with another count of the level at ``depth`` of group ``rank`` of its only alternative."""
    group = job.alternatives[0].groups[rank]
    levels = (*group.levels[:depth], Level(group.levels[depth].name, count), *group.levels[depth + 1 :])
    return with_group(job, rank, replace(group, levels=levels))


def _alone(job: WaitingJob, group: Group) -> WaitingJob:
    """Return ``job`` asking for one of its groups only."""
    return structs.replace(job, alternatives=(replace(job.alternatives[0], groups=(group,)),))


def _conditions(job: WaitingJob) -> Iterator[str]:
    return (condition(job.properties, group.filter) for way in job.alternatives for group in way.groups)


def _is_of_a_type(probe: Probe, text: str) -> bool:
    """Tell whether a filter asks for another type, such as licences; cores would not replace these resources."""
    bits = probe.snapshot.filters.get(text, 0)
    return bits != 0 and bits & probe.snapshot.platform.default_type == 0


def _is_known(probe: Probe, text: str) -> bool:
    return not text or text in probe.snapshot.filters
