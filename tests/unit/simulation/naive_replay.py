"""A slow, obvious simulator: the oracle of the baselines. Everything is recomputed from scratch after every event."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.simulation.engines.queue_order import ranks
from oarpy.simulation.traces.trace import TraceJob


class NaiveReplay:
    """Replays ``jobs`` with ``fcfs``, ``easy`` or ``first_fit`` on ``procs`` processors; ``starts`` is the outcome."""

    def __init__(self, jobs: Sequence[TraceJob], policy: str, order: str, procs: int) -> None:
        self.jobs, self.procs, self.policy = jobs, procs, policy
        self.rank = ranks(order, jobs)
        self.starts: dict[int, float] = {}
        self.ended: set[int] = set()
        self.queue: list[int] = []
        self._run()

    def _run(self) -> None:
        arrivals = list(range(len(self.jobs)))
        while len(self.ended) < len(self.jobs):
            running = [job for job in self.starts if job not in self.ended]
            ends = [(self.starts[job] + self.jobs[job].run, 0, place, job) for place, job in enumerate(running)]
            submits = [(self.jobs[job].submit, 1, job, job) for job in arrivals]
            now, kind, _, job = min(ends + submits)
            if kind == 0:
                self.ended.add(job)
            else:
                arrivals.remove(job)
                self.queue.append(job)
            self._pass(now)

    def _idle(self) -> int:
        """Processors of no job that has started and whose completion has not been handled."""
        return self.procs - sum(self.jobs[job].procs for job in self.starts if job not in self.ended)

    def _free(self, instant: float, extra: Sequence[tuple[float, float, int]] = ()) -> int:
        """Processors free at ``instant``, as far as predicted, after ``extra`` (start, end, processors)."""
        held = [
            (self.starts[job], self.starts[job] + self.jobs[job].estimate, self.jobs[job].procs)
            for job in self.starts
            if job not in self.ended
        ]
        return self.procs - sum(size for start, end, size in [*held, *extra] if start <= instant < end)

    def _pass(self, now: float) -> None:
        self.queue.sort(key=lambda job: self.rank[job])
        while self.queue and self.jobs[self.queue[0]].procs <= self._idle():
            self.starts[self.queue.pop(0)] = now
        if self.policy == "first_fit":
            for job in [*self.queue]:
                if self.jobs[job].procs <= self._idle():
                    self.starts[job] = now
                    self.queue.remove(job)
        if self.policy == "easy" and self.queue:
            self._backfill(now)

    def _backfill(self, now: float) -> None:
        head = self.jobs[self.queue[0]]
        ends = {self.starts[job] + self.jobs[job].estimate for job in self.starts if job not in self.ended}
        shadow = min(end for end in ends if self._free(end) >= head.procs)
        reservation = (shadow, shadow + head.estimate, head.procs)
        for job in self.queue[1:]:
            wanted = self.jobs[job]
            instants = [now, *(end for end in [*ends, shadow] if now < end < now + wanted.estimate)]
            beside = all(self._free(instant, [reservation]) >= wanted.procs for instant in instants)
            if beside and wanted.procs <= self._idle():
                self.starts[job] = now
                self.queue.remove(job)
