"""The smaller request that past jobs of a kind would have fitted in, with a margin.

Fewer cores make a job run longer: with *p* cores it takes at most the time it took plus its CPU time / *p* (Brent)::

    past jobs     at most 600 s, 1 core busy of 8     asked  core=8, walltime=2:00:00
    fitting       core=2, walltime=0:20:00            (600 + 600 * 1 / 2) * 1.25, and up to a round time
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from oarpy.model.request import Consumption, Group, ResourceRequest

FEWEST_JOBS = 10
"""The least number of past jobs that can predict the next one."""
MARGIN = 1.25
"""The least ratio of a proposed value to the measured one."""
_FAR_BELOW = 2
"""The least ratio of the requested value to the proposed one."""
_STEPS = ((600, 60), (3600, 300), (21_600, 900), (864_000, 3600))
_LEAST_MEMORY = 2**20


@dataclass(frozen=True, slots=True)
class PastUse:
    """The most that ``jobs`` of a kind used: seconds of run, cores busy on average, bytes of memory on a node.

    None stands for a value that was not measured.
    """

    jobs: int
    seconds: float
    busy_cores: float | None = None
    memory: int | None = None


def fitting(request: ResourceRequest, use: PastUse) -> ResourceRequest | None:
    """Return ``request`` with less time, cores or memory; None if the request is not far above the past use."""
    if use.jobs < FEWEST_JOBS or request.walltime is None:
        return None
    groups, seconds = _with_fewer_cores(request.groups, request.walltime, use)
    walltime = _rounded(seconds * MARGIN)
    if walltime * _FAR_BELOW > request.walltime:
        walltime = request.walltime
    smaller = ResourceRequest(groups, walltime, tuple(_with_less(consume, use) for consume in request.consumes))
    return None if smaller == request else smaller


def _with_fewer_cores(groups: tuple[Group, ...], walltime: int, use: PastUse) -> tuple[tuple[Group, ...], float]:
    """Return the groups with the cores that were busy, and how long the jobs then run at most (seconds)."""
    if use.busy_cores is None or (cores := asked_cores(groups)) is None:
        return groups, use.seconds
    enough = max(1, ceil(use.busy_cores * MARGIN))
    seconds = use.seconds * (1 + use.busy_cores / enough)
    if enough * _FAR_BELOW > cores or seconds * MARGIN > walltime:
        return groups, use.seconds
    (group,) = groups
    levels = (*group.levels[:-1], replace(group.levels[-1], count=enough))
    return (replace(group, levels=levels),), seconds


def asked_cores(groups: tuple[Group, ...]) -> int | None:
    """Return the cores of a request on one node, None if a smaller request is not obvious."""
    if len(groups) != 1:
        return None
    *outer, last = groups[0].levels
    plain = last.name == "core" and last.count > 0 and all(level.count == 1 for level in outer)
    return last.count if plain else None


def _with_less(consumption: Consumption, use: PastUse) -> Consumption:
    """Return the memory that was used, if ``one`` is memory and far above it."""
    if consumption.name != "memory" or use.memory is None:
        return consumption
    enough = max(_LEAST_MEMORY, ceil(use.memory * MARGIN))
    step = 2 ** max(0, enough.bit_length() - 4)
    enough = -(-enough // step) * step
    return replace(consumption, amount=enough) if enough * _FAR_BELOW <= consumption.amount else consumption


def _rounded(seconds: float) -> int:
    """Return a round number of seconds that is no less, and no less than a minute."""
    step = next((step for limit, step in _STEPS if seconds <= limit), 86_400)
    return max(60, ceil(seconds / step) * step)
