"""Tasks of a bag where clusters tell their free slots: one after the other, each on the cluster where it ends first.

After the FreeTimeSlots of chapter 6: clusters make no offers, and their other plans are not looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from oarpy.grid.core.bags.composition import ClusterOffer, Composition
from oarpy.profiles.profile import Profile

SLOTS = "slots"


@dataclass(frozen=True, slots=True)
class FreeProcessors:
    """Processors that are free on a cluster from each instant until the next one; a task takes ``time`` seconds."""

    steps: Sequence[tuple[float, int]]
    time: float


def fill_slots(
    tasks: int, procs: int, deadline: float | None, free: Mapping[str, FreeProcessors], ready: float
) -> Composition:
    """Return how many tasks of ``procs`` processors each cluster gets, from ``ready`` on; ties in their order.

    A part is done by the deadline, or later where its last task ends later.
    """
    profiles = {name: _profile(processors.steps) for name, processors in free.items()}
    places = {name: number for number, name in enumerate(free)}
    queue: list[tuple[float, int, str, float]] = []

    def enter(name: str, lo: float) -> None:
        start = profiles[name].earliest(procs, free[name].time, max(lo, free[name].steps[0][0]))
        if start < inf:
            heapq.heappush(queue, (start + free[name].time, places[name], name, start))

    for name in free:
        enter(name, ready)
    counts, ends = dict.fromkeys(free, 0), dict[str, float]()
    for _ in range(tasks):
        if not queue:
            return Composition(SLOTS, ())
        end, _, name, start = heapq.heappop(queue)
        profiles[name].hold(procs, start, end)
        counts[name], ends[name] = counts[name] + 1, end
        enter(name, start)
    latest = -inf if deadline is None else deadline
    return Composition(
        SLOTS, [ClusterOffer(name, counts[name], max(latest, ends[name])) for name in free if counts[name]]
    )


def _profile(steps: Sequence[tuple[float, int]]) -> Profile:
    """Return the profile that steps describe; the last step holds for ever."""
    profile = Profile(max(procs for _, procs in steps), steps[0][0])
    bounds = [*(begin for begin, _ in steps[1:]), inf]
    for (begin, free), end in zip(steps, bounds, strict=True):
        if free != profile.procs:
            profile.take(begin, end, profile.procs - free)
    return profile
