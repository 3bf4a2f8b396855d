"""New reservations that replace accepted ones: they are planned as if these were away, which stay meanwhile.

Reservation 7 has cores 1 and 2. Reservation 9 is requested in its place, later and on three cores::

    core 3    . . . . .        . . 9 9 9
    core 2    7 7 7 . .        7 7 * 9 9
    core 1    7 7 7 . .        7 7 * 9 9        * promised to both

They get a yes or a no in their first pass, before all other new reservations. After a yes, the user who asked decides
which of the two reservations stays.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from oarpy.model.reasons import ACCEPTED, Reason, Why
from oarpy.scheduler.gantt.demands import CompiledRequests, Demand
from oarpy.scheduler.gantt.gantt import Gantt
from oarpy.scheduler.gantt.search import Search
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.rules.reservations import promised
from oarpy.scheduler.snapshot import HoldingJob, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Amended:
    """The answers to replacing reservations: ``refused`` are (job, reason)."""

    accepted: tuple[Placement, ...] = ()
    refused: tuple[tuple[int, Reason], ...] = ()


NOTHING_AMENDED = Amended()


def amended(snapshot: Snapshot) -> tuple[Snapshot, Amended]:
    """Answer the reservations that replace others; return the snapshot in which they hold their resources."""
    amending = [job for job in snapshot.waiting if job.id in snapshot.amending and not job.held and not job.fault]
    if not amending:
        return snapshot, NOTHING_AMENDED
    options = CompiledRequests(snapshot, Matchers(snapshot.platform))
    holding, accepted, refused = list(snapshot.holding), [], []
    for job in amending:
        old = snapshot.amending[job.id]
        if not any(reservation.job.id == old for reservation in snapshot.reservations):
            refused.append((job.id, Reason(Why.NOTHING_TO_AMEND, jobs=(old,))))
            continue
        place = _placed(snapshot, options, job, [holder for holder in holding if holder.id != old])
        if place is None:
            refused.append((job.id, Reason(Why.NO_ROOM_TO_AMEND)))
        else:
            accepted.append(place)
            holding += _held(job, place)
    answered = {job.id for job in amending}
    waiting = tuple(job for job in snapshot.waiting if job.id not in answered)
    return replace(snapshot, waiting=waiting, holding=tuple(holding)), Amended(tuple(accepted), tuple(refused))


def _placed(
    snapshot: Snapshot, options: CompiledRequests, job: WaitingJob, others: Collection[HoldingJob]
) -> Placement | None:
    """Return the place of a reservation at its date, beside ``others``."""
    assert job.reservation is not None
    gantt, roles = Gantt.around(snapshot, job, iter(others)), roles_of(job)
    date = max(job.reservation, snapshot.now)
    ways = options.reservable(job) if date > snapshot.now else options.alive(job)
    place = Search(snapshot.security_time).at(gantt, Demand(job, roles, ways[:1], gantt.limits(job, roles)), date).found
    if place is None:
        return None
    end = place.claim.start + place.option.walltime
    return Placement(job.id, Verdict.RESERVED, ACCEPTED, snapshot.platform, 0, place.claim.start, end, place.claim.bits)


def _held(job: WaitingJob, place: Placement) -> list[HoldingJob]:
    """Return the hold of a newly placed reservation, if it has one."""
    assert place.start is not None
    assert place.end is not None
    reservation = Reservation(job, place.start, place.end - place.start, tuple(place.resources))
    held = promised(reservation, place.start)
    return [] if held is None else [held]
