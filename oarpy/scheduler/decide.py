"""``decide(snapshot, memory) -> Decisions``: everything that a pass decides, as a pure function.

It takes these steps, and each sees the decisions of the steps before:

1. suspended jobs that are due to continue get their resources back (:mod:`~oarpy.scheduler.rules.suspended_jobs`);
2. accepted reservations that lost resources get others (:mod:`~oarpy.scheduler.rules.reservations`); new reservations
   that replace accepted ones are answered (:mod:`~oarpy.scheduler.rules.amendments`); reservations with windows may
   move, also to make room for new ones (:mod:`~oarpy.scheduler.windows.window_pass`); promises of slices are kept, and
   their jobs may move forward (:mod:`~oarpy.scheduler.promising`);
3. waiting jobs are placed (:mod:`~oarpy.scheduler.plan`), and again if their walltimes follow from their places
   (:mod:`~oarpy.scheduler.fitting`); a job that is due to start on sleeping nodes waits for them; beside all these
   jobs, slices make new promises;
4. accepted reservations whose date has come start, wait a little, or are given up;
5. running jobs get more time where that delays no other job (:mod:`~oarpy.scheduler.rules.walltime_changes`);
   extensions, which step 3 placed like jobs, are granted, and revocable ones reclaimed;
6. nodes are woken or sent to sleep (:mod:`~oarpy.scheduler.rules.energy`).

Best-effort jobs give way in steps 1, 3 and 4, by one rule (:mod:`~oarpy.scheduler.rules.giving_way`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from oarpy.model.reasons import Reason, Why
from oarpy.scheduler.fitting import Fitted
from oarpy.scheduler.memory import Memory, next_start
from oarpy.scheduler.order.queue_orders import ORDERS, Order
from oarpy.scheduler.placing import PlacingOutcome
from oarpy.scheduler.plan import Placement, Plan, plan
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.promising import Promised
from oarpy.scheduler.resources.consumables import Consumer
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.rules.amendments import NOTHING_AMENDED, Amended, amended
from oarpy.scheduler.rules.dates import next_lapse, next_start_asked
from oarpy.scheduler.rules.energy import PowerOrders, once_awake, power_for, while_waking
from oarpy.scheduler.rules.reservations import Due, JobStart, due_reservations, whole_again, with_reservations
from oarpy.scheduler.rules.suspended_jobs import Resumption, going_on, resumed
from oarpy.scheduler.rules.walltime_changes import WalltimeAnswers, answered
from oarpy.scheduler.snapshot import PartId, Reservation, Snapshot
from oarpy.scheduler.verdicts import Verdict
from oarpy.scheduler.windows.further_tries import FurtherTries
from oarpy.scheduler.windows.window_pass import NO_ANSWERS, WindowAnswers, within_windows

REFUSED, GIVEN_UP = "RESERVATION_REFUSED", "RESERVATION_NO_NODE"
"""The event of a reservation that ends in error: it was refused, or had no resources on its date."""
NOT_PROMISED = "NOT_PROMISED"
"""The event of a job that ends in error because a slice refused the promise it asked for."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Existing promises, as far as they can be kept: ``snapshot`` includes them.

    ``moves`` are reservations on other resources. ``resumptions`` are suspended jobs that have a date to continue.
    ``amended`` are promises that replace others.
    """

    snapshot: Snapshot
    moves: tuple[Reservation, ...] = ()
    resumptions: tuple[Resumption, ...] = ()
    amended: Amended = NOTHING_AMENDED


@dataclass(frozen=True, slots=True)
class Refusal:
    """A waiting job that ends in error, by the type of its event; ``offer`` is a date that a reservation could have."""

    job: int
    event: str
    reason: Reason
    offer: float | None = None


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of a pass. Jobs are given by their ids, instants on the snapshot's axis.

    ``plan`` has the places of the waiting jobs, and the verdict on each. ``accepted`` are new reservations, ``victims``
    the best-effort jobs to cancel, ``resumed`` the suspended jobs that continue now. ``awaiting`` has the reason why an
    accepted reservation still waits. ``events`` are (job, type, description) of reservations that start. Time alone
    changes no decision before ``wake_at``.

    ``outcome`` is the further result of a step that runs in the planner's stead. ``grown`` are extensions that are
    granted now. ``reclaimed`` are parts of jobs that must go, each with the instant at which it is taken; they have the
    ids of the snapshot. ``windows`` are reservations that move inside their windows, and the offers to refused ones.
    ``promised`` is the result for promises of a slice, ``fitted`` that of fitting walltimes to places, if
    there are any.

    Written decisions change the snapshot of the next pass. For example, an accepted reservation then clears its way.
    """

    kept: Kept
    plan: Plan
    starts: tuple[JobStart, ...]
    accepted: tuple[Placement, ...]
    refused: tuple[Refusal, ...]
    victims: tuple[int, ...]
    resumed: tuple[int, ...]
    awaiting: Mapping[int, Reason]
    events: tuple[tuple[int, str, str], ...]
    walltimes: WalltimeAnswers
    power: PowerOrders
    wake_at: float | None
    outcome: PlacingOutcome | None = None
    grown: tuple[JobStart, ...] = ()
    reclaimed: tuple[tuple[int, float], ...] = ()
    windows: WindowAnswers = NO_ANSWERS
    promised: Promised | None = None
    fitted: Fitted | None = None


def decide(
    snapshot: Snapshot,
    memory: Memory | None = None,
    orders: Mapping[str, Order] = ORDERS,
    matchers: Matchers | None = None,
) -> Decisions:
    """Decide about everything in ``snapshot``. Without ``memory`` the answer depends on the snapshot alone.

    ``orders`` are the orders that queues may name. ``matchers`` are compiled requests of the platform; a frequent
    caller keeps them between calls.
    """
    promises = keep_promises(snapshot)
    tries = FurtherTries(promises.snapshot)
    while True:
        snapshot, windows = within_windows(promises.snapshot, matchers, tries.refused, tries.beside, tries.alone)
        promising = None if snapshot.promising is None else snapshot.promising.kept(snapshot, matchers)
        snapshot = snapshot if promising is None else promising.snapshot
        foreseen, outcome, fitted = _foreseen(snapshot, memory, orders, matchers)
        if not tries.needed(windows, foreseen):
            break
    foreseen = windows.named(foreseen)
    if (promised := None if promising is None else promising.answered(foreseen)) is not None:
        windows = windows.and_moved(promised.room_made)
        snapshot = with_reservations(snapshot, (move.reservation for move in promised.room_made))
    kept = replace(promises, snapshot=snapshot)
    planned = once_awake(foreseen, snapshot)
    due = due_reservations(snapshot, foreseen.kill)
    walltimes = WalltimeAnswers()
    if snapshot.walltime_requests and not planned.unseen:  # a change that needs all places waits for a whole plan
        walltimes = answered(snapshot, foreseen, lambda changed: plan(changed, orders, matchers))
    power = power_for(snapshot, planned)
    sorted_out = _SortedOut.of(planned, snapshot).beside(due, promised)
    victims = _victims(planned, due, kept.resumptions)
    starts = (*(start for start in sorted_out.starts if not isinstance(start.job, PartId)), *due.starts)
    grown = tuple(start for start in sorted_out.starts if isinstance(start.job, PartId))
    return Decisions(
        kept,
        planned,
        starts,
        (*kept.amended.accepted, *sorted_out.accepted, *(promised.accepted if promised is not None else ())),
        (
            *(Refusal(job, REFUSED, _refused(reason)) for job, reason in kept.amended.refused),
            *_without_promise(promised),
            *sorted_out.refused,
            *(Refusal(job, GIVEN_UP, reason) for job, reason in due.expired),
            *sorted_out.lapsed,
        ),
        tuple(job for job in victims if not isinstance(job, PartId)),
        going_on(snapshot, kept.resumptions, _consumers(snapshot, (*starts, *grown)) if kept.resumptions else ()),
        dict(due.waiting),
        tuple(due.events),
        walltimes,
        power,
        _wake_at(
            snapshot,
            planned,
            memory,
            (*due.wake_at, walltimes.next_change, power.next_wake, *(outcome.dates if outcome is not None else ())),
        ),
        outcome,
        grown,
        _reclaimed(snapshot, victims),
        windows,
        promised,
        fitted,
    )


def _foreseen(
    snapshot: Snapshot, memory: Memory | None, orders: Mapping[str, Order], matchers: Matchers | None
) -> tuple[Plan, PlacingOutcome | None, Fitted | None]:
    """Place the jobs that wait; return what there is to tell, if another than the planner did, and what follows."""
    snapshot = while_waking(snapshot)
    if snapshot.fitting is None:
        return *_placed(snapshot, memory, orders, matchers), None
    placed, fitted = snapshot.fitting.fitted(snapshot, lambda changed: _placed(changed, memory, orders, matchers))
    return *placed, fitted


def _placed(
    snapshot: Snapshot, memory: Memory | None, orders: Mapping[str, Order], matchers: Matchers | None
) -> tuple[Plan, PlacingOutcome | None]:
    """Place the waiting jobs; return also the outcome of the snapshot's own step if it placed them."""
    if snapshot.step is not None or memory is None or snapshot.parts:
        if memory is not None:
            memory.forget()
        if snapshot.step is not None:
            return snapshot.step.place(snapshot, orders, matchers)
        return plan(snapshot, orders, matchers), None
    whole = snapshot.rules.power is not None or Precedence.of(snapshot).levelled
    return memory.plan(snapshot, orders, matchers, whole=whole), None


def keep_promises(snapshot: Snapshot) -> Kept:
    """Enter suspended jobs from the date at which they continue, and reservations on the resources they can have."""
    snapshot, resumptions = resumed(snapshot, {job.id for job in snapshot.holding if job.resuming})
    if not snapshot.reservations and not snapshot.amending:
        return Kept(snapshot, (), resumptions)
    snapshot, moves = whole_again(snapshot)
    snapshot, answers = amended(snapshot)
    return Kept(snapshot, moves, resumptions, answers)


def _consumers(snapshot: Snapshot, starts: Sequence[JobStart]) -> list[Consumer]:
    """Return the resources of jobs that begin now, with the amounts that they take."""
    reserved = {reservation.job.id: reservation.job.alternatives[0] for reservation in snapshot.reservations}
    asking = {job.id: job.alternatives for job in snapshot.asking}
    ways = (reserved.get(start.job) or asking[start.job][start.alternative] for start in starts)
    return [(start.bits, way.consumes) for start, way in zip(starts, ways, strict=True)]


def _without_promise(promised: Promised | None) -> tuple[Refusal, ...]:
    """Return the jobs that ask a slice for a promise and get none."""
    if promised is None:
        return ()
    return tuple(Refusal(job, NOT_PROMISED, reason, offer) for job, (reason, offer) in promised.refused.items())


def _victims(planned: Plan, due: Due, resumptions: tuple[Resumption, ...]) -> tuple[int, ...]:
    """Return the best-effort jobs that any of the steps cancels, ascending."""
    return tuple(
        sorted({*planned.kill, *due.kill, *(victim for resumption in resumptions for victim in resumption.kill)})
    )


def _reclaimed(snapshot: Snapshot, victims: tuple[int, ...]) -> tuple[tuple[int, float], ...]:
    """Return the parts of jobs that give way, each with the instant at which its notice is over."""
    parts = [job for job in victims if isinstance(job, PartId)]
    if not parts:
        return ()
    notices = {job.id: job.checkpoint for job in snapshot.holding if job.part is not None}
    return tuple((job, snapshot.now + notices[job]) for job in parts)


@dataclass(slots=True)
class _SortedOut:
    """Placements, sorted by the action that follows."""

    starts: list[JobStart] = field(default_factory=list)
    accepted: list[Placement] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    lapsed: list[Refusal] = field(default_factory=list)

    @classmethod
    def of(cls, planned: Plan, snapshot: Snapshot) -> _SortedOut:
        """Sort the placements of ``planned``.

        New reservations get a yes or a no in their first pass; a no, for whatever reason, is final.
        """
        sorted_out, missed = cls(), []
        reservations = {job.id for job in snapshot.waiting if job.reservation is not None}
        for placement in planned.placements:
            if placement.verdict is Verdict.STARTS:
                sorted_out.starts.append(_start(placement, snapshot.now))
            elif placement.verdict is Verdict.RESERVED:
                sorted_out.accepted.append(placement)
            elif placement.job in reservations:
                if placement.verdict is not Verdict.HELD:
                    sorted_out.refused.append(
                        Refusal(placement.job, REFUSED, _refused(placement.reason), placement.offer)
                    )
            elif placement.lapse is not None:
                missed.append(Refusal(placement.job, placement.lapse, placement.reason))
        if missed:  # a job on hold is refused when it is resumed
            held = {job.id for job in snapshot.waiting if job.held and not job.stopped}
            sorted_out.lapsed = [refusal for refusal in missed if refusal.job not in held]
        return sorted_out

    def beside(self, due: Due, promised: Promised | None) -> _SortedOut:
        """Leave out starts on resources where reservations begin now that have just made room for a promise.

        These did not see best-effort jobs, which the next pass places anew.
        """
        moved = {int(move.reservation.job.id) for move in promised.room_made} if promised is not None else set()
        taken = reduce(or_, (start.bits for start in due.starts if start.job in moved), 0)
        self.starts = [start for start in self.starts if not start.bits & taken]
        return self


def _refused(reason: Reason) -> Reason:
    """Return the reason for the end of a job whose reservation was refused for ``reason``."""
    because = reason if reason.because is None else reason.because
    return Reason(Why.RESERVATION_REFUSED, because=because, at=None if reason.because is None else reason.at)


def _start(placement: Placement, now: float) -> JobStart:
    """Return the start of a placed job, with the walltime that its placement has left."""
    assert placement.alternative is not None
    assert placement.end is not None
    return JobStart(placement.job, placement.alternative, placement.end - now, placement.bits)


def _wake_at(snapshot: Snapshot, planned: Plan, memory: Memory | None, dates: tuple[float | None, ...]) -> float | None:
    """Return the first instant at which time alone changes a decision."""
    foreseen = next_start(planned, snapshot.now) if memory is None else memory.next_start(planned, snapshot.now)
    instants = (*dates, foreseen, next_lapse(snapshot), next_start_asked(snapshot))
    return min((instant for instant in instants if instant is not None), default=None)
