"""Maintenance windows: planned, listed and cancelled here."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypedDict

from oarpy.client.jobs.selection import parse_ids
from oarpy.client.rendering import Report, TwoForms, local_date, one_line
from oarpy.client.session import Session
from oarpy.model.dates import read_date, read_end
from oarpy.model.errors import NotFound, UsageError
from oarpy.store import events
from oarpy.store.platform import maintenance
from oarpy.store.platform.maintenance import WindowRow

_HINT = "for example '2026-05-01 08:00..2026-05-01 18:00', or now..+2h"

Period = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """The number of a new window; ``crossed`` are the jobs that may run into it, and reservations that it crosses."""

    window: int
    nodes: tuple[str, ...]
    period: Period
    crossed: tuple[int, ...]


class MaintenanceDocument(TypedDict):
    """A window without jobs, in epoch seconds."""

    window: int
    nodes: Sequence[str]
    begin: int
    end: int
    reason: str
    author: str
    planned_at: int
    under_way: bool


def parse_window(text: str) -> Period:
    """Return the two moments of ``START..END``; END may be a duration after START (``+2h``).

    Raises :class:`UsageError` for a text that is no such period, and for a past period.
    """
    first, dots, last = (part.strip() for part in text.partition(".."))
    if not dots or not first or not last:
        raise UsageError(f"'{text[:60]}' is no value of -m", hint=f"on, off, or START..END: {_HINT}")
    now = datetime.now(UTC).replace(microsecond=0)
    begin = read_date(first, now)
    end = read_end(last, now, begin)
    if begin >= end or end <= now:
        problem = "is empty" if begin >= end else "is over"
        raise UsageError(f"window '{text[:60]}' {problem}", hint=_HINT)
    return begin, end


def plan(session: Session, nodes: Sequence[str], period: Period, reason: str) -> PlannedWindow:
    """Plan a window for ``nodes`` in the caller's transaction."""
    crossed = maintenance.crossed(session.connection, nodes, period)
    window = maintenance.plan(session.connection, nodes, period, reason, session.user)
    text = f"maintenance {window} planned by {session.user} from {_date(period[0])} to {_date(period[1])}"
    _log(session, nodes, text + (f": {reason}" if reason else ""))
    return PlannedWindow(window, tuple(nodes), period, crossed)


def cancel(session: Session, numbers: Sequence[str]) -> tuple[int, ...]:
    """Cancel windows. Raises :class:`NotFound` for a window that is over, cancelled or was never planned."""
    session.require_admin("cancel maintenance")
    wanted = parse_ids(numbers, "window")
    with session.connection.transaction():
        done = maintenance.cancel(session.connection, wanted, session.user)
        if missing := [number for number in wanted if number not in done]:
            raise NotFound(
                f"there is no maintenance window {missing[0]} to cancel", hint="oarnodes --maintenance lists them"
            )
        for row in maintenance.numbered(session.connection, done):
            _log(session, row.nodes, f"maintenance {row.window} cancelled by {session.user}")
    return done


def listed(session: Session, nodes: Iterable[str | None]) -> Report[list[MaintenanceDocument]]:
    """Return the windows of ``nodes`` that are under way or to come."""
    wanted = set(nodes)
    rows = [row for row in maintenance.valid(session.connection) if not wanted.isdisjoint(row.nodes)]
    return TwoForms(
        lambda: "".join(f"{window_text(row)}; {', '.join(row.nodes)}\n" for row in rows),
        lambda: [window_json(row) for row in rows],
    )


def windows_of(session: Session) -> dict[str, list[WindowRow]]:
    """Return the windows that are under way or to come, by node."""
    windows: dict[str, list[WindowRow]] = {}
    for row in maintenance.valid(session.connection):
        for node in row.nodes:
            windows.setdefault(node, []).append(row)
    return windows


def is_under_way(row: WindowRow) -> bool:
    """Tell whether the nodes of a window get no jobs now."""
    return row.begin <= time.time() < row.end


def window_text(row: WindowRow) -> str:
    """Return a window as people read it, without its nodes."""
    why = f": {one_line(row.reason)}" if row.reason else ""
    return f"{row.window} from {local_date(row.begin)} to {local_date(row.end)}{why} ({row.author})"


def window_json(row: WindowRow) -> MaintenanceDocument:
    """Return a window as a JSON object."""
    return {
        "window": row.window,
        "nodes": list(row.nodes),
        "begin": int(row.begin),
        "end": int(row.end),
        "reason": row.reason,
        "author": row.author,
        "planned_at": int(row.planned_at),
        "under_way": is_under_way(row),
    }


def _log(session: Session, nodes: Sequence[str], text: str) -> None:
    events.log(session.connection, [events.NewEvent("NODE_MAINTENANCE", text, hosts=tuple(nodes))])


def _date(moment: datetime) -> str:
    return local_date(moment.timestamp())
