"""A machine of counted processors: its jobs, the processors that each holds over time, and the next starts.

:meth:`CountedMachine.advance` moves time on and does everything that was due since the last call, in order. Within an
instant: ends, lapses, dated starts, starts from the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Literal

from oarpy.profiles.profile import Profile

MachinePolicy = Literal["fcfs", "conservative"]
MachineJobState = Literal["held", "waiting", "frozen", "claimed", "reserved", "running", "over"]


@dataclass(slots=True)
class MachineJob:
    """A job of a machine, local or a part of a broker; its rank in the queue is its number.

    It runs for ``run`` seconds, at most ``walltime``. ``begin`` is its date, ``may_begin`` whether it was let go.
    """

    number: int
    name: str
    procs: int
    walltime: float
    run: float
    submitted: float
    local: bool = False
    evictable: bool = False
    state: MachineJobState = "waiting"
    begin: float | None = None
    may_begin: bool = False
    lapses_at: float = inf
    patience: float | None = None
    """It begins when the broker says so, or ends that many seconds after its date; None: it begins at its date."""
    started: float = 0
    status: int = 0
    processors: tuple[int, ...] = ()
    instead_of: MachineJob | None = None
    """The reservation whose place it is to take: processors that both have in common are held once."""

    @property
    def ends_at(self) -> float:
        """When it ends, once it runs."""
        return self.started + min(self.run, self.walltime)

    @property
    def told_by(self) -> float:
        """The time by which the broker has to begin it; infinity if it need not."""
        if not self.may_begin or self.begin is None or self.patience is None:
            return inf
        return self.begin + self.patience

    def hold(self) -> tuple[float, float] | None:
        """Return from when to when the processors cannot be given to others, as far as is known."""
        if self.state == "running":
            return self.started, self.started + self.walltime
        if self.begin is None or self.state not in ("claimed", "reserved"):
            return None
        # tasks of a bag that is not committed have no end of their own: they lapse with the bag
        latest = self.begin if self.may_begin or self.lapses_at == inf else max(self.begin, self.lapses_at)
        return (-inf if self.state == "claimed" else self.begin), latest + self.walltime

    def holds(self) -> Iterator[tuple[float, float, int]]:
        """Yield (from, until, processors) that no other job can get, without those that :attr:`instead_of` holds.

        >>> old = MachineJob(1, "old", 3, 10, 10, 0, state="reserved", begin=0, may_begin=True)
        >>> new = MachineJob(2, "new", 4, 10, 10, 0, state="reserved", begin=5, may_begin=True, instead_of=old)
        >>> list(new.holds())
        [(5, 10, 1), (10, 15, 4)]
        """
        if (hold := self.hold()) is None:
            return
        start, end = hold
        other = self.instead_of.hold() if self.instead_of is not None else None
        if self.instead_of is None or other is None or other[0] >= end or other[1] <= start:
            yield start, end, self.procs
            return
        for begin, until, procs in (
            (start, other[0], self.procs),
            (max(start, other[0]), min(end, other[1]), self.procs - self.instead_of.procs),
            (other[1], end, self.procs),
        ):
            if begin < until and procs > 0:
                yield begin, until, procs


class QueuePlan:
    """The start of each waiting job, if all take their whole walltime and no other job comes."""

    def __init__(
        self, procs: int, policy: MachinePolicy, held: Iterable[MachineJob], waiting: Iterable[MachineJob], now: float
    ) -> None:
        self._policy = policy
        self.free = Profile(procs, now)
        self._floor = now
        for job in held:
            for begin, end, count in job.holds():
                if end > now:
                    self.free.take(max(begin, now), end, count)
        self.starts = {job.number: self.place(job.procs, job.walltime, now) for job in waiting}

    def earliest(self, procs: int, walltime: float, now: float) -> float:
        """Return when a job behind all others would start; infinite if it never can."""
        return self.free.earliest(procs, walltime, max(now, self._floor) if self._policy == "fcfs" else now)

    def place(self, procs: int, walltime: float, now: float) -> float:
        """Return the start of a job that joins behind all others."""
        start = self.earliest(procs, walltime, now)
        if start < inf:
            self.free.take(start, start + walltime, procs)
            self._floor = start
        return start


class CountedMachine:
    """Processors with numbers, and jobs on them.

    ``on_start``, ``on_end`` and ``on_lapse`` are called for each such event.
    """

    def __init__(self, procs: int, policy: MachinePolicy, now: float) -> None:
        self.procs = procs
        self.now = now
        self.jobs: dict[int, MachineJob] = {}
        self.plans = 0
        """How often the plan changed: the number of the present one."""
        self.on_start: Callable[[MachineJob], None] = lambda job: None
        self.on_end: Callable[[MachineJob], None] = lambda job: None
        self.on_lapse: Callable[[MachineJob], None] = lambda job: None
        self._policy = policy
        self._numbers = 0
        self._plan: QueuePlan | None = None

    def add(self, job: MachineJob) -> MachineJob:
        """Take a job in."""
        self._numbers += 1
        job.number = self._numbers
        self.jobs[job.number] = job
        self.changed()
        return job

    def changed(self) -> None:
        """Forget the plan: an event has happened that it does not know."""
        self._plan = None
        self.plans += 1

    def take_processors(self, job: MachineJob) -> None:
        """Give a job the free processors of the lowest numbers."""
        taken = {number for other in self.jobs.values() for number in other.processors}
        job.processors = tuple(number for number in range(self.procs) if number not in taken)[: job.procs]

    def idle(self, start: float, end: float, without: MachineJob | None = None) -> int:
        """Return how many processors no job, except ``without``, holds at any instant from ``start`` to ``end``."""
        holds = [hold for job in self.jobs.values() if job is not without for hold in job.holds()]
        instants = {start, *(begin for begin, _, _ in holds if start < begin < end)}
        return self.procs - max(sum(n for begin, until, n in holds if begin <= at < until) for at in instants)

    def finish(self, job: MachineJob) -> None:
        """End a job now, in any state."""
        job.state = "over"
        job.processors = ()
        del self.jobs[job.number]
        self.changed()

    def start(self, job: MachineJob) -> None:
        """Let a job run from now on."""
        if not job.processors:
            self.take_processors(job)
        job.state, job.started = "running", self.now
        self.changed()
        self.on_start(job)

    def waiting(self) -> list[MachineJob]:
        """Return the waiting jobs, in the order of the queue."""
        return [job for job in self.jobs.values() if job.state == "waiting"]

    def plan(
        self, without: Collection[int] = (), extra: Sequence[MachineJob] = (), *, fresh: bool = False
    ) -> QueuePlan:
        """Return the plan of the queue, without some jobs and with some that do not wait yet, each in its rank.

        A ``fresh`` one may be changed by the caller.
        """
        fresh = fresh or bool(without) or bool(extra)
        if self._plan is None or fresh:
            held = [job for job in self.jobs.values() if job.number not in without]
            waiting = [job for job in held if job.state == "waiting"]
            waiting = sorted((*waiting, *extra), key=lambda job: job.number)
            plan = QueuePlan(self.procs, self._policy, held, waiting, self.now)
            if fresh:
                return plan
            self._plan = plan
        return self._plan

    def advance(self, now: float) -> None:
        """Advance the time to ``now``; it never goes back."""
        self._settle()
        while (instant := min(self.instants(), default=inf)) <= now:
            self.now = max(instant, self.now)
            self._settle()
        self.now = max(self.now, now)

    def _settle(self) -> None:
        """Do all that is due at this instant."""
        while due := next(self._due(), None):
            due()

    def _due(self) -> Iterator[Callable[[], None]]:
        jobs = list(self.jobs.values())
        for job in jobs:
            if job.state == "running" and job.ends_at <= self.now:
                yield partial(self._ends, job)
        for job in jobs:
            if job.lapses_at <= self.now or job.told_by <= self.now:
                yield partial(self.on_lapse, job)
        for job in jobs:
            begins = job.may_begin and job.patience is None
            if job.state in ("claimed", "reserved") and begins and (job.begin or 0) <= self.now:
                yield partial(self.start, job)
        starts = self.plan().starts
        for job in self.waiting():
            if starts[job.number] <= self.now:
                yield partial(self.start, job)

    def _ends(self, job: MachineJob) -> None:
        self.finish(job)
        self.on_end(job)

    def instants(self) -> Iterator[float]:
        """Yield when something may be due next."""
        for job in self.jobs.values():
            if job.state == "running":
                yield job.ends_at
            if job.lapses_at < inf:
                yield job.lapses_at
            if job.state in ("claimed", "reserved") and job.may_begin and job.begin is not None:
                yield job.begin if job.patience is None else job.told_by
        yield from (start for start in self.plan().starts.values() if start < inf)
