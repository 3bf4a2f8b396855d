"""Accepted advance reservations: kept whole until their date; then they start, wait a little, or are given up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from oarpy.model.job_types import read_types
from oarpy.model.reasons import HELD, Reason, Why
from oarpy.scheduler.gantt.exclusive_levels import Blocks
from oarpy.scheduler.gantt.gantt import bits_consumed_from
from oarpy.scheduler.job_roles import Roles, roles_of
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.consumables import Capacities, Consumer
from oarpy.scheduler.rules.giving_way import Yielding, leaves_at
from oarpy.scheduler.rules.reservation_repair import moved, shifted
from oarpy.scheduler.snapshot import HoldingJob, Reservation, Snapshot, WaitingJob

OVERRUN = 5
"""Seconds for which a job that should be over is still expected to hold its resources."""
_PUNCTUAL = 2
"""Seconds by which a start may be late without a message."""


@dataclass(frozen=True, slots=True)
class JobStart:
    """A job that begins now on the resources ``bits``, by its alternative at that place, for ``walltime`` seconds."""

    job: int
    alternative: int
    walltime: float
    bits: int


@dataclass(slots=True)
class Due:
    """The decisions about reservations now, and when to look again (instants of the snapshot).

    ``waiting`` has the reason why a reservation does not start. ``events`` are (job, type, description) to record when
    it starts.
    """

    starts: list[JobStart] = field(default_factory=list)
    expired: list[tuple[int, Reason]] = field(default_factory=list)
    kill: list[int] = field(default_factory=list)
    waiting: list[tuple[int, Reason]] = field(default_factory=list)
    wake_at: list[float] = field(default_factory=list)
    events: list[tuple[int, str, str]] = field(default_factory=list)


def promised(reservation: Reservation, now: float) -> HoldingJob | None:
    """Return the hold of an accepted reservation; None if it was held beyond its end: then it blocks no job.

    Such a reservation is refused when it is resumed.
    """
    job, start, walltime = reservation.job, int(reservation.start), int(reservation.walltime)
    if reservation.end <= now:
        if job.held:
            return None
        walltime = max(walltime, int(now) + OVERRUN - start)
    return HoldingJob(
        id=job.id,
        user=job.user,
        start=max(start, 0),
        walltime=walltime,
        resources=reservation.resources,
        project=job.project,
        queue=job.queue,
        name=job.name,
        types=job.types,
        consumes=job.alternatives[0].consumes,
        levels=job.alternatives[0].levels,
    )


def with_reservations(snapshot: Snapshot, moved: Iterable[Reservation]) -> Snapshot:
    """Return a snapshot in which these accepted reservations have their present resources and dates."""
    by_job = {reservation.job.id: reservation for reservation in moved}
    if not by_job:
        return snapshot
    holding = []
    for job in snapshot.holding:
        again = promised(by_job[job.id], snapshot.now) if job.id in by_job else job
        holding.append(again or job)
    reservations = tuple(by_job.get(reservation.job.id, reservation) for reservation in snapshot.reservations)
    return replace(snapshot, holding=tuple(holding), reservations=reservations)


def whole_again(snapshot: Snapshot) -> tuple[Snapshot, tuple[Reservation, ...]]:
    """Give reservations that lost resources other resources in their place, if there are any.

    Reservations that belong to a slice are left alone. Return the changed snapshot, and the reservations that moved.
    """
    others = snapshot.promising.own if snapshot.promising is not None else ()
    broken = [
        _as_asked(reservation, snapshot.now)
        for reservation in snapshot.reservations
        if reservation.job.id not in others and is_broken(reservation, snapshot)
    ]
    if not broken or not (resources := shifted(snapshot, broken)):
        return snapshot, ()
    holding = tuple(moved(snapshot, job, resources[job.id]) if job.id in resources else job for job in snapshot.holding)
    reservations = tuple(
        replace(reservation, resources=tuple(snapshot.platform.ids_of(resources[reservation.job.id])))
        if reservation.job.id in resources
        else reservation
        for reservation in snapshot.reservations
    )
    after = replace(snapshot, holding=holding, reservations=reservations)
    return after, tuple(reservation for reservation in reservations if reservation.job.id in resources)


def is_broken(reservation: Reservation, snapshot: Snapshot) -> bool:
    """Tell whether a reservation that is not over has lost resources that it needs."""
    job = reservation.job
    if job.held or read_types(job.types).permissive or reservation.end <= snapshot.now:
        return False
    usable = snapshot.usable & ~snapshot.out(max(reservation.start, snapshot.now), reservation.end)
    return bool(snapshot.platform.bits_of(reservation.resources) & ~usable)


def _as_asked(reservation: Reservation, now: float) -> WaitingJob:
    """Return the accepted reservation as a new one, for its remaining time."""
    date = max(int(reservation.start), now)
    rest = replace(reservation.job.alternatives[0], walltime=int(reservation.end) - date)
    return structs.replace(reservation.job, alternatives=(rest,), reservation=date)


def due_reservations(snapshot: Snapshot, dying: Collection[int]) -> Due:
    """Decide about every accepted reservation; the jobs ``dying`` are cancelled in this pass for others."""
    return _Dates(snapshot, dying).due if snapshot.reservations else Due()


class _Dates:
    """Goes through the accepted reservations; ``due`` collects the decisions.

    ::

        held            told that it waits
        before start    best-effort jobs leave in time, look again at the start
        from start on   start with all resources; wait for missing ones; after the wait, start with those there are
        from end on     given up
    """

    def __init__(self, snapshot: Snapshot, dying: Collection[int]) -> None:
        self._snapshot, self._now, self._dying = snapshot, snapshot.now, set(dying)
        self._capacities = Capacities(snapshot.consumables, snapshot.platform)
        self._blocks = Blocks.of(snapshot)
        self._reserved = {reservation.job.id: reservation for reservation in snapshot.reservations}
        self._running = [job for job in snapshot.holding if job.id not in self._reserved]
        self._live = {job.id for job in snapshot.holding} | {job.id for job in snapshot.waiting}
        self._precedence = Precedence.of(snapshot)
        self._anybody = any(map(self._precedence.depth, snapshot.holding))
        self.due = Due()
        for reservation in snapshot.reservations:
            if reservation.job.held:
                self.due.waiting.append((reservation.job.id, HELD))
                continue
            if reservation.job.id in self._dying:
                continue  # it is best-effort itself, and gives way before it begins
            self._clear_the_way(reservation)
            if reservation.start > self._now:
                self.due.wake_at.append(reservation.start)
            else:
                self._start(reservation)

    def _clear_the_way(self, reservation: Reservation) -> None:
        """Have jobs that give way cancelled early enough for the start, with the time of their checkpoints."""
        if not self._anybody:
            return
        snapshot = self._snapshot
        lead = max(snapshot.rules.besteffort_kill_before_reservation, snapshot.security_time)
        staying = {
            job.id: job
            for job in snapshot.holding
            if job.start <= reservation.start < job.end and job.id != reservation.job.id
        }
        for number in self._in_the_way(reservation, staying.values()):
            date = leaves_at(snapshot, staying[number], reservation.start, lead)
            if date > self._now:
                self.due.wake_at.append(date)
            else:
                self.due.kill.append(number)
                self._dying.add(number)

    def _in_the_way(self, reservation: Reservation, staying: Collection[HoldingJob]) -> list[int]:
        """Return the jobs among ``staying`` that must be gone on the date."""
        platform, way = self._snapshot.platform, reservation.job.alternatives[0]
        yielding = Yielding(self._snapshot, self._capacities, self._blocks, staying)
        if not yielding.anybody_for(reservation.job):
            return []
        bits = platform.bits_of(reservation.resources)
        levels = self._blocks.asked(way.groups, way.consumes)
        victims = set(yielding.on(bits, reservation.job, levels))
        if way.consumes:
            lacking = self._capacities.excess(bits, way.consumes, yielding.firm_amounts(reservation.job, staying))
            victims.update(yielding.for_amounts(reservation.job, lacking, victims | self._dying))
        return [job.id for job in staying if job.id in victims]

    def _start(self, reservation: Reservation) -> None:
        """Start a reservation whose date has come, let it wait for missing resources, or give it up."""
        number, now, due = reservation.job.id, self._now, self.due
        if reservation.end <= now:
            due.expired.append((number, Reason(Why.GIVEN_UP)))
            return
        awaited = self._dependencies(reservation.job)
        if awaited is not None and awaited.kind is Why.ANTERIOR_FAILED:
            due.expired.append((number, awaited))
            return
        bits, wanted = self._usable(reservation), len(reservation.resources)
        usable = bits.bit_count()
        patient = now < reservation.start + self._snapshot.rules.reservation_wait
        if awaited or not usable or (usable < wanted and patient):
            due.waiting.append((number, awaited or _short_of(wanted - usable, wanted)))
            due.wake_at.append(now + 1)
            return
        if usable < wanted:
            text = f"started on {usable} of its {wanted} resources"
            due.events.append((number, "SCHEDULER_REDUCE_NB_NODES_FOR_RESERVATION", text))
        due.starts.append(JobStart(number, reservation.alternative, self._rest(reservation), bits))

    def _rest(self, reservation: Reservation) -> float:
        """Return the remaining seconds of a reservation: a late start shortens the walltime, the end date stays."""
        late = self._now - reservation.start
        if late < _PUNCTUAL:
            return reservation.walltime
        walltime = reservation.end - self._now
        text = f"started {late:.0f} s late, its walltime is shortened to {walltime:.0f} s"
        self.due.events.append((reservation.job.id, "REDUCE_RESERVATION_WALLTIME", text))
        return walltime

    def _dependencies(self, job: WaitingJob) -> Reason | None:
        """Return why the reservation can never start, or the job it still waits for; None if neither holds."""
        for dependency in job.depends_on:
            if self._lives(dependency.job):
                return Reason(Why.RESERVATION_AFTER, jobs=(dependency.job,))
            if dependency.outcome not in ("any", self._snapshot.outcomes.get(dependency.job, "ok")):
                return Reason(Why.ANTERIOR_FAILED, dependency.outcome, (dependency.job,))
        return None

    def _lives(self, job: int) -> bool:
        known = job in self._live or job in self._reserved
        return (known or self._snapshot.heads) and job not in self._snapshot.outcomes

    def _usable(self, reservation: Reservation) -> int:
        """Return its resources that are Alive, not held by another job and, for an inner job, in its container.

        A permissive job ignores states and outages. Resources whose blocks have too little left of a consumable, beside
        other starting reservations, are not usable.
        """
        platform, roles = self._snapshot.platform, roles_of(reservation.job)
        around = _containers_around(roles, self._running)
        bits = platform.bits_of(reservation.resources)
        if not read_types(reservation.job.types).permissive:
            bits &= platform.alive & ~self._snapshot.asleep & ~self._snapshot.out(self._now, reservation.end)
        if roles.inside is not None:
            bits &= platform.bits_of(
                number for job in around if roles.inside in _opens(job) for number in job.resources
            )
        surrounding, way = {job.id for job in around}, reservation.job.alternatives[0]
        levels = self._blocks.known(way.levels, way.consumes)
        for job in self._running:
            if job.id not in surrounding and not roles_of(job).profile.shares(roles.profile):
                held = platform.bits_of(job.resources)
                bits &= ~(held | self._blocks.common(levels, bits, self._blocks.of_holder(job), held))
        if way.consumes:
            bits &= ~self._capacities.lacking(way.consumes, self._takers())
        return bits

    def _takers(self) -> list[Consumer]:
        """Return the amounts that running jobs and starting reservations take."""
        platform = self._snapshot.platform
        running = [(bits_consumed_from(platform, job), job.consumes) for job in self._running if job.consumes]
        starts = [(start.bits, self._reserved[start.job].job.alternatives[0].consumes) for start in self.due.starts]
        return running + starts


def _short_of(missing: int, wanted: int) -> Reason:
    return Reason(Why.RESERVATION_SHORT, count=missing, wanted=wanted)


def _containers_around(roles: Roles, running: Sequence[HoldingJob]) -> list[HoldingJob]:
    """Return the running containers that a job lies in, directly or through other containers."""
    around: list[HoldingJob] = []
    names = [roles.inside] if roles.inside is not None else []
    for name in names:
        pieces = [job for job in running if name in _opens(job)]
        around += pieces
        names += {inside for job in pieces if (inside := roles_of(job).inside) is not None} - set(names)
    return around


def _opens(job: HoldingJob) -> tuple[str, ...]:
    """Return the names of the containers that a job opens."""
    return roles_of(job).containers
