"""What became of a node in a period: the states of its resources, and why it was away."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from oarpy.store.database import Connection

# Resources of a node mostly change together: a row for those that did, in the same second.
_STATES = """
    SELECT l.state, l.state_by, extract(epoch FROM min(lower(l.during)))::float8,
           extract(epoch FROM max(upper(l.during)))::float8, count(*)
    FROM resource_state_logs l JOIN resources r USING (resource_id)
    WHERE r.network_address = %s AND l.during && tstzrange(%s, %s)
    GROUP BY l.state, l.state_by, date_trunc('second', lower(l.during)), date_trunc('second', upper(l.during))
    ORDER BY 3, 5 DESC
"""
_ABSENCES = """
    SELECT reason, author, extract(epoch FROM lower(during))::float8, extract(epoch FROM upper(during))::float8
    FROM node_away_logs WHERE network_address = %s AND during && tstzrange(%s, %s) ORDER BY lower(during)
"""


@dataclass(frozen=True, slots=True)
class NodeState:
    """``resources`` of a node in a state from ``begin`` to ``end`` (epoch seconds, None: still); ``by``: who did it."""

    state: str
    by: str
    begin: float
    end: float | None
    resources: int


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a node was drained or down from ``begin`` to ``end`` (epoch seconds, None: it is)."""

    reason: str
    author: str
    begin: float
    end: float | None


def states(connection: Connection, node: str, begin: datetime, end: datetime) -> tuple[NodeState, ...]:
    """Return the states that meet the period, by their begin."""
    return tuple(NodeState(*row) for row in connection.execute(_STATES, [node, begin, end]).fetchall())


def absences(connection: Connection, node: str, begin: datetime, end: datetime) -> tuple[Absence, ...]:
    """Return why it was away in the period."""
    return tuple(Absence(*row) for row in connection.execute(_ABSENCES, [node, begin, end]).fetchall())


# What all resources of a node share, and how long its time away took in all.
_OUTAGES = """
    SELECT r.network_address, l.state, extract(epoch FROM min(lower(l.during)))::float8,
           extract(epoch FROM max(upper(l.during)))::float8
    FROM resource_state_logs l JOIN resources r USING (resource_id)
    WHERE l.state <> 'Alive' AND l.during && tstzrange(%s, %s) AND r.network_address IS NOT NULL
    GROUP BY 1, 2, date_trunc('second', lower(l.during)), date_trunc('second', upper(l.during))
    ORDER BY 3 LIMIT 2000
"""


@dataclass(frozen=True, slots=True)
class NodeOutage:
    """A node with resources that were not Alive from ``begin`` to ``end`` (epoch seconds, None: still)."""

    node: str
    state: str
    begin: float
    end: float | None


def outages(connection: Connection, begin: datetime, end: datetime) -> tuple[NodeOutage, ...]:
    """Return which nodes were away in the period, the first 2,000 times."""
    return tuple(NodeOutage(*row) for row in connection.execute(_OUTAGES, [begin, end]).fetchall())
