"""The production planner in virtual time.

:class:`FullPasses` asks ``decide`` about the whole queue after every event: that is the meaning of a replay. On equal
processors, conservative backfilling has an engine that gives the same starts sooner
(:mod:`oarpy.simulation.engines.flat_conservative`).

:class:`Compressed` is another policy: there an early end never makes a prediction later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from oarpy.model.request import Group, Level
from oarpy.model.setting_values import PolicyName
from oarpy.scheduler.decide import decide
from oarpy.scheduler.memory import Memory
from oarpy.scheduler.order.queue_orders import ORDERS, Order
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import NETWORK_ADDRESS, RESOURCE_ID, Platform, Resource
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Queue, Snapshot, WaitingJob
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.queue_order import Rank, ranks
from oarpy.simulation.traces.trace import TraceJob

_QUEUE = "default"
_USER = "trace"
_PROJECT = "default"


def platform_of(machine: Machine) -> Platform:
    """Return the processors of ``machine`` as resources, numbered from 1 and grouped in nodes.

    Raises :class:`UsageError` when there are more than a million.
    """
    machine.require_names()
    nodes = {number: f"node{number // machine.cores_per_node + 1}" for number in range(machine.procs)}
    return Platform.build([Resource(n + 1, properties={NETWORK_ADDRESS: name}) for n, name in nodes.items()], ())


class FullPasses:
    """One pass over the whole queue after every event."""

    def __init__(
        self, jobs: Sequence[TraceJob], order: str, machine: Machine, policy: PolicyName = "conservative"
    ) -> None:
        platform = platform_of(machine)
        self._requests = [_request(number, job, machine) for number, job in enumerate(jobs)]
        self._ranks = ranks(order, jobs)
        self._orders = _with_order(order, self._ranks)
        self._matchers = Matchers(platform)
        self._empty = Snapshot(now=0, platform=platform, queues=(Queue(_QUEUE, 0, order),), policy=policy)
        self._memory: Memory | None = None
        self._running: dict[int, HoldingJob] = {}
        self._waiting: dict[int, WaitingJob] = {}
        self._placed: dict[int, HoldingJob] = {}

    def planned(self, job: int) -> float | None:
        """Return the planned start of a waiting job by the last pass, None without a prediction."""
        place = self._placed.get(job)
        return None if place is None else place.start

    def processors(self, job: int) -> int | None:
        """Return the processors of a job that runs or has a place."""
        place = self._running.get(job) or self._placed.get(job)
        return None if place is None else place.bits

    def arrive(self, job: int, now: float) -> None:
        """Queue ``job``."""
        self._waiting[job] = self._requests[job]

    def complete(self, job: int, now: float) -> None:
        """Free the resources of ``job``."""
        del self._running[job]

    def schedule(self, now: float) -> list[int]:
        """Plan the whole queue and start the jobs that the plan starts."""
        self._placed = self._place_all(now) if self._waiting else {}
        return self._start(self._placed, now)

    def _place_all(self, now: float) -> dict[int, HoldingJob]:
        """Return the places of all waiting jobs, found anew."""
        return self._place(now, tuple(self._running.values()), tuple(self._waiting.values()))

    def _place(
        self, now: float, holding: tuple[HoldingJob, ...], waiting: tuple[WaitingJob, ...]
    ) -> dict[int, HoldingJob]:
        """Return the planned holds of ``waiting`` jobs; jobs without a prediction are missing."""
        outcome = self._plan(replace(self._empty, now=now, holding=holding, waiting=waiting))
        return {
            placement.job: HoldingJob(
                placement.job,
                self._requests[placement.job].user,
                placement.start,
                self._requests[placement.job].alternatives[0].walltime,
                project=self._requests[placement.job].project,
                bits=placement.bits,
            )
            for placement in outcome.placements
            if placement.start is not None
        }

    def _plan(self, snapshot: Snapshot) -> Plan:
        """Ask the planner, which remembers nothing of the last pass except under compression."""
        return decide(snapshot, self._memory, self._orders, self._matchers).plan

    def _start(self, placed: dict[int, HoldingJob], now: float) -> list[int]:
        """Return the jobs whose place begins now, and let them run."""
        started = [job for job, held in placed.items() if held.start <= now]
        for job in started:
            self._running[job] = placed.pop(job)
            del self._waiting[job]
        return started


class Compressed(FullPasses):
    """Conservative backfilling with compression: after an early end jobs move forward from their places, none back."""

    def __init__(self, jobs: Sequence[TraceJob], order: str, machine: Machine) -> None:
        super().__init__(jobs, order, machine)
        self._memory = Memory(lambda: 0.0, compression=True)


def _with_order(order: str, rank: Sequence[Rank]) -> Mapping[str, Order]:
    """Return the planner's own orders and, when it is none of these, ``order`` as a plug-in."""
    if order in ORDERS:
        return ORDERS
    return {**ORDERS, order: lambda candidate: rank[candidate.job.id]}


def _request(number: int, job: TraceJob, machine: Machine) -> WaitingJob:
    """Return a job of a trace as a waiting job: whole nodes where the machine gives them, else processors."""
    if machine.cores_per_node > 1:
        level = Level(NETWORK_ADDRESS, machine.nodes_for(job.procs))
    else:
        level = Level(RESOURCE_ID, job.procs)
    way = Alternative((Group((level,)),), job.estimate)
    return WaitingJob(
        number,
        job.user or _USER,
        queue=_QUEUE,
        project=job.project or _PROJECT,
        submitted=job.submit,
        alternatives=(way,),
    )
