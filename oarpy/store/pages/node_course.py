"""The course of a node in a period: the states of its resources, and why it was away."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from oarpy.store.database import Connection

# Resources of a node mostly change together: resources that changed in the same second share a row.
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
    """``resources`` of a node in a state from ``begin`` to ``end`` (epoch seconds, None: still); ``by``: the author."""

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
    """Return the reasons why the node was away in the period."""
    return tuple(Absence(*row) for row in connection.execute(_ABSENCES, [node, begin, end]).fetchall())


# The common periods in which all resources of a node were away, their whole lengths, and reasons, if any were given.
# A node is drained for as long as it was set to be away while its resources were Alive.
_OUTAGES = """
    WITH down AS (
        SELECT r.network_address, l.state, tstzrange(min(lower(l.during)), max(upper(l.during))) AS during,
               bool_or(upper_inf(l.during)) AS still
        FROM resource_state_logs l JOIN resources r USING (resource_id)
        WHERE l.state <> 'Alive' AND l.during && tstzrange(%(begin)s, %(end)s) AND r.network_address IS NOT NULL
        GROUP BY 1, 2, date_trunc('second', lower(l.during)), date_trunc('second', upper(l.during))
    ), told AS (
        SELECT network_address, during, reason FROM node_away_logs WHERE during && tstzrange(%(begin)s, %(end)s)
    ), drained AS (
        SELECT t.network_address, 'drained' AS state, t.reason, unnest(tstzmultirange(t.during) - coalesce((
            SELECT range_agg(tstzrange(lower(d.during), CASE WHEN NOT d.still THEN upper(d.during) END))
            FROM down d WHERE d.network_address = t.network_address), '{}')) AS during
        FROM told t
    )
    SELECT network_address, state, extract(epoch FROM lower(during))::float8,
           CASE WHEN NOT still THEN extract(epoch FROM upper(during))::float8 END,
           coalesce((SELECT t.reason FROM told t WHERE t.network_address = d.network_address AND t.during && d.during
                     ORDER BY lower(t.during) LIMIT 1), '')
    FROM down d
    UNION ALL
    SELECT network_address, state, extract(epoch FROM lower(during))::float8,
           extract(epoch FROM upper(during))::float8, reason
    FROM drained
    ORDER BY 3 LIMIT 2000
"""


@dataclass(frozen=True, slots=True)
class NodeOutage:
    """A node that was drained, or had resources that were not Alive, from ``begin`` to ``end``.

    Times are epoch seconds, ``end`` is None while it lasts. ``state`` is ``drained`` or that of the resources.
    """

    node: str
    state: str
    begin: float
    end: float | None
    reason: str


def outages(connection: Connection, begin: datetime, end: datetime) -> tuple[NodeOutage, ...]:
    """Return which nodes were away in the period, the first 2,000 times."""
    rows = connection.execute(_OUTAGES, {"begin": begin, "end": end}).fetchall()
    return tuple(NodeOutage(*row) for row in rows)
