"""The policies a replay can use, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oarpy.model.errors import UsageError
from oarpy.simulation.baselines import Easy, Fcfs
from oarpy.simulation.engine import Scheduler
from oarpy.simulation.machine import Machine
from oarpy.simulation.production import Compressed, Production
from oarpy.simulation.trace import TraceJob

_Maker = Callable[[Sequence[TraceJob], str, Machine], Scheduler]
_MAKERS: dict[str, _Maker] = {"fcfs": Fcfs, "easy": Easy, "conservative": Production, "compressed": Compressed}
POLICIES = tuple(_MAKERS)


def check_policy(policy: str) -> None:
    """Raise :class:`UsageError` unless ``policy`` is one of :data:`POLICIES`."""
    if policy not in _MAKERS:
        raise UsageError(f"unknown policy '{policy}'", hint="use one of " + ", ".join(POLICIES))


def make_scheduler(policy: str, order: str, jobs: Sequence[TraceJob], machine: Machine) -> Scheduler:
    """Return a fresh scheduler of ``machine`` for the workload ``jobs``."""
    check_policy(policy)
    return _MAKERS[policy](jobs, order, machine)
