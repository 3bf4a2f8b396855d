"""Compression: after early ends, move the jobs that wait forward from their places, so that none is predicted later.

To plan anew after an early end can make a prediction later: a job that moves forward may take what another one behind
it was to have. So each job in turn, in the order of the queue, is taken out of the plan and put at the earliest place
that all others leave; its old place is one of those. That is repeated until none moves: each then starts when another
one ends. (A. W. Mu'alem and D. G. Feitelson, "Utilization, predictability, workloads, and user runtime estimates in
scheduling the IBM SP2 with backfilling", IEEE TPDS 12(6), 2001.)
"""

from __future__ import annotations

from collections.abc import Mapping

from oarpy.scheduler.continuing import Continuing
from oarpy.scheduler.demands import Demand
from oarpy.scheduler.gantt import Claim
from oarpy.scheduler.lines import Board, Conservative, Line
from oarpy.scheduler.matching import Matchers
from oarpy.scheduler.orders import Order
from oarpy.scheduler.planner import Decision
from oarpy.scheduler.search import Answer, Search
from oarpy.scheduler.snapshot import Snapshot, WaitingJob


class _Forward(Conservative):
    """Every job gives its place back, and gets the earliest one."""

    def __init__(self, board: Board, search: Search, now: float, kept: dict[int, Claim]) -> None:
        super().__init__(board, search, now)
        self._kept = kept

    def find(self, demand: Demand, ready: float) -> Answer:
        """Find the earliest place."""
        if (claim := self._kept.pop(demand.job.id, None)) is not None:
            self._board.gantt.give_back(claim)
        return super().find(demand, ready)


class Compressing(Continuing):
    """A pass that begins with ``kept``: what the jobs that wait, all of them plain, were to hold by the last plan.

    None of these places is past, and all are free beside what holds resources now. A job ends (start + walltime) by its
    place there or earlier; jobs without one are placed behind all others.
    """

    def __init__(
        self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers, kept: Mapping[int, Claim]
    ) -> None:
        super().__init__(snapshot, orders, matchers)
        self._kept = dict(kept)
        self._entered = False

    def _line(self) -> Line:
        if not self._entered:
            self._entered = True
            for job in self._snapshot.waiting:
                if job.id in self._kept:
                    self._board.gantt.enter(job, self._kept[job.id])
        return _Forward(self._board, self._search, self._now, self._kept)

    def _settle(self, job: WaitingJob, decision: Decision) -> None:
        if (claim := self._kept.pop(job.id, None)) is not None:
            self._board.gantt.give_back(claim)
        super()._settle(job, decision)
