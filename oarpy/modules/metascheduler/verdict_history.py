"""Which verdicts a pass leaves for later: those that changed, and what started jobs were ordered by."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isfinite

from oarpy.modules.metascheduler.written_predictions import multirange
from oarpy.scheduler.gantt.demands import CompiledRequests
from oarpy.scheduler.order.queue_orders import Candidate, Order
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Queue, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from oarpy.store.database import Connection
from oarpy.store.passes.decisions import Prediction
from oarpy.store.passes.verdict_history import VerdictRow, last_verdicts, note

_Rank = tuple[bool, float, tuple[float, ...]]


class KeptVerdicts:
    """Remembers the last verdict kept of each waiting job. A pass that changes none writes nothing."""

    def __init__(self) -> None:
        self._kept: dict[int, str] | None = None

    def forget(self) -> None:
        """Believe nothing of the table any more."""
        self._kept = None

    def note(
        self,
        connection: Connection,
        snapshot: Snapshot,
        predictions: Mapping[int, Prediction],
        started: Collection[int],
        orders: Mapping[str, Order],
        unseen: frozenset[int],
        matchers: Matchers,
    ) -> dict[int, str]:
        """Write the verdicts that are new, and starts; return what is kept then, to be given to :meth:`committed`."""
        kept = last_verdicts(connection) if self._kept is None else self._kept
        changed = [one for one in predictions.values() if kept.get(one.job) != one.verdict]
        if changed or started:
            ranks = _Ranks(snapshot, orders, matchers)
            rows = [ranks.row(one.job, one.verdict, one.reason, one.start) for one in changed]
            note(connection, [*rows, *ranks.starts(started)])
            kept = {job: kept[job] for job in (*predictions, *unseen) if job in kept and job not in started}
            kept |= {one.job: str(one.verdict) for one in changed}
        return kept

    def committed(self, kept: dict[int, str]) -> None:
        """Note that these are in the table."""
        self._kept = kept


class _Ranks:
    """What the jobs of a snapshot are ordered by: best-effort jobs last, then the queue, then its order."""

    def __init__(self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers) -> None:
        self._snapshot, self._orders = snapshot, orders
        self._queues = {queue.name: queue for queue in snapshot.queues}
        self._leading: dict[float, Queue] = {}
        for queue in snapshot.queues:
            self._leading.setdefault(queue.priority, queue)  # queues of one priority go by the order of the first
        self._jobs = {job.id: job for job in (*snapshot.waiting, *(one.job for one in snapshot.reservations))}
        self._size = CompiledRequests(snapshot, matchers).size

    def row(
        self, job_id: int, verdict: str, reason: str, start: float | None, passed: Collection[int] = ()
    ) -> VerdictRow:
        """Return what is kept of a job."""
        job = self._jobs[job_id]
        queue = self._queues.get(job.queue)
        priority = 0 if queue is None else queue.priority
        order = self._leading[priority].order if queue is not None else ""
        key = tuple(part for part in self._key(job) if isfinite(part))
        told = multirange(list(passed)) if passed else "{}"
        return VerdictRow(
            job_id, self._snapshot.now, verdict, reason, start, job.queue, int(priority), order, key, told
        )

    def starts(self, started: Collection[int]) -> list[VerdictRow]:
        """Return what is kept of jobs that start: reservations have no rank, the others went past who was before."""
        waiting = [
            (self._rank(job), job.id)
            for job in self._snapshot.waiting
            if started and job.id not in started and job.reservation is None and not job.held
        ]
        rows = []
        for job_id in started:
            job = self._jobs.get(job_id)
            if job is None:
                continue  # it goes on after a suspension
            reserved = job.reservation is not None
            mine = self._rank(job)
            passed = [] if reserved else [other for rank, other in waiting if rank < mine]
            reason = "its reservation" if reserved else ""
            rows.append(self.row(job_id, Verdict.STARTS, reason, float(self._snapshot.now), passed))
        return rows

    def _rank(self, job: WaitingJob) -> _Rank:
        queue = self._queues.get(job.queue)
        return job.besteffort, 0 if queue is None else -queue.priority, self._key(job)

    def _key(self, job: WaitingJob) -> tuple[float, ...]:
        """Return what the queue orders a job by; nothing where the order fails, or is by something else."""
        queue = self._queues.get(job.queue)
        order = None if queue is None else self._orders.get(self._leading[queue.priority].order)
        if order is None:
            return ()
        try:
            key = order(Candidate(job, self._snapshot.now, self._size, self._snapshot.priorities))
        except Exception:  # a plug-in may raise anything; the pass has told it
            return ()
        return key if all(isinstance(part, int | float) for part in key) else ()
