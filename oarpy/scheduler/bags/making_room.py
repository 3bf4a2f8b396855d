"""Accepted reservations that make room for a bag with a deadline, inside their windows.

They and the bag are planned by deadlines, beside all that others hold::

    the reservations whose windows end by the deadline | the tasks | the other ones
    each at its earliest place, in this order

If one of them is late, no reservation moves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from oarpy.scheduler.gantt.demands import CompiledRequests
from oarpy.scheduler.gantt.gantt import Claim, Gantt
from oarpy.scheduler.gantt.search import Search
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Reservation, Snapshot
from oarpy.scheduler.windows.admission import replanned
from oarpy.scheduler.windows.named_timeline import NamedTimeline
from oarpy.scheduler.windows.window_pass import MovableReservation, WindowMove, movable, moved_to

_REASON = "it makes room for a bag with a deadline"


@dataclass(frozen=True, slots=True)
class RoomMade:
    """Places of tasks, and the reservations that move for them."""

    claims: Sequence[Claim] = ()
    moves: Sequence[WindowMove] = ()


class RoomMakers:
    """The reservations of a snapshot that may move, by the ends of their windows."""

    def __init__(self, snapshot: Snapshot, matchers: Matchers) -> None:
        self._snapshot = snapshot
        self._known = {int(maker.job.id): maker for maker in movable(snapshot, matchers)}
        self._options, self._search = CompiledRequests(snapshot, matchers), Search(snapshot.security_time)
        self._queue = sorted(
            self._known.values(), key=lambda maker: (maker.job.deadline, maker.job.submitted, maker.job.id)
        )
        self._deadlines = [maker.job.deadline for maker in self._queue]

    @property
    def ids(self) -> frozenset[int]:
        """The reservations that may move."""
        return frozenset(self._known)

    def place(self, deadline: float) -> int:
        """Return how many of them come before a bag: plans with equally many before it are equal."""
        return bisect_right(self._deadlines, deadline)

    def around(self, gantt: Gantt, before: int, tasks: Callable[[Gantt], Sequence[Claim]]) -> RoomMade:
        """Plan so many reservations, then what ``tasks`` enters, then the other ones; nothing if one has no place.

        ``gantt`` has what all others hold; afterwards it is of no more use.
        """
        first = self._planned(gantt, self._queue[:before])
        claims = tasks(gantt) if first is not None else ()
        if first is None or not claims:
            return RoomMade()
        behind = self._planned(gantt, self._queue[before:])
        if behind is None:
            return RoomMade()
        moves = [
            move
            for maker, claim in zip(self._queue, [*first, *behind], strict=True)
            if (move := moved_to(maker.reservation, claim, self._snapshot.platform, _REASON)) is not None
        ]
        return RoomMade(claims, moves)

    def note(self, moves: Iterable[WindowMove]) -> None:
        """Let reservations be where they are now."""
        for move in moves:
            number, resources = move.reservation.job.id, self._snapshot.platform.bits_of(move.reservation.resources)
            self._known[number] = _placed(self._known[number], move.reservation, resources)
        self._queue = [self._known[int(maker.job.id)] for maker in self._queue]

    def _planned(self, gantt: Gantt, queue: Sequence[MovableReservation]) -> list[Claim] | None:
        """Enter reservations, each at its earliest place; return None if one has none in its window."""
        timeline = NamedTimeline(gantt, self._search, self._options)
        if replanned(timeline, [maker.job for maker in queue], self._snapshot.now) is None:
            return None
        claims = [timeline.claims[int(maker.job.id)] for maker in queue]
        for maker, claim in zip(queue, claims, strict=True):
            gantt.enter(maker.reservation.job, claim)
        return claims


def _placed(maker: MovableReservation, moved: Reservation, bits: int) -> MovableReservation:
    """Return a reservation that is elsewhere now."""
    assert maker.job.request.slot is not None
    slot = structs.replace(maker.job.request.slot, start=moved.start, bits=bits)
    return MovableReservation(moved, replace(maker.job, request=replace(maker.job.request, slot=slot)))
