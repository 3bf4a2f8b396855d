"""A cluster in memory: its clock, its local jobs and its faults are given, its processors counted.

It answers a broker by the rules of real clusters, so that a broker can be tried without one::

    clock = VirtualClock(1000)
    cluster = SimulatedCluster("north", 8, clock=clock)
    cluster.submit("local", procs=8, walltime=60)
    cluster.faults.silent("commit", done=True)
    clock.advance(60)

All of a cluster's state is in the object: a broker that starts again gets the same object.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from math import inf
from threading import RLock
from typing import Any, Literal

from msgspec import UNSET

from oarpy.grid.calls.parts import (
    ABILITY_FOR,
    PART_EVENTS,
    BagOffers,
    ClusterAbilities,
    ClusterDescription,
    ClusterEvent,
    EvictableJob,
    FreeSlot,
    GridPart,
    KnownPart,
    PartCompletion,
    PartEvent,
    PartEventKind,
    PartRequest,
    PartTaskOver,
    PlanChanged,
    PreparedPart,
    ProcessesOfPart,
    ProfiledType,
    RatedType,
)
from oarpy.grid.calls.table import (
    Abort,
    Amend,
    Answer,
    Begin,
    Call,
    CallRefused,
    Cancel,
    ClusterSilent,
    Commit,
    Describe,
    Estimate,
    EstimateInTurn,
    Events,
    Evict,
    Evictable,
    Idle,
    Measure,
    Offers,
    PartsUndone,
    Prepare,
    PrepareAll,
    Profiled,
    Rates,
    Slots,
    StopMeasuring,
    TakeProfile,
    TellCompletions,
    Waiting,
    prepare_each,
    unable,
)
from oarpy.grid.clusters.virtual.bags import VirtualBags
from oarpy.grid.clusters.virtual.machine import CountedMachine, MachineJob, MachinePolicy, QueuePlan
from oarpy.processes.dealing import Share, map_lines

_HINT_INTERVAL = 10.0
"""Seconds between two hints to a part that processors are idle."""
_CLEARED = 60.0
"""Seconds for which processors of evicted jobs are kept for a part."""
_ABLE = ClusterAbilities(evict=True, amend=True, foresee=True, offer=True, rate=True, profile=True)


class VirtualClock:
    """A clock that a test turns: called, it tells the time; ``advance`` is also a ``sleep``."""

    def __init__(self, now: float = 0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time go on."""
        self.now += seconds


@dataclass(frozen=True, slots=True)
class OrderedFault:
    """A fault at the next call of a name ("": of any): first ``seconds`` pass, then ``error`` is raised.

    With ``done`` the call is carried out before the error.
    """

    call: str
    error: BaseException | None = None
    done: bool = False
    seconds: float = 0


class ClusterFaults:
    """Faults in the order in which they were ordered; each strikes once. ``cut`` lasts until it is taken back."""

    def __init__(self, cluster: str) -> None:
        self.cut = False
        self._cluster = cluster
        self._ordered: list[OrderedFault] = []

    def silent(self, call: str = "", *, done: bool = False) -> None:
        """Drop the answer to a call; with ``done`` the call is carried out all the same."""
        self.strike(OrderedFault(call, ClusterSilent(f"cluster {self._cluster!r} does not answer"), done))

    def refuse(self, call: str = "", reason: str = "not now") -> None:
        """Let a call be refused."""
        self.strike(OrderedFault(call, CallRefused(f"cluster {self._cluster!r} refuses: {reason}")))

    def slow(self, call: str = "", *, seconds: float) -> None:
        """Let a call take long."""
        self.strike(OrderedFault(call, seconds=seconds))

    def strike(self, fault: OrderedFault) -> None:
        """Order any fault, say a ``KeyboardInterrupt`` in place of a killed broker."""
        self._ordered.append(fault)

    def forget(self) -> None:
        """Take back all faults."""
        self.cut = False
        self._ordered.clear()

    def next(self, call: str) -> OrderedFault:
        """Take the next fault of a call out of the order."""
        if self.cut:
            return OrderedFault(call, ClusterSilent(f"cluster {self._cluster!r} does not answer"))
        for fault in self._ordered:
            if fault.call in ("", call):
                self._ordered.remove(fault)
                return fault
        return OrderedFault(call)


@dataclass(slots=True)
class _Transaction:
    state: Literal["preparing", "committed", "aborted"] = "preparing"
    made: list[str] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)
    cleared: MachineJob | None = None
    """Keeps the processors of evicted jobs, and idle ones, until the parts come that need both."""
    undone: bool = False
    """It was aborted, or lapsed, when it had parts that it made."""


class SimulatedCluster:
    """A :class:`~oarpy.grid.calls.table.Cluster` without a cluster behind it.

    ``runs`` returns the run time of a part's program in seconds, ``sleep`` lets a slow call pass. ``clock_off`` is
    added to ``clock``, for a cluster whose clock is wrong. ``calls`` has the names of the calls that were carried out.
    ``disclose`` has the facts that it tells besides offers, as ``door.disclose``.
    """

    def __init__(
        self,
        name: str,
        procs: int,
        *,
        clock: Callable[[], float] = time.time,
        policy: MachinePolicy = "conservative",
        speed: float = 1,
        abilities: ClusterAbilities | None = None,
        runs: Callable[[GridPart], float] = lambda part: part.request.walltime,
        sleep: Callable[[float], None] = time.sleep,
        disclose: Literal["offers", "power", "load", "slots"] = "offers",
    ) -> None:
        self.name = name
        self.faults = ClusterFaults(name)
        self.clock_off = 0.0
        self.calls: list[str] = []
        self._clock = clock
        self._sleep = sleep
        self._runs = runs
        self._facts = (procs, speed, abilities or _ABLE)
        self.rated: tuple[RatedType, ...] = ()
        self.profiles: tuple[ProfiledType, ...] = ()
        self._maps: dict[str, ProcessesOfPart] = {}
        self._lock = RLock()
        self._machine = CountedMachine(procs, policy, clock())
        self._machine.on_start = self._started
        self._machine.on_end = self._ended
        self._machine.on_lapse = self._lapsed
        self._bags = VirtualBags(self._machine, runs, (speed, disclose))
        self._parts: dict[str, MachineJob] = {}
        self._transaction_of: dict[str, str] = {}
        self._transactions: dict[str, _Transaction] = {}
        self._answers: dict[str, object] = {}
        self._events: list[ClusterEvent] = []
        self._hinted: dict[str, float] = {}
        self._early_end = -inf

    # the methods of tests

    def submit(
        self, name: str, procs: int, walltime: float, *, run: float | None = None, evictable: bool = False
    ) -> str:
        """Submit a local job, which runs for ``run`` seconds (its walltime); return the cluster's id of it."""
        with self._lock:
            self._advance()
            length = walltime if run is None else run
            job = self._machine.add(
                MachineJob(0, name, procs, walltime, length, self._machine.now, local=True, evictable=evictable)
            )
            self._advance()
            return str(job.number)

    def finish(self, name: str, status: int = 0) -> None:
        """End a running job now, local or a part, as if its program had ended with ``status``."""
        with self._lock:
            self._advance()
            job = next(job for job in self._machine.jobs.values() if job.name == name and job.state == "running")
            job.status = status
            self._machine.finish(job)
            self._ended(job)
            self._advance()

    def states(self) -> dict[str, str]:
        """Return the state of every job that is not over: held, waiting, frozen, claimed, reserved or running."""
        with self._lock:
            self._advance()
            return {job.name: job.state for job in self._machine.jobs.values()}

    def next_change(self) -> float:
        """Return the time of the next event here if no call comes; infinity if there is none."""
        with self._lock:
            self._advance()
            return min(self._machine.instants(), default=inf) - self.clock_off

    def ask(self, call: Call[Answer]) -> Answer:
        """Answer a call, as far as no fault was ordered."""
        answer: Answer = prepare_each(self, call) if isinstance(call, PrepareAll) else self._answered(call)  # type: ignore[assignment]
        return answer

    def close(self) -> None:
        """Do nothing: the cluster stays."""

    # the calls of a broker

    def _describe(self, call: Describe) -> ClusterDescription:
        procs, speed, abilities = self._facts
        return ClusterDescription(procs, speed, self._now(), abilities)

    def _idle(self, call: Idle) -> int:
        now = self._now()
        return self._machine.idle(now, max(now, call.begin or 0) + call.request.walltime)

    def _slots(self, call: Slots) -> list[FreeSlot]:
        own = {self._parts[name].number for name in call.without if name in self._parts}
        profile = self._machine.plan(own, fresh=True).free
        bounds = [call.begin, *(end for end in profile.ends(call.begin) if end < call.end)]
        return [FreeSlot(bound, profile.free(max(bound, self._machine.now))) for bound in bounds]

    def _offers(self, call: Offers) -> BagOffers:
        return self._bags.offers(call)

    def _rates(self, call: Rates) -> list[RatedType]:
        """Return the rates that were given; all nodes are of one type."""
        return list(self.rated)

    def _measure(self, call: Measure) -> None:
        """Do nothing: rates are given."""

    def _stop_measuring(self, call: StopMeasuring) -> None:
        """Do nothing: no job measures."""

    def _profiled(self, call: Profiled) -> list[ProfiledType]:
        """Return the seconds of a task that were given."""
        return list(self.profiles)

    def _take_profile(self, call: TakeProfile) -> None:
        """Do nothing: seconds are given."""

    def _tell_completions(self, call: TellCompletions) -> None:
        self._bags.note_completions(call)

    def completions(self) -> dict[str, tuple[float, int]]:
        """Return when bags that are not over are done over all clusters, by part, with the version that was told."""
        return self._bags.completions()

    def _waiting(self, call: Waiting) -> list[KnownPart]:
        """Return the committed parts that wait, including the frozen ones."""
        return [
            KnownPart(job.name, str(job.number), job.submitted)
            for job in self._machine.jobs.values()
            if not job.local and job.state in ("waiting", "frozen")
        ]

    def _estimate(self, call: Estimate) -> list[float]:
        """Return ECTs, always of now. A part that runs ends by its walltime."""
        absent = {self._parts[name].number for name in call.without if name in self._parts}
        plan, now = self._machine.plan(absent, fresh=bool(call.joined)), self._machine.now
        for joining in call.joined:
            plan.place(joining.procs, joining.walltime, now)
        return [
            plan.earliest(request.procs, request.walltime, now) + request.walltime
            if isinstance(request, PartRequest)
            else self._end_of(self._parts.get(request), absent, plan)
            for request in call.requests
        ]

    def _estimate_in_turn(self, call: EstimateInTurn) -> list[float]:
        plan, now, request = self._machine.plan(fresh=True), self._machine.now, call.request
        return [plan.place(request.procs, request.walltime, now) + request.walltime for _ in range(call.count)]

    def _evictable(self, call: Evictable) -> list[EvictableJob]:
        """Return the running local jobs that were submitted as evictable, the latest started first."""
        return [EvictableJob(str(job.number), job.procs) for job in self._victims()]

    def _begin(self, call: Begin) -> PreparedPart:
        """Let a part that holds its processors run; the time that it waited is taken from its walltime."""
        job, now = self._parts.get(call.part), self._machine.now
        if job is None or not job.may_begin:
            raise CallRefused(f"part {call.part!r} is not to begin on cluster {self.name!r}, or is over")
        if job.state == "reserved" and (job.begin or 0) > now:
            raise CallRefused(f"part {call.part!r} does not hold its processors yet")
        if job.patience is not None:
            job.patience, job.walltime = None, max(job.walltime - (now - (job.begin or now)), 1)
            self._machine.start(job)
        hosts = tuple(f"{self.name}-{number}" for number in job.processors)
        return PreparedPart(str(job.number), hosts, map=self._map_lines(job.name, hosts))

    def _map_lines(self, part: str, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """Return which processes the cores of a part run, the cores of a type one after the other."""
        if (placed := self._maps.get(part)) is None:
            return ()
        kinds = [kind for kind, count in placed.cores.items() for _ in range(count)]
        shares = {kind: [Share(*share) for share in its] for kind, its in placed.assigned.items()}
        return tuple(map_lines(shares, list(zip(hosts, kinds, strict=True)), in_stages=placed.model != "async"))

    def _cancel(self, call: Cancel) -> bool:
        if job := self._parts.get(call.part):
            for task in self._bags.drop(job):
                self._tell_task(job, task, None, call.reason or "cancelled")
            self._machine.finish(job)
            self._forget(call.part)
            self._tell(job, "failed", reason=call.reason or "cancelled")
        return job is not None or any(
            isinstance(event, PartEvent) and event.part == call.part for event in self._events
        )

    def _events_after(self, call: Events) -> list[ClusterEvent]:
        """Return events; parts that wait for their date get an event now and then that a job ended early.

        Plans that are newer than open offers are events, too.
        """
        now = self._machine.now
        for name, job in self._parts.items():
            hinted = self._hinted.get(name, -inf)
            waits, since = job.state == "reserved" and job.may_begin, max(hinted, job.submitted)
            if waits and self._early_end > since and now >= hinted + _HINT_INTERVAL:
                self._hinted[name] = now
                self._tell(job, "idle")
        for bag in self._bags.committed():
            if bag.jobs and (expected := bag.expected()) != bag.told:
                bag.told = expected
                number = len(self._events) + 1
                self._events.append(
                    PartCompletion(number, now, bag.whole.name, str(bag.whole.number), completion=expected)
                )
        if (plan := self._bags.newer_plan()) is not None:
            self._events.append(PlanChanged(len(self._events) + 1, now, plan))
        return self._events[call.after :]

    # how it is done

    def _answered(self, call: Call[Any]) -> Any:
        fault = self.faults.next(call.name)
        if fault.seconds:
            self._sleep(fault.seconds)
        with self._lock:
            if fault.error and not fault.done:
                raise fault.error
            self._advance()
            if call.effect != "changes" or call.key not in self._answers:
                answer = _HANDLERS[type(call)](self, call)
                self.calls.append(call.name)
                self._advance()
                if call.effect == "changes":
                    self._answers[call.key] = answer
            else:
                answer = self._answers[call.key]
        if fault.error:
            raise fault.error
        return answer

    def _now(self) -> float:
        return self._clock() + self.clock_off

    def _advance(self) -> None:
        self._machine.advance(self._now())

    def _tell(self, job: MachineJob, kind: PartEventKind, status: int | None = None, reason: str = "") -> None:
        hosts = tuple(f"{self.name}-{number}" for number in job.processors) if kind == "started" else ()
        number = len(self._events) + 1
        now = self._machine.now
        self._events.append(PART_EVENTS[kind](number, now, job.name, str(job.number), hosts, status, reason))

    def _forget(self, part: str) -> None:
        del self._parts[part]
        transaction = self._transactions.get(self._transaction_of.pop(part, ""))
        for names in (transaction.made, transaction.frozen) if transaction else ():
            if part in names:
                names.remove(part)

    def _tell_task(self, whole: MachineJob, task: int, status: int | None, reason: str = "") -> None:
        about = (len(self._events) + 1, self._machine.now, whole.name, str(whole.number), (), status, reason)
        self._events.append(PartTaskOver(*about, task=task))

    def _task_over(self, job: MachineJob) -> bool:
        """Tell that a task of a bag is over, and the bag with its last one; False for another job."""
        if (bag := self._bags.of(job)) is None:
            return False
        self._tell_task(bag.whole, self._bags.over(job), job.status)
        if not bag.jobs:
            self._bags.drop(bag.whole)
            self._machine.finish(bag.whole)
            self._forget(bag.whole.name)
            self._tell(bag.whole, "ended", bag.status)
        return True

    def _started(self, job: MachineJob) -> None:
        bag = self._bags.of(job)
        if bag is not None and not bag.began:
            bag.began = True
            self._tell(bag.whole, "started")
        if not job.local:
            self._tell(job, "started")

    def _ended(self, job: MachineJob) -> None:
        if self._machine.now < job.started + job.walltime:
            self._early_end = self._machine.now
        if not self._task_over(job) and not job.local:
            self._forget(job.name)
            self._tell(job, "ended", job.status)
        self._bags.come_forward()

    def _lapsed(self, job: MachineJob) -> None:
        if job.local:
            self._machine.finish(job)
            return
        transaction = self._transactions[self._transaction_of[job.name]]
        if transaction.state == "committed":
            self._machine.finish(job)
            self._forget(job.name)
            self._tell(job, "failed", reason="its broker did not let it begin in time")
            return
        parts = [self._parts[name] for name in transaction.made]
        self._undo(transaction)
        for part in parts:
            self._tell(part, "lapsed", reason="not committed in time")

    def _release_cleared(self, transaction: _Transaction) -> None:
        if (kept := transaction.cleared) and kept.state != "over":
            self._machine.finish(kept)

    def _undo(self, transaction: _Transaction) -> None:
        transaction.state = "aborted"
        transaction.undone = transaction.undone or bool(transaction.made)
        self._release_cleared(transaction)
        for name in list(transaction.made):
            self._bags.drop(self._parts[name])
            self._machine.finish(self._parts[name])
            self._forget(name)
        for name in transaction.frozen:
            job = self._parts[name]
            job.state, job.lapses_at = "waiting" if job.state == "frozen" else job.state, inf
        transaction.frozen.clear()
        self._machine.changed()

    def _prepare(self, call: Prepare) -> PreparedPart:
        """Make a part that cannot start, or freeze one."""
        part, transaction = call.part, self._open(call.transaction)
        if part.kind == "withdrawn":
            return self._prepared(call, self._frozen(part.name), transaction.frozen)
        room = transaction.cleared
        if part.kind == "bag":
            self._check(part)
            whole, end = self._bags.make(part)
            self._parts[part.name] = whole
            return replace(self._prepared(call, whole, transaction.made), end=end)
        job = self._made(part, room)
        if room is not None and room.state != "over":
            room.procs -= part.request.procs
            if room.procs <= 0:
                self._machine.finish(room)
        return self._prepared(call, job, transaction.made)

    def _amend(self, call: Amend) -> PreparedPart:
        """Reserve a part as if the part that it replaces were away."""
        transaction, old = self._open(call.transaction), self._parts.get(call.instead_of)
        if not self._facts[2].amend:
            raise unable(self.name, call)
        if old is None or old.state != "reserved" or not old.may_begin or (old.begin or 0) <= self._machine.now:
            raise CallRefused(f"part {call.instead_of!r} is not reserved on cluster {self.name!r}, or has begun")
        if any(job.instead_of is old for job in self._machine.jobs.values()):
            raise CallRefused(f"part {old.name!r} is being amended already")
        if call.part.kind != "reserved":
            raise CallRefused(f"part {call.part.name!r} is no reservation, as the one that it is to replace")
        job = self._made(call.part, old)
        job.instead_of = old
        return self._prepared(call, job, transaction.made)

    def _prepared(self, call: Prepare | Amend, job: MachineJob, parts: list[str]) -> PreparedPart:
        parts.append(job.name)
        self._transaction_of[job.name] = call.transaction
        job.lapses_at = self._machine.now + call.ttl
        self._machine.changed()
        return PreparedPart(str(job.number), tuple(f"{self.name}-{number}" for number in job.processors))

    def _open(self, name: str) -> _Transaction:
        transaction = self._transactions.setdefault(name, _Transaction())
        if transaction.state != "preparing":
            raise CallRefused(f"transaction {name!r} is {transaction.state} on cluster {self.name!r}")
        return transaction

    def _frozen(self, part: str) -> MachineJob:
        """Freeze a part that waits in the queue; a part that waits for its date keeps its place."""
        job = self._parts.get(part)
        if job is None or job.state not in ("waiting", "reserved") or (job.state == "reserved" and not job.may_begin):
            raise CallRefused(f"part {part!r} does not wait")
        if job.state == "waiting":
            job.state = "frozen"
        return job

    def _made(self, part: GridPart, without: MachineJob | None = None) -> MachineJob:
        """Make a part that does not begin yet; the processors of the job ``without`` count as idle."""
        request, machine, now = part.request, self._machine, self._machine.now
        self._check(part)
        job = MachineJob(
            0, part.name, request.procs, request.walltime, self._runs(part), now, state="held", begin=part.begin
        )
        job.patience = None if part.patience is UNSET else part.patience
        if part.kind != "queued":
            job.begin = now if part.begin is None else part.begin
            job.state = "claimed" if part.kind == "claim" else "reserved"
            start = now if part.kind == "claim" else job.begin
            if machine.idle(start, job.begin + request.walltime, without) < request.procs:
                raise CallRefused(f"{request.procs} processors are not idle on cluster {self.name!r}")
        machine.add(job)
        if part.kind == "claim":
            machine.take_processors(job)
        self._parts[part.name] = job
        if part.map is not UNSET:
            self._maps[part.name] = part.map
        return job

    def _check(self, part: GridPart) -> None:
        procs, _, abilities = self._facts
        ability = ABILITY_FOR.get(part.kind)
        if ability and not getattr(abilities, ability):
            raise CallRefused(f"cluster {self.name!r} has no parts of kind {part.kind!r}")
        if part.name in self._parts:
            raise CallRefused(f"part {part.name!r} exists already on cluster {self.name!r}")
        if part.request.procs > procs:
            raise CallRefused(f"cluster {self.name!r} has no {part.request.procs} processors")
        if part.begin is not None and part.begin < self._machine.now:
            raise CallRefused(f"the date of part {part.name!r} is past")

    def _commit(self, call: Commit) -> None:
        """Let prepared parts go; delete withdrawn ones."""
        name, transaction = call.transaction, self._transactions.get(call.transaction)
        if transaction is not None and transaction.undone:
            raise PartsUndone(f"transaction {name!r} was undone on cluster {self.name!r}: it was aborted, or lapsed")
        if transaction is None or transaction.state == "aborted":
            raise CallRefused(f"transaction {name!r} holds nothing on cluster {self.name!r}: it was aborted, or lapsed")
        if transaction.state == "committed":
            return
        amended = [old for part in transaction.made if (old := self._parts[part].instead_of)]
        ending = [*amended, *(self._parts[part] for part in transaction.frozen)]
        if begun := next((old for old in ending if old.state not in ("reserved", "frozen")), None):
            raise CallRefused(f"part {begun.name!r} has begun on cluster {self.name!r}, or is over")
        transaction.state = "committed"
        for part in [*transaction.frozen, *(old.name for old in amended)]:
            self._machine.finish(self._parts[part])
            self._forget(part)
        for part in transaction.made:
            job = self._parts[part]
            job.lapses_at, job.may_begin, job.instead_of = inf, True, None
            self._bags.commit(job)
            if job.state == "held" and not self._bags.of(job):
                job.state = "waiting"
            elif call.begin is not None:
                job.begin = call.begin
        self._machine.changed()

    def _abort(self, call: Abort) -> None:
        """Undo prepared parts, and refuse later ones of the transaction."""
        transaction = self._transactions.setdefault(call.transaction, _Transaction())
        if transaction.state == "committed":
            raise CallRefused(f"transaction {call.transaction!r} is committed on cluster {self.name!r}")
        self._undo(transaction)

    def _victims(self) -> list[MachineJob]:
        running = [job for job in self._machine.jobs.values() if job.evictable and job.state == "running"]
        return sorted(running, key=lambda job: (job.started, job.number), reverse=True)

    def _evict(self, call: Evict) -> list[str]:
        """End local jobs, if they suffice."""
        name, procs, transaction = call.transaction, call.procs, self._open(call.transaction)
        chosen: list[MachineJob] = []
        for job in self._victims():
            if sum(victim.procs for victim in chosen) >= procs:
                break
            chosen.append(job)
        if sum(victim.procs for victim in chosen) < procs:
            return []
        now = self._machine.now
        self._release_cleared(transaction)
        room = self._machine.idle(now, now + call.request.walltime) + procs
        for job in chosen:
            self._machine.finish(job)
        kept = MachineJob(
            0, f"room for {name}", room, call.request.walltime, 0, now, local=True, state="claimed", begin=now
        )
        kept.lapses_at = now + _CLEARED
        transaction.cleared = self._machine.add(kept)
        return [str(job.number) for job in chosen]

    def _end_of(self, job: MachineJob | None, absent: Collection[int], plan: QueuePlan) -> float:
        if job is None:
            return self._machine.now
        if hold := job.hold():
            return hold[1]
        if job.number not in plan.starts:
            plan = self._machine.plan(absent, (job,))
        return plan.starts[job.number] + job.walltime


_HANDLERS: dict[type[Call[Any]], Callable[[SimulatedCluster, Any], Any]] = {
    Describe: SimulatedCluster._describe,
    Idle: SimulatedCluster._idle,
    Slots: SimulatedCluster._slots,
    Offers: SimulatedCluster._offers,
    Rates: SimulatedCluster._rates,
    Measure: SimulatedCluster._measure,
    StopMeasuring: SimulatedCluster._stop_measuring,
    Profiled: SimulatedCluster._profiled,
    TakeProfile: SimulatedCluster._take_profile,
    Waiting: SimulatedCluster._waiting,
    Estimate: SimulatedCluster._estimate,
    EstimateInTurn: SimulatedCluster._estimate_in_turn,
    Evictable: SimulatedCluster._evictable,
    Events: SimulatedCluster._events_after,
    Prepare: SimulatedCluster._prepare,
    Amend: SimulatedCluster._amend,
    Commit: SimulatedCluster._commit,
    Abort: SimulatedCluster._abort,
    Begin: SimulatedCluster._begin,
    Cancel: SimulatedCluster._cancel,
    Evict: SimulatedCluster._evict,
    TellCompletions: SimulatedCluster._tell_completions,
}
"""The handler of each call."""
