"""Queues: their priority, policy and whether their jobs are scheduled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from oarpy.store.database import Connection

Manner = Literal["end", "requeue", "suspend"]
"""How jobs give way: they end, are submitted again, or are suspended until their resources are free again."""


@dataclass(frozen=True, slots=True)
class GivingWay:
    """To which queues the jobs of a queue give way, and how."""

    others: tuple[str, ...] = ()
    manner: Manner = "end"
    grace: int = 0
    signal: int = 15


@dataclass(frozen=True, slots=True)
class QueueDescription:
    """A queue; the highest ``priority`` is served first, jobs of a queue that is not ``active`` wait.

    Its jobs give way to those of ``gives_way_to`` in a ``manner``, ``grace`` seconds after ``grace_signal``.
    """

    name: str
    priority: int
    policy: str
    active: bool
    message: str = ""
    gives_way_to: tuple[str, ...] = ()
    manner: Manner = "end"
    grace: int = 0
    grace_signal: int = 15


_LOCK = "LOCK TABLE queues IN SHARE ROW EXCLUSIVE MODE"
_QUEUES = """
    SELECT queue_name, priority, policy, active, message, gives_way_to, manner, grace, grace_signal
    FROM queues ORDER BY priority DESC, queue_name
"""
_GIVE_WAY = """
    UPDATE queues SET gives_way_to = %s, manner = %s, grace = %s, grace_signal = %s WHERE queue_name = %s
"""
_ADD = "INSERT INTO queues (queue_name, priority, policy) VALUES (%s, %s, %s)"
_CHANGE = "UPDATE queues SET priority = %s, policy = %s WHERE queue_name = %s"
_ACTIVATE = "UPDATE queues SET active = %s WHERE queue_name = ANY(%s)"
_REMOVE = "DELETE FROM queues WHERE queue_name = %s"
_USER = "SELECT job_id FROM jobs WHERE queue_name = %s LIMIT 1"


def lock(connection: Connection) -> None:
    """Until the transaction ends, nobody else changes queues; others read them."""
    connection.execute(_LOCK)


def queues(connection: Connection) -> tuple[QueueDescription, ...]:
    """Return every queue, highest priority first."""
    return tuple(
        QueueDescription(name, priority, policy, active, message, tuple(others), manner, grace, number)
        for name, priority, policy, active, message, others, manner, grace, number in connection.execute(_QUEUES)
    )


_BEGINNING = "policy '"
"""Messages that begin like this were put there by a scheduling pass."""

_MESSAGES = "SELECT queue_name, message FROM queues WHERE queue_name = ANY(%s)"
# A change of a message announces "queues changed", and so one more pass: it is written when it has to be.
_SET_MESSAGES = """
    UPDATE queues q SET message = m.message FROM unnest(%s::text[], %s::text[]) AS m (queue_name, message)
    WHERE q.queue_name = m.queue_name
"""


def report_policies(connection: Connection, broken: Mapping[str, str], working: Collection[str]) -> dict[str, str]:
    """Write failed policies into the messages of queues, and remove those of ``working`` ones; return the changes."""
    changes = {}
    for name, message in connection.execute(_MESSAGES, [[*broken, *working]]):
        if name in broken and broken[name] != message:
            changes[name] = broken[name]
        elif name not in broken and message.startswith(_BEGINNING):
            changes[name] = ""
    if changes:
        connection.execute(_SET_MESSAGES, [list(changes), list(changes.values())])
    return changes


def add(connection: Connection, queue: QueueDescription) -> None:
    """Add a queue, active."""
    connection.execute(_ADD, (queue.name, queue.priority, queue.policy))


def change(connection: Connection, queue: QueueDescription) -> None:
    """Give a queue another priority and policy."""
    connection.execute(_CHANGE, (queue.priority, queue.policy, queue.name))


def give_way(connection: Connection, name: str, giving: GivingWay) -> None:
    """Have the jobs of a queue give way to others."""
    connection.execute(_GIVE_WAY, (list(giving.others), giving.manner, giving.grace, giving.signal, name))


def activate(connection: Connection, names: Sequence[str], active: bool) -> None:
    """Open or close queues."""
    connection.execute(_ACTIVATE, (active, list(names)))


def user(connection: Connection, name: str) -> int | None:
    """Return a job of the queue, ended or not; None if it never had a job."""
    row = connection.execute(_USER, (name,)).fetchone()
    return None if row is None else int(row[0])


def remove(connection: Connection, name: str) -> None:
    """Remove a queue that no job is in."""
    connection.execute(_REMOVE, (name,))
