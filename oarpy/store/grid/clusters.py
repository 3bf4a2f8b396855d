"""The clusters that a broker uses, with their last answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class GridClusterRow:
    """A cluster; ``door`` is the command that leads to it. Times in epoch seconds, ``clock_offset`` in seconds.

    Jobs of ``users`` may go there; None: of everybody. ``speed`` is the speed by an admin, else the speed that the
    cluster states. ``plan`` is the number of its plan, as it told last while offers were open.
    """

    name: str
    kind: str
    door: tuple[str, ...]
    speed: float
    dedicated: bool
    place: int
    active: bool
    procs: int | None = None
    abilities: frozenset[str] = frozenset()
    clock_offset: float | None = None
    heard_at: float | None = None
    silent_since: float | None = None
    message: str = ""
    last_event: int = 0
    users: frozenset[str] | None = None
    told_speed: float | None = None
    plan: int = 0

    def refusal_to(self, user: str) -> str:
        """Return why no job of a user may go to the cluster; empty if it may."""
        return "" if self.users is None or user in self.users else f"cluster '{self.name}' is not open to '{user}'"

    @property
    def clock_ahead(self) -> float:
        """By how many seconds its clock is ahead of this one; its instants are later by that."""
        return self.clock_offset if self.clock_offset and abs(self.clock_offset) > _NOISE else 0.0


_NOISE = 0.5
"""Seconds by which clocks read over a network may seem to differ."""
_ALL = """
    SELECT name, kind, door, coalesce(speed, told_speed, 1), dedicated, place, active, procs, abilities, clock_offset,
           extract(epoch FROM heard_at)::float8, extract(epoch FROM silent_since)::float8, message, last_event,
           users, told_speed, plan
    FROM grid_clusters ORDER BY place, name
"""
_PUT = """
    INSERT INTO grid_clusters (name, kind, door, speed, dedicated, place, users) VALUES (%s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, door = excluded.door, speed = excluded.speed,
        dedicated = excluded.dedicated, place = excluded.place, users = excluded.users,
        active = true
"""
_SET_ACTIVE = "UPDATE grid_clusters SET active = %s WHERE name = %s RETURNING name"
_REMOVE = """
    DELETE FROM grid_clusters c WHERE name = %(name)s
      AND NOT EXISTS (SELECT FROM grid_parts p WHERE p.cluster = c.name)
      AND NOT EXISTS (SELECT FROM grid_components p WHERE p.cluster = c.name)
    RETURNING name
"""
_HEARD = """
    UPDATE grid_clusters SET procs = %(procs)s, abilities = %(abilities)s, clock_offset = %(offset)s,
        told_speed = %(speed)s, heard_at = clock_timestamp(), silent_since = NULL, message = ''
    WHERE name = %(name)s
"""
_SILENT = """
    UPDATE grid_clusters SET silent_since = coalesce(silent_since, clock_timestamp()), message = %(reason)s
    WHERE name = %(name)s AND (silent_since IS NULL OR message <> %(reason)s)
"""
_ANSWERS = """
    UPDATE grid_clusters SET heard_at = clock_timestamp(), silent_since = NULL, message = ''
    WHERE name = %s AND (silent_since IS NOT NULL OR message <> '' OR heard_at IS NULL)
"""
_FORGET_EVENTS = "UPDATE grid_clusters SET last_event = 0 WHERE name = %s"
_PLAN_CHANGED = "UPDATE grid_clusters SET plan = %s WHERE name = %s"
_TOOK_IN = "UPDATE grid_clusters SET last_event = %(number)s WHERE name = %(name)s AND last_event < %(number)s"


def every(connection: Connection) -> list[GridClusterRow]:
    """Return all clusters, in configured order."""
    clusters = []
    for row in connection.execute(_ALL).fetchall():
        fields = list(row)
        fields[2], fields[8] = tuple(row[2]), frozenset(row[8])
        fields[14] = None if row[14] is None else frozenset(row[14])
        clusters.append(GridClusterRow(*fields))
    return clusters


def put(
    connection: Connection,
    name: str,
    kind: str,
    door: Sequence[str],
    *,
    speed: float | None = None,
    dedicated: bool = False,
    place: int = 0,
    users: Sequence[str] | None = None,
) -> None:
    """Add a cluster, or change its settings; it is active then.

    Without ``speed`` its own word counts; without ``users`` everybody's jobs may go there.
    """
    lent = None if users is None else list(users)
    connection.execute(_PUT, [name, kind, list(door), speed, dedicated, place, lent])


def set_active(connection: Connection, name: str, *, active: bool) -> bool:
    """Say whether new parts go to a cluster; return whether the cluster exists."""
    return connection.execute(_SET_ACTIVE, [active, name]).fetchone() is not None


def remove(connection: Connection, name: str) -> bool:
    """Remove a cluster that no job was ever given; tell whether it was."""
    return connection.execute(_REMOVE, {"name": name}).fetchone() is not None


def note_description(
    connection: Connection, name: str, procs: int, abilities: Sequence[str], offset: float, speed: float = 1
) -> None:
    """Note the description that a cluster gave; its clock is ``offset`` seconds ahead of this one."""
    values = {"name": name, "procs": procs, "abilities": list(abilities), "offset": offset, "speed": speed}
    connection.execute(_HEARD, values)


def note_silence(connection: Connection, name: str, reason: str) -> None:
    """Note that a cluster does not answer, if that is news."""
    connection.execute(_SILENT, {"name": name, "reason": reason[:1000]})


def note_answer(connection: Connection, name: str) -> None:
    """Note that a cluster answers, if that is news."""
    connection.execute(_ANSWERS, [name])


def note_event(connection: Connection, name: str, number: int) -> None:
    """Store the last event of a cluster that was processed, with all before it."""
    connection.execute(_TOOK_IN, {"name": name, "number": number})


def note_plan(connection: Connection, name: str, plan: int) -> None:
    """Note the number of the plan of a cluster, which is newer than that of its offers."""
    connection.execute(_PLAN_CHANGED, [plan, name])


def forget_events(connection: Connection, name: str) -> None:
    """Make the events of a cluster be processed again, from the first one it has."""
    connection.execute(_FORGET_EVENTS, [name])
