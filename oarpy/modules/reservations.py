"""Accepted advance reservations whose date has come: start them, wait a little for lost resources, or give up."""

from __future__ import annotations

from dataclasses import dataclass, field

from oarpy.configuration import Scheduler
from oarpy.modules.snapshot_reader import Reading
from oarpy.scheduler.platform import Platform
from oarpy.store.decisions import Start
from oarpy.store.scheduling import ReservedRow


@dataclass(slots=True)
class Due:
    """What is to be done about reservations now, and when to look again (epoch seconds)."""

    starts: list[Start] = field(default_factory=list)
    expired: list[tuple[int, str]] = field(default_factory=list)
    kill: list[int] = field(default_factory=list)
    waiting: list[tuple[int, str]] = field(default_factory=list)
    wake_at: list[float] = field(default_factory=list)


def due_reservations(reading: Reading, now: int, settings: Scheduler) -> Due:
    """Decide about every accepted reservation of ``reading`` at ``now``."""
    due = Due()
    lead = max(settings.besteffort_kill_grace, settings.security_time)
    for row in reading.reserved:
        if reading.waiting[row.id].held:
            due.waiting.append((row.id, "held"))
            continue
        if row.start - lead > now:
            due.wake_at.append(row.start - lead)
            continue
        due.kill += _victims(row, reading)
        if row.start > now:
            due.wake_at.append(row.start)
        else:
            _start(row, reading, now, settings, due)
    return due


def _start(row: ReservedRow, reading: Reading, now: int, settings: Scheduler, due: Due) -> None:
    end = row.start + row.walltime
    if end <= now:
        due.expired.append((row.id, "reservation expired and could not be started"))
        return
    usable = _usable(row, reading)
    if len(usable) < len(row.resources) and (not usable or now < row.start + settings.reservation_wait):
        text = f"reservation waits for {len(row.resources) - len(usable)} of its {len(row.resources)} resources"
        due.waiting.append((row.id, text))
        due.wake_at.append(now + 1)
        return
    # A late start shortens the walltime: the end date is kept.
    walltime = end - now if now - row.start >= 2 else row.walltime
    due.starts.append(Start(row.id, row.moldable, walltime, usable, is_exclusive(reading.waiting[row.id].types)))


def _usable(row: ReservedRow, reading: Reading) -> list[int]:
    platform: Platform = reading.snapshot.platform
    reserved = {other.id for other in reading.reserved}
    held = 0
    for job in reading.snapshot.holding:
        if job.id not in reserved:
            held |= platform.bits_of(job.resources)
    return platform.ids_of(platform.bits_of(row.resources) & platform.alive & ~held)


def _victims(row: ReservedRow, reading: Reading) -> list[int]:
    wanted = set(row.resources)
    return [
        job.id
        for job in reading.snapshot.holding
        if job.besteffort and job.end > row.start and not wanted.isdisjoint(job.resources)
    ]


def is_exclusive(types: tuple[str, ...]) -> bool:
    """Tell whether a job of these types holds its resources alone in the eyes of the database.

    Sharing jobs (timesharing, and what opens its resources to others: container, placeholder) are kept apart by the
    planner instead.
    """
    return not any(word.partition("=")[0] in ("timesharing", "container", "placeholder") for word in types)
