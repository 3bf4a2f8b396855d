"""What clusters tell a broker that looks for room: one sounding a cluster, all at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oarpy.grid.core.exchanges import LocalJob, TryDue
from oarpy.grid.provider import CallRefused, EvictableJob, PartRequest, Provider
from oarpy.model.errors import OarpyError


@dataclass(frozen=True, slots=True)
class ClusterSounding:
    """Idle processors of a cluster, and the local jobs that may give way, in their order.

    ``clock_offset`` is how many seconds its clock is ahead, as far as the time that the answer took lets that be known.
    """

    idle: int
    evictable: tuple[EvictableJob, ...] = ()
    clock_offset: float = 0.0


def sound(
    provider: Provider,
    request: PartRequest,
    deadline: float,
    clock: Callable[[], float],
    tolerance: float,
    *,
    evicting: bool,
) -> ClusterSounding:
    """Ask a cluster for the processors that could be claimed now, and if ``evicting``, for who may give way.

    Raises :class:`CallRefused` for a cluster that cannot claim, or whose clock is off by more than ``tolerance``
    seconds: a deadline means nothing there.
    """
    asked = clock()
    facts = provider.describe()
    offset = clock_offset(facts.clock, asked, clock())
    if not facts.abilities.claim:
        raise CallRefused(f"cluster {provider.name} cannot hold processors for a deadline")
    if abs(offset) > tolerance:
        raise CallRefused(
            f"the clock of cluster {provider.name} is {offset:+.1f} s off", hint="synchronise it, by NTP for example"
        )
    victims = tuple(provider.evictable(request)) if evicting and facts.abilities.evict else ()
    return ClusterSounding(provider.idle(request, deadline), victims, offset)


def clock_offset(told: float, asked: float, answered: float) -> float:
    """Return how far a clock is off for certain, in seconds: it told its time between two instants of ours."""
    return max(told - answered, 0.0) + min(told - asked, 0.0)


def try_due(job: int, answers: Mapping[str, ClusterSounding | OarpyError]) -> TryDue:
    """Return the event of a try: a cluster that did not answer, or refused, has no room.

    Local jobs are named ``CLUSTER:JOB``: ids of different clusters may be alike.
    """
    told = {name: answer for name, answer in answers.items() if isinstance(answer, ClusterSounding)}
    idle = {name: told[name].idle if name in told else 0 for name in answers}
    victims = {
        name: [LocalJob(f"{name}:{one.job}", one.procs) for one in sounding.evictable]
        for name, sounding in told.items()
        if sounding.evictable
    }
    return TryDue(job, idle, victims)
