"""The room on clusters, for a broker that looks for it: one answer from each cluster, all at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oarpy.grid.calls.parts import ClusterDescription, EvictableJob, PartRequest
from oarpy.grid.calls.table import CallRefused, Cluster, Describe, Evictable, Idle
from oarpy.grid.core.exchanges import LocalJob, TryDue
from oarpy.model.errors import OarpyError

_READINGS = 3
"""How often the clock of a cluster that answers slowly is read."""


@dataclass(frozen=True, slots=True)
class RoomAsked:
    """A question for room: for parts like ``request``, from ``deadline`` (epoch seconds) until their end.

    ``evicting``: the answer also names local jobs that may be evicted.
    """

    request: PartRequest
    deadline: float
    evicting: bool = False


@dataclass(frozen=True, slots=True)
class ClusterRoom:
    """Idle processors of a cluster, and the local jobs that may give way, in their order.

    ``clock_offset`` is how many seconds its clock is ahead; half the time that the answer took is its uncertainty.
    """

    idle: int
    evictable: tuple[EvictableJob, ...] = ()
    clock_offset: float = 0.0


def sound(
    cluster: Cluster, questions: Sequence[RoomAsked], clock: Callable[[], float], tolerance: float
) -> list[ClusterRoom | CallRefused]:
    """Ask a cluster for the room that it has for each of several jobs, or why it refuses to say.

    Raises :class:`CallRefused` for a cluster that cannot claim, or whose clock is off by more than ``tolerance``
    seconds: a deadline means nothing there.
    """
    facts, offset = read_clock(cluster, clock, tolerance)
    if not facts.abilities.claim:
        raise CallRefused(f"cluster {cluster.name} cannot hold processors for a deadline")
    if abs(offset) > tolerance:
        raise CallRefused(
            f"the clock of cluster {cluster.name} is {offset:+.1f} s off", hint="synchronise it, by NTP for example"
        )
    return [
        _sounded(cluster, question, offset, evicting=question.evicting and facts.abilities.evict)
        for question in questions
    ]


def _sounded(cluster: Cluster, question: RoomAsked, offset: float, *, evicting: bool) -> ClusterRoom | CallRefused:
    try:
        victims = tuple(cluster.ask(Evictable(question.request))) if evicting else ()
        return ClusterRoom(cluster.ask(Idle(question.request, question.deadline)), victims, offset)
    except CallRefused as refusal:
        return refusal


def read_clock(cluster: Cluster, clock: Callable[[], float], tolerance: float) -> tuple[ClusterDescription, float]:
    """Return the description of a cluster, and by how many seconds its clock is ahead of ``clock``.

    Half of the time that an answer takes is the uncertainty. If it takes more than twice ``tolerance``, as while a
    connection is made, the cluster is asked again. If a cluster is never quicker, return the difference of its clock
    that is certain.
    """
    for _ in range(_READINGS):
        asked_at = clock()
        description = cluster.ask(Describe())
        answered = clock()
        if answered - asked_at <= 2 * tolerance:
            return description, description.clock - (asked_at + answered) / 2
    return description, max(description.clock - answered, 0.0) + min(description.clock - asked_at, 0.0)


def try_due(job: int, answers: Mapping[str, ClusterRoom | OarpyError]) -> TryDue:
    """Return the event of a try: a cluster that did not answer, or refused, has no room.

    Local jobs are named ``CLUSTER:JOB``: ids of different clusters may be alike.
    """
    rooms = {name: answer for name, answer in answers.items() if isinstance(answer, ClusterRoom)}
    idle = {name: rooms[name].idle if name in rooms else 0 for name in answers}
    victims = {
        name: [LocalJob(f"{name}:{victim.job}", victim.procs) for victim in room.evictable]
        for name, room in rooms.items()
        if room.evictable
    }
    return TryDue(job, idle, victims)
