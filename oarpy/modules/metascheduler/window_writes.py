"""The rows of windows that a pass writes: moves of reservations inside them, fixed reservations, and offers."""

from __future__ import annotations

from collections.abc import Callable

from oarpy.model.job_types import read_types
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.snapshot import Reservation
from oarpy.scheduler.windows.window_pass import WindowMove
from oarpy.store.database import Connection
from oarpy.store.passes import window_moves


def move(connection: Connection, decided: Decisions, security_time: float) -> None:
    """Move accepted reservations to their new places, before other jobs get the resources that they leave."""
    show = decided.kept.snapshot.show_instant
    rows = [_row(move.reservation, _told(move, show)) for move in decided.windows.moves]
    if decided.promised is not None:  # the promise of a slice is as good as before: its user gets no notice
        rows += [_row(reservation, "") for reservation in decided.promised.moves]
    window_moves.move(connection, rows, security_time)


def write(connection: Connection, decided: Decisions, offer_time: float) -> None:
    """Write the answers to new and changed reservations, the fixed reservations, and the offers to refused ones."""
    answers, refused = decided.windows, {refusal.job for refusal in decided.refused}
    window_moves.fix(connection, answers.fixed)
    of = decided.kept.snapshot.windows.of if decided.kept.snapshot.windows else {}
    window_moves.answer(
        connection, [(job, granted, *window) for job, granted in answers.changed.items() if (window := of[job].asked)]
    )
    window_moves.narrow(connection, [(job, *span) for job, span in answers.strict.items() if job not in refused])
    refused |= {job for job, granted in answers.changed.items() if not granted}
    offers = [
        (job, offer.start, offer.end, offer.phi, of[job].asked if job in of else None)
        for job, some in answers.offers.items()
        if job in refused
        for offer in some
    ]
    window_moves.offer(connection, offers, offer_time)


def _row(reservation: Reservation, text: str) -> window_moves.MoveRow:
    alone = read_types(reservation.job.types).alone
    return window_moves.MoveRow(reservation.job.id, reservation.start, reservation.resources, alone, text)


def _told(moved: WindowMove, show: Callable[[float], str]) -> str:
    """Return the message to the user about a move; empty where the start stays."""
    start = moved.reservation.start
    return f"it starts at {show(start)}, not at {show(moved.before)}: {moved.reason}" if start != moved.before else ""
