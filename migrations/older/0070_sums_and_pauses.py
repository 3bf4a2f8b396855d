"""Pauses fit into their job; numbers of events are such."""

from __future__ import annotations

from sqlalchemy import Connection

# Clocks of nodes may be minutes off.
_PAUSES = """
    UPDATE {schema}.jobs SET suspended_time = '0'
    WHERE suspended_time > interval '0'
      AND suspended_time > coalesce(ended_at, now()) - coalesce(started_at, now()) + interval '5 minutes'
"""
_EVENTS = "UPDATE grid_clusters SET last_event = 0 WHERE last_event NOT BETWEEN 0 AND 4611686018427387904"


def rows(connection: Connection) -> None:
    """Mend what is wrong: a pause that is longer than its job is none."""
    for schema in ("public", "oar_past"):
        connection.exec_driver_sql(_PAUSES.format(schema=schema))
    connection.exec_driver_sql(_EVENTS)
