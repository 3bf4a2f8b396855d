"""The one loop over virtual time. A world defines the events and their instants; one step of the loop is one event.

::

    arrivals  1      4   4        known before, in order
    agenda       2 3     4   9    noted while the world runs; at one instant the least comes first

An event is handled with all its immediate consequences, then the loop yields it. So the caller may stop at any event,
look at the world and go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop
from math import inf
from typing import Any, Protocol

Happening = tuple[float, int, Any]
"""An instant, the kind of the event, and the event; within an instant the least comes first."""


class World(Protocol):
    """A simulated world in virtual time."""

    agenda: list[Happening]
    """A heap of future events, beside the arrivals."""

    def over(self) -> bool:
        """Tell whether no event is left, although the agenda may have entries."""

    def handle(self, happening: Happening) -> bool:
        """Let something happen; return whether it did, or was outdated."""


def events(world: World, arrivals: Iterable[Happening], until: float = inf) -> Iterator[Happening]:
    """Let a world go on event by event, up to the instant ``until``, and yield each after it was handled.

    ``arrivals`` are ascending, and infinitely many of them are possible.
    """
    agenda, handle, over = world.agenda, world.handle, world.over
    for arrival in arrivals:
        while agenda and agenda[0] < arrival:
            if over() or agenda[0][0] > until:
                return
            happening = heappop(agenda)
            if handle(happening):
                yield happening
        if arrival[0] > until:
            return
        if handle(arrival):
            yield arrival
    while agenda and not over() and agenda[0][0] <= until:
        happening = heappop(agenda)
        if handle(happening):
            yield happening
