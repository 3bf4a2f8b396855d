"""``oarqueue``: queues, their order of service, and which are open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict

from oarpy.client.rendering import Column, Table, one_line
from oarpy.client.session import Session
from oarpy.model.errors import NotFound, OarpyError, UsageError
from oarpy.store.platform import queues
from oarpy.store.platform.queues import QueueDescription

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}", re.ASCII)
_HIGHEST = 1_000_000


def parse_queue(text: str) -> QueueDescription:
    """Read ``name,priority,policy``; raise :class:`UsageError`. The policy may be left out (fifo)."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (2, 3):
        raise UsageError(f"'{text[:60]}' describes no queue", hint="write name,priority,policy such as night,5,fifo")
    name, priority, policy = (*parts, "fifo")[:3]
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name[:60]}' is no name for a queue", hint="a letter, then letters, digits, _ . -")
    if not (priority.isascii() and priority.isdigit()) or len(priority) > 7 or int(priority) > _HIGHEST:
        raise UsageError(f"'{priority[:40]}' is no priority", hint=f"a whole number from 0 to {_HIGHEST}")
    from oarpy.cluster_state.order_plugins import SiteOrders

    known = SiteOrders()
    if policy not in known:
        raise UsageError(f"'{policy[:40]}' is no policy", hint="one of " + ", ".join(known) + ", or NAME/SECONDS")
    return QueueDescription(name, int(priority), policy, active=True)


def add(session: Session, queue: QueueDescription) -> None:
    """Add an active queue. Only an admin may."""
    session.require_admin("add queues")
    with session.connection.transaction():
        if queue.name in _names(session):
            raise OarpyError(f"queue '{queue.name}' exists already", hint="--change gives it another priority")
        queues.add(session.connection, queue)


def change(session: Session, queue: QueueDescription) -> None:
    """Give a queue another priority and policy. Only an admin may."""
    session.require_admin("change queues")
    with session.connection.transaction():
        _require(session, [queue.name])
        queues.change(session.connection, queue)


def remove(session: Session, name: str) -> None:
    """Remove a queue that never had a job. Only an admin may."""
    session.require_admin("remove queues")
    with session.connection.transaction():
        _require(session, [name])
        job = queues.user(session.connection, name)
        if job is not None:
            raise OarpyError(f"queue '{name}' has jobs (job {job})", hint=f"oarqueue -d {name} closes it")
        queues.remove(session.connection, name)


def activate(session: Session, names: Sequence[str] | None, *, active: bool) -> tuple[str, ...]:
    """Open or close queues, all of them when ``names`` is None; return their names. Only an admin may."""
    session.require_admin("open or close queues")
    with session.connection.transaction():
        if names is not None:
            _require(session, names)
        chosen = tuple(_names(session) if names is None else names)
        queues.activate(session.connection, chosen, active)
    return chosen


def find(session: Session, name: str) -> QueueDescription:
    """Return the queue called ``name``; raise :class:`NotFound`."""
    _require(session, [name])
    return next(queue for queue in queues.queues(session.connection) if queue.name == name)


def _names(session: Session) -> list[str]:
    return [queue.name for queue in queues.queues(session.connection)]


def _require(session: Session, names: Sequence[str]) -> None:
    known = _names(session)
    for name in names:
        if name not in known:
            raise NotFound(f"there is no queue '{name[:60]}'", hint="one of " + ", ".join(known))


def table(listed: Sequence[QueueDescription]) -> str:
    """Return a line a queue."""
    columns = (Column("Queue", 14), Column("Priority"), Column("Policy", 10), Column("State"))
    rows = tuple(
        (queue.name, str(queue.priority), queue.policy, "Active" if queue.active else "notActive") for queue in listed
    )
    messages = "".join(f"# {queue.name}: {one_line(queue.message)}\n" for queue in listed if queue.message)
    return Table(columns, rows).text() + messages


class QueueDocument(TypedDict):
    """A queue."""

    priority: int
    policy: str
    active: bool
    message: str


def document(listed: Sequence[QueueDescription]) -> dict[str, QueueDocument]:
    """Return an object keyed by queue."""
    return {
        queue.name: {
            "priority": queue.priority,
            "policy": queue.policy,
            "active": queue.active,
            "message": queue.message,
        }
        for queue in listed
    }
