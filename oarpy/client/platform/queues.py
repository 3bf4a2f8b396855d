"""``oarqueue``: queues, their order of service, and which are open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict, cast, get_args

from oarpy.client.rendering import Column, Table, one_line
from oarpy.client.session import Session
from oarpy.model.errors import NotFound, OarpyError, UsageError
from oarpy.model.job_types import BESTEFFORT
from oarpy.model.submission_checks import read_signal
from oarpy.scheduler.levels import depths
from oarpy.store.platform import queues
from oarpy.store.platform.projects import ProjectRow
from oarpy.store.platform.queues import GivingWay, Manner, QueueDescription

NONE = "none"
"""The word for nobody to give way to."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}", re.ASCII)
_HIGHEST = 1_000_000
_LONGEST_GRACE = 86400
_MOST_COMMAS = 3


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
    if queue.name == NONE:
        raise UsageError(f"a queue cannot be called '{NONE}'", hint="this word says that a queue gives way to nobody")
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


def parse_giving_way(text: str) -> tuple[str, GivingWay]:
    """Read ``name,OTHER[+OTHER...][,manner[,grace[,signal]]]`` or ``name,none``. Raises :class:`UsageError`."""
    name, comma, way = text.partition(",")
    if not comma or way.count(",") > _MOST_COMMAS:
        hint = "write NAME,OTHERS,MANNER,GRACE,SIGNAL such as guests,default+night,requeue,60,TERM"
        raise UsageError(f"'{text[:60]}' does not say who gives way", hint=hint)
    return name.strip(), read_giving_way(way)


def read_giving_way(text: str) -> GivingWay:
    """Read ``OTHER[+OTHER...][,manner[,grace[,signal]]]``, or ``none``. Raises :class:`UsageError`."""
    if text.strip() == NONE:
        return GivingWay()
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > _MOST_COMMAS + 1:
        hint = "write OTHERS,MANNER,GRACE,SIGNAL such as members+staff,requeue,60,TERM"
        raise UsageError(f"'{text[:60]}' does not say how to give way", hint=hint)
    named, manner, grace, signal = (*parts, *("end", "0", "TERM")[len(parts) - 1 :])
    others = tuple(dict.fromkeys(named.split("+")))
    if manner not in get_args(Manner):
        raise UsageError(f"'{manner[:40]}' is no manner of giving way", hint="one of " + ", ".join(get_args(Manner)))
    if not (grace.isascii() and grace.isdigit()) or len(grace) > 5 or int(grace) > _LONGEST_GRACE:
        raise UsageError(f"'{grace[:40]}' is no grace", hint=f"seconds, from 0 to {_LONGEST_GRACE}")
    return GivingWay(others, cast(Manner, manner), int(grace), read_signal(signal))


def give_way(session: Session, name: str, giving: GivingWay) -> None:
    """Have the jobs of a queue give way to those of others. Only an admin may."""
    session.require_admin("say which queues give way")
    with session.connection.transaction():
        queues.lock(session.connection)
        _require(session, [name, *giving.others])
        if BESTEFFORT in (name, *giving.others):
            raise UsageError("best-effort jobs give way to all others, and nobody to them", hint="name other queues")
        others = {queue.name: queue.gives_way_to for queue in queues.queues(session.connection)}
        others[name] = giving.others
        if giving.others and name not in depths({one: named for one, named in others.items() if named}):
            raise UsageError(f"queue '{name}' would give way to itself, through others", hint="oarqueue -l lists them")
        queues.give_way(session.connection, name, giving)


def remove(session: Session, name: str) -> None:
    """Remove a queue that never had a job. Only an admin may."""
    session.require_admin("remove queues")
    with session.connection.transaction():
        queues.lock(session.connection)
        _require(session, [name])
        if giving := [queue.name for queue in queues.queues(session.connection) if name in queue.gives_way_to]:
            raise OarpyError(
                f"queue '{giving[0]}' gives way to '{name}'", hint=f"oarqueue --gives-way {giving[0]},{NONE}"
            )
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
    giving = "".join(f"# {queue.name} {giving_way_text(queue)}\n" for queue in listed if queue.gives_way_to)
    messages = "".join(f"# {queue.name}: {one_line(queue.message)}\n" for queue in listed if queue.message)
    return Table(columns, rows).text() + giving + messages


def giving_way_text(of: QueueDescription | ProjectRow) -> str:
    """Return how the jobs of a queue or project give way."""
    grace = f", {of.grace} s after signal {of.grace_signal}" if of.grace else ""
    return f"gives way to {', '.join(of.gives_way_to)}: {of.manner}{grace}"


class QueueDocument(TypedDict):
    """A queue."""

    priority: int
    policy: str
    active: bool
    message: str
    gives_way_to: list[str]
    manner: Manner
    grace: int
    grace_signal: int


def document(listed: Sequence[QueueDescription]) -> dict[str, QueueDocument]:
    """Return an object keyed by queue."""
    return {
        queue.name: {
            "priority": queue.priority,
            "policy": queue.policy,
            "active": queue.active,
            "message": queue.message,
            "gives_way_to": list(queue.gives_way_to),
            "manner": queue.manner,
            "grace": queue.grace,
            "grace_signal": queue.grace_signal,
        }
        for queue in listed
    }
