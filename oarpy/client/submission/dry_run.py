"""``oarsub --dry-run``: admission and one scheduling pass on the state of this moment; nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from oarpy.admission.rules.rules import RefusedByRule
from oarpy.client.session import Session
from oarpy.client.submission.options import Options
from oarpy.client.submission.submission import Admitted, admit
from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.cluster_state.past_starts import CHANCE, learnt
from oarpy.cluster_state.what_if import read_only, with_jobs
from oarpy.cluster_state.window_line import with_windows
from oarpy.model.dependency import Dependency
from oarpy.model.errors import AdmissionRefused
from oarpy.model.reasons import Reason
from oarpy.model.submission import Submission
from oarpy.model.windows import AskedWindow
from oarpy.scheduler.decide import decide
from oarpy.scheduler.passes.probe import Probe
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import NETWORK_ADDRESS, Platform
from oarpy.scheduler.rules.energy import Waking, waking_of, while_waking
from oarpy.scheduler.snapshot import QuotaRule, Snapshot, WaitingJob, singleton_rules
from oarpy.scheduler.verdicts import Verdict
from oarpy.scheduler.windows.admission import Offer
from oarpy.store.jobs import submissions

MOST_PREDICTED = 10_000
"""Members of an array that are planned."""


@dataclass(frozen=True, slots=True)
class Place:
    """The time and the resources of a job: epoch seconds, ``end`` without security time; ids and nodes, in order."""

    start: float
    end: float
    resources: tuple[int, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """One alternative, and where the job would go if it had no other (None: nowhere)."""

    request: str
    walltime: float
    place: Place | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """A pass's prediction for one job; ``alternative`` counts from 0."""

    verdict: Verdict
    reason: Reason
    alternative: int | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The basis of a prediction: the cluster of this moment with the new ``job`` waiting."""

    snapshot: Snapshot
    job: WaitingJob
    matchers: Matchers


@dataclass(frozen=True, slots=True)
class PredictedStart:
    """The predicted start of a job or an array. ``last`` is the last planned member of an array of ``size``.

    ``last`` equals ``first`` for one job. ``cancelled`` are best-effort jobs in the way; ``next_date`` is when a
    refused reservation could start. ``asleep`` are nodes of the first member that have to wake before it starts. It
    starts within ``interval`` (epoch seconds), learnt from ``past_starts``. The interval is None for a start that does
    not depend on when others end. A reservation with a ``window`` may move in it; ``offers`` are other starts for a
    refused reservation.
    """

    first: Forecast
    last: Forecast
    ways: tuple[Way, ...]
    size: int
    planned: int
    rehearsed: Rehearsed
    reservation: float | None = None
    next_date: float | None = None
    asleep: tuple[str, ...] = ()
    cancelled: tuple[int, ...] = ()
    interval: tuple[float, float] | None = None
    past_starts: int | None = None
    window: AskedWindow | None = None
    offers: tuple[Offer, ...] = ()

    @property
    def refused(self) -> bool:
        """True for a reservation that would not be accepted."""
        return self.reservation is not None and self.first.verdict not in (Verdict.RESERVED, Verdict.STARTS)


@dataclass(frozen=True, slots=True)
class DryRun:
    """The predicted result of a submission.

    ``refusal`` is the error when it is not admitted, and nothing is predicted.
    """

    trace: tuple[str, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    refusal: AdmissionRefused | None = None
    admitted: Admitted | None = None
    prediction: PredictedStart | None = None

    @property
    def refused(self) -> bool:
        """True when the rules, or the scheduler in the case of a reservation, say no."""
        return self.refusal is not None or (self.prediction is not None and self.prediction.refused)


def dry_run(session: Session, options: Options, arguments: Sequence[str], environment: Mapping[str, str]) -> DryRun:
    """Predict the result of submitting ``options``. Raises for malformed options, as ``submit`` does."""
    try:
        admitted = admit(session, options, arguments, environment)
    except RefusedByRule as refusal:
        return DryRun(tuple(refusal.trace.lines()), tuple(refusal.trace.notes), refusal=refusal)
    except AdmissionRefused as refusal:
        return DryRun((), (), refusal=refusal)
    trace, notes = tuple(admitted.trace.lines()), tuple(admitted.trace.notes)
    return DryRun(trace, notes, admitted.warnings, None, admitted, _predict(session, admitted))


def _predict(session: Session, admitted: Admitted) -> PredictedStart:
    """Decide as a pass would that found the new jobs waiting; try each alternative alone by a probe of one job.

    The platform and the jobs are read in one read-only transaction. Only a limited number of members of an array is
    planned.
    """
    reader = session.snapshot_reader()
    with session.connection.transaction():
        present = read_only(session.connection, reader).snapshot
        first = WaitingJob.of_submission(admitted.submission, unused_id(admitted, present), present.now)
        stopped = first.queue in {queue.name for queue in present.queues if not queue.active}
        throttle = admitted.submission.throttle
        first = structs.replace(first, held=first.held or stopped, array=first.id if throttle else 0)
        planned = min(admitted.submission.array_size, MOST_PREDICTED)
        members = [
            structs.replace(first, id=first.id + rank, depends_on=awaited)
            for rank, awaited in enumerate(_awaited(session, admitted.submission, planned))
        ]
        first = members[0]
        snapshot = with_jobs(session.connection, reader, present, members)
        own = (*singleton_rules([first]), *([QuotaRule.of_array(first.array, throttle)] if throttle else ()))
        if own:
            snapshot = replace(
                snapshot, quotas=(*snapshot.quotas, *(rule for rule in own if rule not in snapshot.quotas))
            )
    if first.reservation is not None:
        snapshot = with_windows(session.configuration.scheduler, snapshot, members, admitted.submission.window)
    policies = SiteOrders()
    decided = decide(snapshot, None, policies, reader.matchers)
    placements, waking = decided.plan.by_job(), waking_of(snapshot)
    probe = Probe(while_waking(decided.kept.snapshot), first, policies, reader.matchers)
    forecast = forecast_of(placements[first.id])
    interval, past_starts = _expected_start(session, first.queue, forecast, snapshot.now)
    refused = first.reservation is not None and forecast.verdict not in (Verdict.RESERVED, Verdict.STARTS)
    return PredictedStart(
        first=forecast,
        last=forecast_of(placements[members[-1].id]),
        ways=_ways(admitted, first, probe, forecast, waking),
        size=admitted.submission.array_size,
        planned=planned,
        rehearsed=Rehearsed(snapshot, first, reader.matchers),
        reservation=first.reservation,
        next_date=probe.next_date(first, first.reservation or 0) if refused else None,
        cancelled=placements[first.id].victims,
        asleep=_asleep(placements[first.id], snapshot.asleep),
        interval=interval,
        past_starts=past_starts,
        window=admitted.submission.window,
        offers=tuple(decided.windows.offers.get(first.id, ())) if refused else (),
    )


def _awaited(session: Session, submission: Submission, jobs: int) -> list[tuple[Dependency, ...]]:
    """Return the dependencies of each of the first ``jobs`` of a submission."""
    required = submission.required.values()
    connection = session.connection
    members = {
        dependency.job: submissions.of_array(connection, dependency.job)
        for dependency in required
        if dependency.outcome == "corr"
    }
    return [
        tuple(dependency.of_member(members.get(dependency.job, {}), index) for dependency in required)
        for index in range(1, jobs + 1)
    ]


def _expected_start(
    session: Session, queue: str, forecast: Forecast, now: float
) -> tuple[tuple[float, float] | None, int | None]:
    """Return the interval that the job would get as its first prediction, and the number of past starts behind it."""
    if forecast.place is None or forecast.verdict not in CHANCE or forecast.place.start <= now:
        return None, None
    known = learnt(session.connection)
    interval = known.interval(queue, forecast.place.start - now)
    return (
        (None, known.starts)
        if interval is None
        else ((now + interval.earliest, now + interval.latest), interval.starts)
    )


def unused_id(admitted: Admitted, present: Snapshot) -> int:
    """Return an id above those of all jobs that the pass reads, as a new job would have."""
    live = [job.id for job in present.waiting] + [job.id for job in present.holding]
    return 1 + max([*live, *present.outcomes, *admitted.submission.required], default=0)


def _ways(admitted: Admitted, job: WaitingJob, probe: Probe, forecast: Forecast, waking: Waking) -> tuple[Way, ...]:
    """Plan each alternative alone; of a reservation only the first."""
    ways = []
    for rank, (request, alternative) in enumerate(zip(admitted.submission.alternatives, job.alternatives, strict=True)):
        place = forecast.place if rank == forecast.alternative else None
        if job.reservation is None and place is None:
            trial = probe.trial(structs.replace(job, alternatives=(alternative,)))
            if trial is not None:
                claim, start = trial.claim, waking.start(trial.claim, probe.snapshot.now)
                place = _place(probe.snapshot.platform, start, start + claim.walltime, claim.bits)
        ways.append(Way(str(request), alternative.walltime, place))
    return tuple(ways)


def forecast_of(placement: Placement) -> Forecast:
    """Return a pass's forecast for the job that it placed, or did not."""
    if placement.start is None or placement.end is None:
        return Forecast(placement.verdict, placement.reason)
    place = _place(placement.platform, placement.start, placement.end, placement.bits)
    return Forecast(placement.verdict, placement.reason, placement.alternative, place)


def _place(platform: Platform, start: float, end: float, bits: int) -> Place:
    ids = tuple(platform.ids_of(bits))
    properties = (platform.resources[platform.position[number]].properties for number in ids)
    nodes = dict.fromkeys(str(row[NETWORK_ADDRESS]) for row in properties if row.get(NETWORK_ADDRESS) is not None)
    return Place(start, end, ids, tuple(nodes))


def _asleep(placement: Placement, bits: int) -> tuple[str, ...]:
    if placement.start is None or placement.end is None:
        return ()
    return _place(placement.platform, placement.start, placement.end, placement.bits & bits).nodes
