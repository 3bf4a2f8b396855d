"""Accepted reservations in cases: what becomes of them at second 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oarpy.configuration import Scheduler
from oarpy.modules.reservations import Due, due_reservations, whole_again
from oarpy.modules.snapshot_reader import Reading
from oarpy.scheduler.snapshot import HoldingJob, Snapshot, WaitingJob
from oarpy.store.decisions import Move
from oarpy.store.scheduling import ReservedRow, WaitingRow


@dataclass(frozen=True, slots=True)
class Promise:
    """A reservation that was accepted: what it asked for, and what it holds from its date on."""

    asked: WaitingJob
    held: HoldingJob


@dataclass(frozen=True, slots=True)
class Kept:
    """Reservations that go to other resources, and what is due at second 0; ``snapshot`` is what the pass sees."""

    snapshot: Snapshot
    moves: list[Move]
    due: Due


def kept(snapshot: Snapshot, promises: Sequence[Promise], settings: Scheduler) -> Kept:
    """Decide about ``promises`` as a scheduling pass does; they are among the jobs that hold resources."""
    rows = tuple(ReservedRow(one.held.id, one.held.start, one.held.walltime, 0, one.held.resources) for one in promises)
    waiting = {one.asked.id: _row(one.asked) for one in promises}
    asked = {one.asked.id: one.asked for one in promises}
    reading, moves = whole_again(Reading(snapshot, {}, waiting, rows, frozenset(), asked, {}), 0)
    return Kept(reading.snapshot, moves, due_reservations(reading, 0, settings))


def told(word: str, answer: Kept) -> list[str]:
    """Return what is to be told of all reservations under a word of the notation."""
    if word == "moves":
        return [f"moves {move.job} to {_ids(move.resources)}" for move in answer.moves]
    if word == "begins":
        return [f"begins {one.job} on {_ids(one.resources)} for {one.walltime:g}" for one in answer.due.starts]
    if word == "awaits":
        return [f"awaits {job}: {text}" for job, text in answer.due.waiting]
    return [f"expires {job}: {text}" for job, text in answer.due.expired]


def _ids(resources: Sequence[int]) -> str:
    return ",".join(map(str, sorted(resources)))


def _row(job: WaitingJob) -> WaitingRow:
    return WaitingRow(
        id=job.id,
        version=0,
        submission=0,
        user=job.user,
        project=job.project,
        queue=job.queue,
        name=job.name,
        types=job.types,
        properties="",
        submitted=0,
        held=job.held,
        reservation=job.reservation,
        reservation_state="Scheduled",
    )


def as_holding(job: WaitingJob, resources: Sequence[int], end: float) -> Promise:
    """Return the promise of ``resources`` to ``job`` from its date to ``end``."""
    start = job.reservation or 0
    held = HoldingJob(job.id, job.user, start, end - start, tuple(resources), types=job.types)
    ways = tuple(replace(way, walltime=end - start) for way in job.alternatives)
    return Promise(replace(job, alternatives=ways), held)
