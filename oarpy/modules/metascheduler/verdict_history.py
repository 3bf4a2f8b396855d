"""The verdicts that a pass keeps for later: changed ones, and for started jobs the jobs that they went past."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isfinite

from oarpy.model.reasons import NO_REASON, Reason, Why
from oarpy.modules.metascheduler.written_predictions import multirange
from oarpy.scheduler.gantt.demands import CompiledRequests
from oarpy.scheduler.order.queue_orders import OF_THE_JOB_ALONE, Candidate, Order, numbers
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Queue, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from oarpy.store.database import Connection
from oarpy.store.passes.decisions import Prediction
from oarpy.store.passes.verdict_history import VerdictRow, last_verdicts, note

_Rank = tuple[int, float, tuple[float, ...]]
_ITS_DATE = Reason(Why.ITS_DATE)
_MOST_FORGOTTEN = 10_000
"""Verdicts of jobs that do not wait any more are remembered up to this number of jobs."""


class KeptVerdicts:
    """Remembers the last verdict kept of each waiting job. A pass that changes none writes nothing."""

    def __init__(self) -> None:
        self._kept: dict[int, str] | None = None
        self._ranks = _Ranks()

    def forget(self) -> None:
        """Believe nothing of the table any more."""
        self._kept = None

    def note(
        self,
        connection: Connection,
        snapshot: Snapshot,
        changed: Sequence[Prediction],
        started: Collection[int],
        orders: Mapping[str, Order],
        matchers: Matchers,
    ) -> dict[int, str]:
        """Write starts, and the verdicts that are new among ``changed``; return these for :meth:`committed`."""
        if self._kept is None:
            self._kept = last_verdicts(connection)
        kept = self._kept
        new = [prediction for prediction in changed if kept.get(prediction.job) != prediction.verdict]
        if new or started:
            self._ranks.begin(snapshot, orders, matchers, {*started, *(prediction.job for prediction in new)})
            rows = [
                self._ranks.row(prediction.job, prediction.verdict, prediction.reason, prediction.start)
                for prediction in new
            ]
            note(connection, [*rows, *self._ranks.starts(started)])
        return {prediction.job: prediction.verdict for prediction in new}

    def committed(self, new: Mapping[int, str], started: Collection[int], waiting: Mapping[int, object]) -> None:
        """Note that ``new`` verdicts, and that these jobs ``started``, are in the table."""
        kept = self._kept
        if kept is None:
            return
        for job in started:
            kept.pop(job, None)
        kept |= new
        if len(kept) > len(waiting) + _MOST_FORGOTTEN:
            self._kept = {job: verdict for job, verdict in kept.items() if job in waiting}


class _Ranks:
    """The ranks of a snapshot's jobs: best-effort jobs last, then the queue, then its order.

    Ranks that nothing but the job decides are kept from pass to pass.
    """

    def __init__(self) -> None:
        self._lasting: dict[int, tuple[WaitingJob, _Rank]] = {}
        self._basis: tuple[object, ...] = ()

    def begin(
        self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers, wanted: Collection[int]
    ) -> None:
        """Begin a pass that writes rows of the ``wanted`` jobs."""
        self._snapshot, self._orders = snapshot, orders
        self._queues = {queue.name: queue for queue in snapshot.queues}
        self._depth = Precedence.of(snapshot).depth
        self._leading: dict[float, Queue] = {}
        for queue in snapshot.queues:
            self._leading.setdefault(queue.priority, queue)  # queues of one priority go by the order of the first
        everybody = (*snapshot.waiting, *(reservation.job for reservation in snapshot.reservations))
        self._jobs = {job.id: job for job in everybody if job.id in wanted}
        self._size = CompiledRequests(snapshot, matchers).size
        names = [queue.order.partition("/")[0] for queue in snapshot.queues]
        lasts = all(orders.get(name) in OF_THE_JOB_ALONE for name in names)
        basis = (snapshot.platform, snapshot.queues, snapshot.consumables)
        if not lasts or basis != self._basis or len(self._lasting) > len(everybody) + _MOST_FORGOTTEN:
            self._lasting, self._basis = {}, basis if lasts else ()

    def row(
        self, job_id: int, verdict: str, reason: Reason, start: float | None, passed: Sequence[int] = ()
    ) -> VerdictRow:
        """Return the row that is kept of a job."""
        job = self._jobs[job_id]
        queue = self._queues.get(job.queue)
        priority = 0 if queue is None else queue.priority
        order = self._leading[priority].order if queue is not None else ""
        key = tuple(filter(isfinite, self._rank(job)[2]))
        jobs_passed = multirange(passed) if passed else "{}"
        return VerdictRow(
            job_id, self._snapshot.now, verdict, reason, start, job.queue, int(priority), order, key, jobs_passed
        )

    def starts(self, started: Collection[int]) -> list[VerdictRow]:
        """Return the rows of jobs that start: a reservation has no rank, any other job went past the jobs before it."""
        jobs = [self._jobs[job] for job in started if job in self._jobs]  # others go on after a suspension
        ranks = {job.id: self._rank(job) for job in jobs if job.reservation is None}
        before = self._waiting_before(max(ranks.values()), started) if ranks else []
        now = float(self._snapshot.now)
        rows = []
        for job in jobs:
            mine = ranks.get(job.id)
            passed = [] if mine is None else [other for rank, other in before if rank < mine]
            rows.append(self.row(job.id, Verdict.STARTS, _ITS_DATE if mine is None else NO_REASON, now, passed))
        return rows

    def _waiting_before(self, last: _Rank, started: Collection[int]) -> list[tuple[_Rank, int]]:
        """Return the jobs that go on waiting and are before ``last`` in the order."""
        known, ranks = self._lasting, {}
        for job in self._snapshot.waiting:
            ranked = known.get(job.id)
            ranks[job.id] = ranked if ranked is not None and ranked[0] is job else (job, self._rank(job))
        if self._basis:
            self._lasting = ranks
        return [
            (rank, number)
            for number, (job, rank) in ranks.items()
            if rank < last and number not in started and job.reservation is None and not job.held
        ]

    def _rank(self, job: WaitingJob) -> _Rank:
        known = self._lasting.get(job.id)
        if known is not None and known[0] is job:
            return known[1]
        queue = self._queues.get(job.queue)
        rank = self._depth(job), 0 if queue is None else -queue.priority, self._key(job)
        if self._basis:
            self._lasting[job.id] = job, rank
        return rank

    def _key(self, job: WaitingJob) -> tuple[float, ...]:
        """Return the job's sort key in its queue; empty where the order fails, or has none."""
        queue = self._queues.get(job.queue)
        order = None if queue is None else self._orders.get(self._leading[queue.priority].order)
        if order is None:
            return ()
        try:
            return numbers(order(Candidate(job, self._snapshot.now, self._size, self._snapshot.priorities)))
        except Exception:  # a plug-in may raise anything; the pass has reported it
            return ()
