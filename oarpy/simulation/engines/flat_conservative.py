"""The simulator's fast engine for conservative backfilling on a machine of equal processors, or of equal nodes.

It chooses the same processors as the planner: the first processors, or nodes, that are free for the whole time of a
job. So it gives the starts of :class:`~oarpy.simulation.engines.production.FullPasses`; property tests compare both. It
ignores requests, queues, quotas and reasons. Free sets are integers, a bit for each processor or node::

    begins   0       5       7         12
    free     {3 4}   {4}     {1 2 4}   {1 2 3 4}       free from then on, up to the next begin

Places stand as long as the predictions of the last pass come true. After an early end all places are searched anew, and
after an arrival those behind the new job.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oarpy.scheduler.resources.bit_sets import lowest, positions
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.queue_order import Rank, ranks
from oarpy.simulation.traces.trace import TraceJob


@dataclass(frozen=True, slots=True)
class _Place:
    """The processors that a job holds, and when (seconds)."""

    start: float
    end: float
    bits: int


class FreeTimes:
    """The free processors from ``now`` on; in the end all are free."""

    def __init__(self, now: float, everything: int, running: Iterable[_Place]) -> None:
        held = sorted((place.end, place.bits) for place in running if place.end > now)
        free = everything
        for _, bits in held:
            free ^= bits
        self._begins, self._free = [now], [free]
        for end, bits in held:
            free ^= bits
            if end == self._begins[-1]:
                self._free[-1] = free
            else:
                self._begins.append(end)
                self._free.append(free)

    def earliest(self, need: int, walltime: float) -> _Place:
        """Return the first place where ``need`` processors are free for ``walltime``, on the lowest of them.

        A window of slots grows to the right. If too few are common to it, it begins as far left as its last slot
        allows.
        """
        begins, free = self._begins, self._free
        left, right, last = 0, 1, len(begins)
        common = free[0]
        while True:
            if common.bit_count() >= need:
                end = begins[left] + walltime
                while right < last and begins[right] < end:
                    shared = common & free[right]
                    if shared.bit_count() < need:
                        break
                    common = shared
                    right += 1
                else:
                    return _Place(begins[left], end, lowest(common, need))
            first, left = left, right
            common = free[right]
            right += 1
            if common.bit_count() >= need:
                while left > first + 1 and (shared := common & free[left - 1]).bit_count() >= need:
                    common = shared
                    left -= 1

    def hold(self, place: _Place) -> None:
        """Take a place, whose start is ``now`` or one of the slots' begins."""
        begins, free, bits = self._begins, self._free, place.bits
        for instant in (place.start, place.end):
            slot = bisect_left(begins, instant)
            if slot == len(begins) or begins[slot] != instant:
                begins.insert(slot, instant)
                free.insert(slot, free[slot - 1])
        first, behind = bisect_left(begins, place.start), slot
        free[first:behind] = [mask ^ bits for mask in free[first:behind]]


class FlatConservative:
    """Conservative backfilling on equal processors, or on nodes if jobs get whole nodes."""

    def __init__(self, jobs: Sequence[TraceJob], order: str, machine: Machine) -> None:
        machine.require_names()
        self._cores = machine.cores_per_node
        self._needs = [machine.nodes_for(job.procs) for job in jobs]
        self._walltimes = [job.estimate for job in jobs]
        self._ranks = ranks(order, jobs)
        self._everything = (1 << machine.nodes) - 1
        self._queue: list[tuple[Rank, int]] = []
        self._running: dict[int, _Place] = {}
        self._placed: dict[int, _Place] = {}
        self._stale_from: int | None = None
        """The first place in the queue whose job needs a new place; None: all places stand."""

    def planned(self, job: int) -> float | None:
        """Return the planned start of a waiting job."""
        place = self._placed.get(job)
        return None if place is None else place.start

    def processors(self, job: int) -> int | None:
        """Return the processors of a job that runs or has a place: all processors of its nodes."""
        place = self._running.get(job) or self._placed.get(job)
        if place is None or self._cores == 1:
            return None if place is None else place.bits
        node = (1 << self._cores) - 1
        return sum(node << (number * self._cores) for number in positions(place.bits))

    def arrive(self, job: int, now: float) -> None:
        """Queue ``job``; it and the jobs behind it have no place yet."""
        entry = self._ranks[job], job
        insort(self._queue, entry)
        self._seek_from(bisect_left(self._queue, entry))

    def complete(self, job: int, now: float) -> None:
        """Free the processors of ``job``; an early end leaves a hole that others may move into."""
        if self._running.pop(job).end > now:
            self._seek_from(0)

    def schedule(self, now: float) -> list[int]:
        """Bring the places up to date and start the jobs whose time has come."""
        if self._stale_from is not None and self._queue:
            self._place(now, self._stale_from)
        self._stale_from = None
        started = [job for _, job in self._queue if self._placed[job].start <= now]
        if started:
            for job in started:
                self._running[job] = self._placed.pop(job)
            self._queue = [entry for entry in self._queue if entry[1] in self._placed]
        return started

    def _seek_from(self, place: int) -> None:
        self._stale_from = place if self._stale_from is None else min(self._stale_from, place)

    def _place(self, now: float, first: int) -> None:
        """Search places for the jobs of the queue from ``first`` on; the jobs before keep theirs."""
        times = FreeTimes(now, self._everything, self._running.values())
        for _, job in self._queue[:first]:
            times.hold(self._placed[job])
        for _, job in self._queue[first:]:
            place = times.earliest(self._needs[job], self._walltimes[job])
            times.hold(place)
            self._placed[job] = place
