"""The policies a replay can use, by name, each with the scheduler that carries it out.

A policy has the engine that gives the starts of full passes soonest, or full passes where there is no such engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from oarpy.model import setting_values
from oarpy.model.errors import UsageError
from oarpy.simulation.engines.baselines import CountingEasy, CountingFcfs
from oarpy.simulation.engines.first_plans import ForeseeingScheduler
from oarpy.simulation.engines.flat_conservative import FlatConservative
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.production import Compressed, FullPasses
from oarpy.simulation.traces.trace import TraceJob

_Maker = Callable[[Sequence[TraceJob], str, Machine], ForeseeingScheduler]
_FASTER: Mapping[str, _Maker] = {
    "fcfs": CountingFcfs,
    "easy": CountingEasy,
    "conservative": FlatConservative,
    "compressed": Compressed,
}
"""Engines that give the starts of full passes sooner, and the policies that only the simulator has."""
_OTHERS: Mapping[str, _Maker] = {
    policy: partial(FullPasses, policy=policy) for policy in setting_values.POLICIES if policy not in _FASTER
}
_MAKERS: Mapping[str, _Maker] = {**_FASTER, **_OTHERS}
POLICIES = tuple(_MAKERS)


def check_policy(policy: str) -> None:
    """Raise :class:`UsageError` unless ``policy`` is one of :data:`POLICIES`."""
    if policy not in _MAKERS:
        raise UsageError(f"unknown policy '{policy}'", hint="use one of " + ", ".join(POLICIES))


def make_scheduler(policy: str, order: str, jobs: Sequence[TraceJob], machine: Machine) -> ForeseeingScheduler:
    """Return a fresh scheduler of ``machine`` for the workload ``jobs``."""
    check_policy(policy)
    return _MAKERS[policy](jobs, order, machine)
