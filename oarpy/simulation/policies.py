"""The policies a replay can use, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from oarpy.model import planning_policy
from oarpy.model.errors import UsageError
from oarpy.simulation.baselines import CountingEasy, CountingFcfs
from oarpy.simulation.engine import Scheduler
from oarpy.simulation.machine import Machine
from oarpy.simulation.production import Compressed, FullPasses, Production
from oarpy.simulation.trace import TraceJob

_Maker = Callable[[Sequence[TraceJob], str, Machine], Scheduler]
_FASTER: Mapping[str, _Maker] = {
    "fcfs": CountingFcfs,
    "easy": CountingEasy,
    "conservative": Production,
    "compressed": Compressed,
}
"""Engines that give the starts of full passes sooner, and the policies that only the simulator has."""
_OTHERS: Mapping[str, _Maker] = {
    policy: partial(FullPasses, policy=policy) for policy in planning_policy.POLICIES if policy not in _FASTER
}
_MAKERS: Mapping[str, _Maker] = {**_FASTER, **_OTHERS}
POLICIES = tuple(_MAKERS)


def check_policy(policy: str) -> None:
    """Raise :class:`UsageError` unless ``policy`` is one of :data:`POLICIES`."""
    if policy not in _MAKERS:
        raise UsageError(f"unknown policy '{policy}'", hint="use one of " + ", ".join(POLICIES))


def make_scheduler(policy: str, order: str, jobs: Sequence[TraceJob], machine: Machine) -> Scheduler:
    """Return a fresh scheduler of ``machine`` for the workload ``jobs``."""
    check_policy(policy)
    return _MAKERS[policy](jobs, order, machine)
