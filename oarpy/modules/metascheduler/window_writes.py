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
    rows = [_row(one.reservation, _told(one, show)) for one in decided.windows.moves]
    if decided.promised is not None:  # the promise of a slice is as good as before: its user gets no notice
        rows += [_row(one, "") for one in decided.promised.moves]
    window_moves.move(connection, rows, security_time)


def write(connection: Connection, decided: Decisions, offer_time: float) -> None:
    """Write the answers to new and changed reservations, the fixed reservations, and the offers to refused ones."""
    answers, refused = decided.windows, {one.job for one in decided.refused}
    window_moves.narrow(connection, [(job, *one) for job, one in answers.strict.items() if job not in refused])
    window_moves.fix(connection, answers.fixed)
    of = decided.kept.snapshot.windows.of if decided.kept.snapshot.windows else {}
    window_moves.answer(
        connection, [(job, granted, *asked) for job, granted in answers.changed.items() if (asked := of[job].asked)]
    )
    refused |= {job for job, granted in answers.changed.items() if not granted}
    offers = [
        (job, one.start, one.end, one.phi) for job, some in answers.offers.items() if job in refused for one in some
    ]
    window_moves.offer(connection, offers, offer_time)


def _row(reservation: Reservation, text: str) -> window_moves.MoveRow:
    alone = read_types(reservation.job.types).alone
    return window_moves.MoveRow(reservation.job.id, reservation.start, reservation.resources, alone, text)


def _told(one: WindowMove, show: Callable[[float], str]) -> str:
    """Return the message to the user about a move; empty where the start stays."""
    start = one.reservation.start
    return f"it starts at {show(start)}, not at {show(one.before)}: {one.reason}" if start != one.before else ""
