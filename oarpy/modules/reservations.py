"""Accepted advance reservations: kept whole until their date; then started, made to wait a little, or given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from oarpy.configuration import Scheduler
from oarpy.model.dependency import Dependency
from oarpy.model.job_types import read_types
from oarpy.model.request import Consumption
from oarpy.modules.snapshot_reader import Reading
from oarpy.scheduler.consumables import Capacities, giving_way
from oarpy.scheduler.dependencies import how_it_ended
from oarpy.scheduler.gantt import bits_consumed_from
from oarpy.scheduler.roles import Roles, roles_of
from oarpy.scheduler.shifting import moved, shifted
from oarpy.scheduler.snapshot import HoldingJob, WaitingJob
from oarpy.store.decisions import Move, Start
from oarpy.store.scheduling import ReservedRow

_PUNCTUAL = 2
"""Seconds by which a start may be late without that being worth a word."""


@dataclass(slots=True)
class Due:
    """What is to be done about reservations now, and when to look again (epoch seconds)."""

    starts: list[Start] = field(default_factory=list)
    expired: list[tuple[int, str]] = field(default_factory=list)
    kill: list[int] = field(default_factory=list)
    waiting: list[tuple[int, str]] = field(default_factory=list)
    wake_at: list[float] = field(default_factory=list)
    events: list[tuple[int, str, str]] = field(default_factory=list)
    """(job, type, description) of what becomes true when the job starts."""


def whole_again(reading: Reading, now: int) -> tuple[Reading, list[Move]]:
    """Give reservations that lost resources others in their place, where there are any.

    Return what is to be written, and the reading as it is then.
    """
    snapshot, usable = reading.snapshot, reading.snapshot.usable
    broken = [
        _as_asked(row, reading, now)
        for row in reading.reserved
        if not reading.waiting[row.id].held
        and not read_types(reading.waiting[row.id].types).permissive
        and row.start + row.walltime > now
        and snapshot.platform.bits_of(row.resources) & ~usable
    ]
    if not broken or not (found := shifted(snapshot, broken)):
        return reading, []
    ids = {job: tuple(snapshot.platform.ids_of(bits)) for job, bits in found.items()}
    holding = tuple(moved(snapshot, job, found[job.id]) if job.id in found else job for job in snapshot.holding)
    reserved = tuple(replace(row, resources=ids.get(row.id, row.resources)) for row in reading.reserved)
    moves = [
        Move(row.id, row.start, row.walltime, ids[row.id], read_types(reading.waiting[row.id].types).exclusive)
        for row in reading.reserved
        if row.id in found
    ]
    return replace(reading, snapshot=replace(snapshot, holding=holding), reserved=reserved), moves


def _as_asked(row: ReservedRow, reading: Reading, now: int) -> WaitingJob:
    """Return the accepted reservation as one that is new, for the time that is left of it."""
    job = reading.reserved_jobs[row.id]
    date = max(int(row.start), now)
    rest = replace(job.alternatives[0], walltime=int(row.start + row.walltime) - date)
    return replace(job, alternatives=(rest,), reservation=date)


def due_reservations(reading: Reading, now: int, settings: Scheduler) -> Due:
    """Decide about every accepted reservation of ``reading`` at ``now``."""
    due = Due()
    capacities = Capacities(reading.snapshot.consumables, reading.snapshot.platform)
    for row in reading.reserved:
        if reading.waiting[row.id].held:
            due.waiting.append((row.id, "held"))
            continue
        _clear_the_way(row, reading, capacities, now, settings, due)
        if row.start > now:
            due.wake_at.append(row.start)
        else:
            _start(row, reading, capacities, now, settings, due)
    return due


def _clear_the_way(
    row: ReservedRow, reading: Reading, capacities: Capacities, now: int, settings: Scheduler, due: Due
) -> None:
    """Have best-effort jobs cancelled early enough for the start: when they must have written their checkpoint."""
    lead = max(settings.besteffort_kill_before_reservation, settings.security_time)
    wanted = set(row.resources)
    staying = [job for job in reading.snapshot.holding if job.start <= row.start < job.end and job.id != row.id]
    in_the_way = {job.id for job in staying if job.besteffort and not wanted.isdisjoint(job.resources)}
    in_the_way.update(_consumers(row, reading, capacities, [job for job in staying if job.id not in in_the_way]))
    for job in staying:
        if job.id in in_the_way:
            date = row.start - lead - reading.checkpoints.get(job.id, 0)
            date = max(date, job.start + settings.besteffort_minimum_life)
            if date > now:
                due.wake_at.append(date)
            else:
                due.kill.append(job.id)


def _consumers(row: ReservedRow, reading: Reading, capacities: Capacities, staying: Sequence[HoldingJob]) -> list[int]:
    """Return the best-effort jobs that must go for the amounts of the reservation; those that started last go first."""
    consumes = _consumes(row, reading)
    if not consumes:
        return []
    platform = reading.snapshot.platform
    held = {job.id: (bits_consumed_from(platform, job), job.consumes) for job in staying if job.consumes}
    excess = capacities.excess(platform.bits_of(row.resources), consumes, list(held.values()))
    youngest = sorted(
        (job for job in staying if job.besteffort and job.id in held), key=lambda job: (-job.start, -job.id)
    )
    return giving_way(excess, [(job.id, capacities.parts(*held[job.id])) for job in youngest])


def _consumes(row: ReservedRow, reading: Reading) -> tuple[Consumption, ...]:
    return reading.reserved_jobs[row.id].alternatives[0].consumes


def _start(row: ReservedRow, reading: Reading, capacities: Capacities, now: int, settings: Scheduler, due: Due) -> None:
    end = row.start + row.walltime
    if end <= now:
        due.expired.append((row.id, "reservation expired and could not be started"))
        return
    impossible, awaited = _dependencies(reading.reserved_jobs[row.id].depends_on, reading)
    if impossible:
        due.expired.append((row.id, impossible))
        return
    usable, wanted = _usable(row, reading, capacities, due.starts), len(row.resources)
    patient = now < row.start + settings.reservation_wait
    if awaited or not usable or (len(usable) < wanted and patient):
        text = f"reservation waits for {awaited or f'{wanted - len(usable)} of its {wanted} resources'}"
        due.waiting.append((row.id, text))
        due.wake_at.append(now + 1)
        return
    if len(usable) < wanted:
        text = f"started on {len(usable)} of its {wanted} resources"
        due.events.append((row.id, "SCHEDULER_REDUCE_NB_NODES_FOR_RESERVATION", text))
    walltime = row.walltime
    if now - row.start >= _PUNCTUAL:
        # A late start shortens the walltime: the end date is kept.
        walltime = end - now
        text = f"started {now - row.start:.0f} s late, its walltime is shortened to {walltime:.0f} s"
        due.events.append((row.id, "REDUCE_RESERVATION_WALLTIME", text))
    due.starts.append(
        Start(row.id, row.moldable, walltime, usable, read_types(reading.waiting[row.id].types).exclusive)
    )


def _dependencies(depends_on: Sequence[Dependency], reading: Reading) -> tuple[str, str]:
    """Say why the reservation can never start, and what it still waits for; empty texts when neither is so."""
    for dependency in depends_on:
        outcome = reading.snapshot.outcomes.get(dependency.job)
        if outcome is None:
            return "", f"job {dependency.job}, which it depends on"
        if dependency.outcome not in ("any", outcome):
            ended = how_it_ended(outcome)
            return f"reservation given up: job {dependency.job}, which it depends on, ended {ended}", ""
    return "", ""


def _usable(row: ReservedRow, reading: Reading, capacities: Capacities, starts: Sequence[Start]) -> list[int]:
    """Return which of its resources are Alive, not held by somebody else and, for an inner job, in its container.

    A permissive job does not mind their state.

    Those whose blocks have too little left, with what ``starts`` takes, of what it asks for are not usable.
    """
    platform = reading.snapshot.platform
    reserved = {other.id for other in reading.reserved}
    running = [job for job in reading.snapshot.holding if job.id not in reserved]
    roles = roles_of(reading.reserved_jobs[row.id])
    around = _containers_around(roles, running)
    bits = platform.bits_of(row.resources)
    if not read_types(reading.waiting[row.id].types).permissive:
        bits &= platform.alive & ~reading.asleep
    if roles.inside is not None:
        bits &= platform.bits_of(number for job in around if roles.inside in _opens(job) for number in job.resources)
    surrounding = {job.id for job in around}
    for job in running:
        if job.id not in surrounding and not roles_of(job).profile.shares(roles.profile):
            bits &= ~platform.bits_of(job.resources)
    consumes = _consumes(row, reading)
    if consumes:
        holders = [(bits_consumed_from(platform, job), job.consumes) for job in running if job.consumes]
        rows = {other.id: other for other in reading.reserved}
        holders += [(platform.bits_of(one.resources), _consumes(rows[one.job], reading)) for one in starts]
        bits &= ~capacities.lacking(consumes, holders)
    return platform.ids_of(bits)


def _containers_around(roles: Roles, running: Sequence[HoldingJob]) -> list[HoldingJob]:
    """Return the running containers that a job lies in: those of its name, and those that they lie in."""
    around: list[HoldingJob] = []
    names = [roles.inside] if roles.inside is not None else []
    for name in names:
        pieces = [job for job in running if name in _opens(job)]
        around += pieces
        names += {inside for job in pieces if (inside := roles_of(job).inside) is not None} - set(names)
    return around


def _opens(job: HoldingJob) -> tuple[str, ...]:
    return roles_of(job).containers
