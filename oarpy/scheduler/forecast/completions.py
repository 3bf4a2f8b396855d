"""The ends of jobs if each took its whole walltime and no other job came.

The queue is planned once. A job that joins behind all others is then placed alone, on the stored timeline::

    planned       1 1 2 2 2 3 3
    joining       1 1 2 2 2 3 3 a a      1 1 2 2 2 3 3 b        each as if the other were not there

A job that would not come last is planned together with all others. If the policy foresees no start, the passes are
played forward: each started job holds its resources for its walltime, and the next pass follows at the next end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from msgspec import structs

from oarpy.model.setting_values import FORESEEING
from oarpy.scheduler.decide import decide
from oarpy.scheduler.forecast.queue_in_plan import QueueInPlan
from oarpy.scheduler.job_roles import needs_others
from oarpy.scheduler.order.queue_orders import ORDERS, Order
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import HoldingJob, PassShare, Snapshot, WaitingJob


class Completions:
    """The ends of jobs by one snapshot, for a series of calls with other jobs left out and other jobs joined.

    A call continues from the plan of the call before if the same jobs are left out and more jobs joined at the end. If
    other jobs are left out, the jobs ahead of them keep their places.
    """

    def __init__(
        self, snapshot: Snapshot, orders: Mapping[str, Order] = ORDERS, matchers: Matchers | None = None
    ) -> None:
        self._given, self._orders = snapshot, orders
        self._matchers = matchers or Matchers(snapshot.platform)
        self._waiting = {job.id: job for job in snapshot.waiting}
        self._queues: dict[float, tuple[frozenset[int], QueueInPlan]] = {}
        """By rank, the last plan of all jobs of that rank or a higher one, and the jobs left out."""
        limited = snapshot.ration != PassShare() or snapshot.asleep or snapshot.step is not None
        limited = limited or Precedence.of(snapshot).levelled
        self._planned = snapshot.policy in FORESEEING and not limited
        self._entangled = any(map(needs_others, snapshot.asking))

    def ends(
        self,
        jobs: Sequence[int | WaitingJob],
        without: Collection[int] = (),
        joined: Sequence[WaitingJob] = (),
    ) -> list[float]:
        """Return when jobs end, on the snapshot's axis; infinity for jobs that never start.

        A number stands for a waiting job; a held job is treated as if it were resumed. The other jobs of ``jobs`` join,
        each alone behind ``joined``. Their numbers are above all others, and stay the same in later calls. Jobs that
        hold resources end with their walltimes. A job that is not there ends now.
        """
        gone = frozenset(number for number in without if number in self._waiting)
        held = [job for job in jobs if isinstance(job, int) and job in self._waiting and self._waiting[job].held]
        ends: dict[int, float] = {}
        for number in held:
            ends.update(self._found([number], gone, joined, resumed=number))
        ends.update(self._found([job for job in jobs if job not in ends], gone, joined))
        return [ends[job if isinstance(job, int) else job.id] for job in jobs]

    def _found(
        self, wanted: Sequence[int | WaitingJob], gone: frozenset[int], joined: Sequence[WaitingJob], resumed: int = 0
    ) -> dict[int, float]:
        """Return the end of each job by its number."""
        joining = [job for job in wanted if isinstance(job, WaitingJob)]
        numbers = [job for job in wanted if isinstance(job, int)]
        waiting = [number for number in numbers if number in self._waiting and number not in gone]
        ends = {number: self._end_of_another(number) for number in numbers}
        if self._planned and not resumed:
            ends.update(self._of_planned(waiting, joining, gone, joined))
            return ends
        jobs = tuple(
            structs.replace(job, held=False) if job.id == resumed else job
            for job in self._given.waiting
            if job.id not in gone
        )
        snapshot = replace(self._given, waiting=(*jobs, *joined))
        if waiting:
            ends.update(self._of_whole(snapshot, waiting))
        for job in joining:
            ends.update(self._of_whole(replace(snapshot, waiting=(*snapshot.waiting, job)), [job.id]))
        return ends

    def _end_of_another(self, number: int) -> float:
        """Return the end of a job that does not wait."""
        ends = (job.end for job in self._given.holding if job.id == number)
        return max(self._given.now, next(ends, self._given.now))

    # A plan of the whole queue

    def _of_planned(
        self, numbers: Iterable[int], joining: Iterable[WaitingJob], gone: frozenset[int], joined: Sequence[WaitingJob]
    ) -> dict[int, float]:
        """Return ends by the plan of the queues, up to the rank of each job: jobs behind it do not matter.

        If jobs need other jobs, all queues are planned.
        """
        ends: dict[int, float] = {}
        joining = list(joining)
        ranks = {queue.name: queue.priority for queue in self._given.queues}
        if self._entangled or any(map(needs_others, (*joining, *joined))):
            ranks = {}
        by_rank: dict[float, tuple[list[int], list[WaitingJob]]] = {}
        for number in numbers:
            job = self._waiting[number]
            by_rank.setdefault(_rank(job, ranks), ([], []))[0].append(number)
        for job in joining:
            by_rank.setdefault(_rank(job, ranks), ([], []))[1].append(job)
        for rank, (waiting, fresh) in by_rank.items():
            queue = self._queue(rank, ranks, gone, [job for job in joined if _rank(job, ranks) >= rank])
            times = queue.times(waiting) | queue.times_behind(fresh)
            ends.update((number, span.end) for number, span in times.items())
        return ends

    def _queue(
        self, rank: float, ranks: Mapping[str, float], gone: frozenset[int], joined: Sequence[WaitingJob]
    ) -> QueueInPlan:
        """Return the plan of all jobs of a rank, or a higher one."""
        without, before = self._queues.get(rank, (gone, None))
        if before is not None and without == gone and before.follow(joined):
            return before
        jobs = [job for job in self._given.waiting if job.id not in gone and _rank(job, ranks) >= rank]
        parts = [job for job in self._given.parts if _rank(job, ranks) >= rank]
        there = replace(self._given, waiting=tuple(jobs), parts=tuple(parts))
        queue = QueueInPlan(there, joined, self._orders, self._matchers, before)
        self._queues[rank] = gone, queue
        return queue

    # Anything else

    def _of_whole(self, snapshot: Snapshot, numbers: Sequence[int]) -> dict[int, float]:
        """Return the ends of jobs that wait, decided together with all others."""
        placed = self._placed(snapshot)
        if snapshot.policy in FORESEEING:
            return {number: _end(placed[number]) for number in numbers}
        return self._played(snapshot, placed, numbers)

    def _played(self, snapshot: Snapshot, placed: Mapping[int, Placement], numbers: Sequence[int]) -> dict[int, float]:
        """Play rounds forward until the jobs have started, or nothing more ends."""
        ends: dict[int, float] = {}
        left = set(numbers)
        while True:
            now = snapshot.now
            started = {job.id: placed[job.id] for job in snapshot.asking if placed[job.id].start == now}
            ends.update((number, _end(placement)) for number, placement in started.items())
            left -= started.keys()
            begun = (_holding(job, started[job.id], now) for job in snapshot.asking if job.id in started)
            holding = (*snapshot.holding, *begun)
            if not left or not holding:
                return {number: ends.get(number, inf) for number in numbers}
            now = max(now, min(job.end + snapshot.security_time for job in holding))
            snapshot = replace(
                snapshot,
                now=now,
                holding=tuple(job for job in holding if job.end + snapshot.security_time > now),
                waiting=tuple(job for job in snapshot.waiting if job.id not in started),
                parts=tuple(job for job in snapshot.parts if job.id not in started),
            )
            placed = self._placed(snapshot)

    def _placed(self, snapshot: Snapshot) -> Mapping[int, Placement]:
        return decide(snapshot, None, self._orders, self._matchers).plan.by_job()


def _rank(job: WaitingJob, priorities: Mapping[str, float]) -> float:
    """Return the rank of a job in the plan, the highest first; best-effort jobs come last."""
    return -inf if job.besteffort else priorities.get(job.queue, -inf)


def _end(placed: Placement) -> float:
    return inf if placed.end is None else placed.end


def _holding(job: WaitingJob, placed: Placement, now: float) -> HoldingJob:
    """Return a placed job as a job that holds its resources from ``now`` on."""
    assert placed.alternative is not None
    way = job.alternatives[placed.alternative]
    return HoldingJob(
        job.id,
        job.user,
        now,
        way.walltime,
        project=job.project,
        queue=job.queue,
        name=job.name,
        types=job.types,
        bits=placed.bits,
        consumes=way.consumes,
        levels=way.levels,
    )
