"""Bags of tasks on a cluster in memory: offers for them, their tasks as reservations, and the tasks that come forward.

A part that is a bag is a job of no processor, which stands for the whole; its tasks are jobs of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf

from msgspec import UNSET

from oarpy.grid.calls.parts import BagOffers, BagPart, GridPart, TaskOffer
from oarpy.grid.calls.table import CallRefused, Offers, TellCompletions
from oarpy.grid.clusters.virtual.machine import CountedMachine, MachineJob
from oarpy.profiles.profile import Profile

_OFFER_TIME = 60.0
"""Seconds for which an offer holds; its tasks start no earlier."""
_TOLD_AGAIN = 1.0
"""Seconds between two events that tell of newer plans."""


@dataclass(slots=True)
class VirtualBag:
    """A bag: its tasks by the numbers of their jobs; those that are not over, and the latest end of the others."""

    whole: MachineJob
    end_by: float
    tasks: dict[int, int]
    jobs: dict[int, MachineJob]
    ended: float = 0.0
    status: int = 0
    began: bool = False
    told: float | None = None
    completion: float = 0.0
    version: int = 0

    def expected(self) -> float:
        """Return when its last task is done, as far as is known."""
        ends = (hold[1] for job in self.jobs.values() if (hold := job.hold()) is not None)
        return max(ends, default=self.ended)


@dataclass(slots=True)
class VirtualBags:
    """The bags of a machine. ``runs`` says how long the tasks of a part run."""

    machine: CountedMachine
    runs: Callable[[GridPart], float]
    strength: tuple[float, str]
    _bags: dict[int, VirtualBag] = field(default_factory=dict)
    _of_task: dict[int, VirtualBag] = field(default_factory=dict)
    _offers: dict[str, tuple[float, int, float]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _open_until: float = -inf
    _known_plan: int = 0
    """The plan that the broker knows."""
    _told_at: float = -inf

    def of(self, job: MachineJob) -> VirtualBag | None:
        """Return the bag that a job stands for, or of which it is a task; None if it is none."""
        return self._bags.get(job.number) or self._of_task.get(job.number)

    def committed(self) -> list[VirtualBag]:
        """Return the bags whose tasks may begin."""
        return [bag for bag in self._bags.values() if bag.whole.may_begin]

    # offers

    def offers(self, call: Offers) -> BagOffers:
        """Answer ``offers``."""
        machine, request, disclosed = self.machine, call.request, self.strength[1]
        until, offers = machine.now + _OFFER_TIME, list[TaskOffer]()
        if request.procs <= machine.procs:
            starts = _places(machine.plan(fresh=True).free, request.procs, request.walltime, call.tasks, until)
            expected = self._expected(call, until)
            for size in sorted({-(-call.tasks * share // 100) for share in call.shares}, reverse=True):
                end = max(starts[size - 1] + request.walltime, call.end_by or 0.0)
                sooner = None if expected is None else expected[size - 1]
                if not offers or _counted(call, end, sooner) < _counted(call, offers[-1].end, offers[-1].expected):
                    name = f"offer-{next(self._numbers)}"
                    self._offers[name] = until, size, end
                    offers.append(TaskOffer(size, end, name, sooner))
        if self._open_until < machine.now:
            self._known_plan = machine.plans
        self._open_until = until
        power = None if disclosed == "offers" else machine.procs * self.strength[0]
        pending = self._pending() if disclosed in ("load", "slots") else None
        return BagOffers(machine.plans, until, tuple(reversed(offers)), power, pending, disclosed == "slots")

    def _expected(self, call: Offers, ready: float) -> list[float] | None:
        """Return when tasks are expected to end, by their profile; all nodes are of one type."""
        if call.profile is UNSET:
            return None
        time = min(max(call.profile.values()), call.request.walltime)
        starts = _places(self.machine.plan(fresh=True).free, call.request.procs, time, call.tasks, ready)
        return [start + time for start in starts]

    def newer_plan(self) -> int | None:
        """Return the number of the present plan while older offers are open, once a second at most."""
        now, plan = self.machine.now, self.machine.plans
        if now > self._open_until or plan == self._known_plan or now < self._told_at + _TOLD_AGAIN:
            return None
        self._known_plan, self._told_at = plan, now
        return plan

    def _pending(self) -> float:
        """Return the processor seconds of the jobs that run and wait."""
        now, pending = self.machine.now, 0.0
        for job in self.machine.jobs.values():
            hold = job.hold()
            begin, end = (now, now + job.walltime) if hold is None else hold
            pending += job.procs * max(end - max(begin, now), 0.0)
        return pending

    def _check(self, bag: BagPart) -> None:
        if not bag.offer:
            return
        until, tasks, end = self._offers.get(bag.offer, (0.0, 0, 0.0))
        if until < self.machine.now:
            raise changed(f"offer {bag.offer!r} is over, or was taken up")
        if len(bag.tasks) > tasks or bag.end_by < end:
            raise CallRefused(f"offer {bag.offer!r} is smaller")

    # parts

    def make(self, part: GridPart) -> tuple[MachineJob, float]:
        """Make the bag that a part is; return the job that stands for it, and by when it is done."""
        bag, request, machine = part.bag, part.request, self.machine
        if bag is UNSET:
            raise CallRefused(f"part {part.name!r} has no tasks")
        self._check(bag)
        starts = _places(machine.plan(fresh=True).free, request.procs, request.walltime, len(bag.tasks), machine.now)
        end = starts[-1] + request.walltime
        if bag.strict and end > bag.end_by:
            raise changed(f"{len(bag.tasks)} tasks are done by {end:g}, not by {bag.end_by:g}")
        self._offers.pop(bag.offer, None)
        whole = machine.add(MachineJob(0, part.name, 0, request.walltime, 0, machine.now, state="held"))
        virtual_bag = VirtualBag(whole, bag.end_by, {}, {})
        for task, start in zip(bag.tasks, starts, strict=True):
            job = machine.add(
                MachineJob(
                    0,
                    f"{part.name}#{task}",
                    request.procs,
                    request.walltime,
                    self.runs(part),
                    machine.now,
                    local=True,
                    state="reserved",
                    begin=start,
                )
            )
            virtual_bag.tasks[job.number], virtual_bag.jobs[job.number] = task, job
            self._of_task[job.number] = virtual_bag
        self._bags[whole.number] = virtual_bag
        return whole, max(end, bag.end_by)

    def commit(self, whole: MachineJob) -> None:
        """Let the tasks of a bag begin, if it is one."""
        if bag := self._bags.get(whole.number):
            bag.whole.may_begin = True
            for job in bag.jobs.values():
                job.may_begin = True

    def drop(self, whole: MachineJob) -> list[int]:
        """End the remaining tasks of a bag, if the job is a bag; return their numbers."""
        bag = self._bags.pop(whole.number, None)
        if bag is None:
            return []
        for job in list(bag.jobs.values()):
            self.machine.finish(job)
        return [bag.tasks[number] for number in bag.jobs]

    def over(self, job: MachineJob) -> int:
        """Note the end of a task; return its number."""
        bag = self._of_task.pop(job.number)
        del bag.jobs[job.number]
        bag.ended = max(bag.ended, self.machine.now)
        bag.status = bag.status or job.status
        return bag.tasks[job.number]

    def come_forward(self) -> None:
        """Place tasks that wait anew, each at its earliest place up to that which it has."""
        machine = self.machine
        for bag in sorted(self.committed(), key=lambda bag: (max(bag.end_by, bag.completion), bag.whole.number)):
            for job in sorted(bag.jobs.values(), key=lambda job: (job.begin or 0, job.number)):
                if job.state == "reserved" and job.begin is not None and job.begin > machine.now:
                    free = machine.plan({job.number}, fresh=True).free
                    job.begin = min(job.begin, free.earliest(job.procs, job.walltime, machine.now))
                    machine.changed()

    def note_completions(self, call: TellCompletions) -> None:
        """Answer ``tell_completions``."""
        by_name = {bag.whole.name: bag for bag in self._bags.values()}
        for completion in call.bags:
            bag = by_name.get(completion.part)
            if bag is not None and completion.version > bag.version:
                bag.completion, bag.version = completion.completion, completion.version

    def completions(self) -> dict[str, tuple[float, int]]:
        """Return the completions that were told of bags that are not over, by part."""
        return {bag.whole.name: (bag.completion, bag.version) for bag in self._bags.values()}


def changed(reason: str) -> CallRefused:
    """Return the refusal of an offer that is worse by now."""
    refusal = CallRefused(reason)
    refusal.code = "offer_changed"
    return refusal


def _counted(call: Offers, end: float, expected: float | None) -> float:
    """Return the end by which offers are told: the promised one with a deadline, else the expected one."""
    return end if expected is None or call.end_by is not None else expected


def _places(free: Profile, procs: int, time: float, tasks: int, lo: float) -> Sequence[float]:
    """Return the starts of tasks, one after the other, each at the earliest place that is left."""
    starts: list[float] = []
    for _ in range(tasks):
        start = free.earliest(procs, time, starts[-1] if starts else lo)
        free.take(start, start + time, procs)
        starts.append(start)
    return starts
