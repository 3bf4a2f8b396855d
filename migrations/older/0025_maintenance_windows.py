"""Nodes that are away say since when, and their absences are logged."""

from __future__ import annotations

from sqlalchemy import Connection

_AWAY = """
    UPDATE nodes n SET away_reason = '', away_by = a.state_by, away_since = a.since
    FROM (SELECT DISTINCT ON (network_address) network_address, state_by, state_since AS since FROM resources
          WHERE (state <> 'Alive' OR drain) AND NOT (state = 'Absent' AND state_by = 'monitor')
          ORDER BY network_address, state_since) a
    WHERE n.network_address = a.network_address AND n.away_since IS NULL
"""
_LOGGED = """
    INSERT INTO node_away_logs
    SELECT network_address, coalesce(away_reason, ''), coalesce(away_by, ''), tstzrange(away_since, NULL)
    FROM nodes WHERE away_since IS NOT NULL
"""


def rows(connection: Connection) -> None:
    """Note who is away."""
    connection.exec_driver_sql(_AWAY)
    connection.exec_driver_sql(_LOGGED)
