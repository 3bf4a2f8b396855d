"""Nodes that an admin has rebooted: why a node is away says how far it is.

::

    drained, away by "reboot" -- its jobs have ended --> Suspected, away by "rebooting" -- the command ran --> not
    drained -- its agent answers from a later channel, without a fault --> Alive
"""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.store.database import Connection

_STATES = """
    SELECT network_address, min(state) FILTER (WHERE state NOT IN ('Alive', 'Suspected'))
    FROM resources WHERE network_address = ANY(%s) GROUP BY network_address ORDER BY network_address
"""
_ASK = """
    WITH drained AS (
        UPDATE resources SET drain = true WHERE network_address = ANY(%(nodes)s)
    ), explained AS (
        UPDATE nodes SET away_reason = %(reason)s, away_by = 'reboot', away_since = now()
        WHERE network_address = ANY(%(nodes)s)
    )
    INSERT INTO event_logs (type, hosts, description)
    SELECT 'REBOOT_ASKED', ARRAY[name], %(reason)s FROM unnest(%(nodes)s::text[]) AS name
"""
# An admin who took the node back, or away, meanwhile wants no reboot any more. By the index of each resource's holders.
_BEGIN = """
    WITH free AS (
        SELECT r.network_address FROM resources r JOIN nodes n USING (network_address)
        WHERE n.away_by = 'reboot' GROUP BY r.network_address
        HAVING bool_and(r.drain AND r.state IN ('Alive', 'Suspected')
            AND NOT EXISTS (SELECT FROM assigned_resources a
                            WHERE (upper_inf(a.during) OR a.suspended) AND a.resource_id = r.resource_id))
    ), down AS (
        UPDATE resources SET state = 'Suspected', state_by = 'node'
        WHERE network_address IN (SELECT network_address FROM free)
    )
    UPDATE nodes SET away_by = 'rebooting', away_since = now()
    WHERE network_address IN (SELECT network_address FROM free)
"""
_DUE = """
    SELECT network_address FROM nodes n
    WHERE away_by = 'rebooting'
      AND EXISTS (SELECT FROM resources r WHERE r.network_address = n.network_address AND r.drain)
    ORDER BY away_since, network_address
"""
_SENT = """
    WITH sent AS (
        UPDATE resources r SET drain = false FROM nodes n
        WHERE n.network_address = r.network_address AND n.away_by = 'rebooting' AND n.network_address = ANY(%s)
        RETURNING r.network_address
    )
    INSERT INTO event_logs (type, hosts, description)
    SELECT DISTINCT 'REBOOT_NODE', ARRAY[network_address], 'the command that reboots it was run' FROM sent
"""
_FAILED = """
    WITH failed AS (
        UPDATE nodes SET away_by = 'energy', away_reason = 'not rebooted: ' || %(failure)s
        WHERE away_by = 'rebooting' AND network_address = ANY(%(nodes)s) RETURNING network_address, away_reason
    )
    INSERT INTO event_logs (type, hosts, description)
    SELECT 'REBOOT_FAILED', ARRAY[network_address], away_reason FROM failed
"""


def out_of_service(connection: Connection, nodes: Sequence[str]) -> dict[str, str]:
    """Return those of ``nodes`` with a resource that is Absent or Dead, with that state."""
    return {name: state for name, state in connection.execute(_STATES, [list(nodes)]) if state is not None}


def ask(connection: Connection, nodes: Sequence[str], reason: str) -> None:
    """Drain ``nodes``, to have them rebooted when their jobs have ended."""
    connection.execute(_ASK, {"nodes": list(nodes), "reason": reason})


def due(connection: Connection) -> list[str]:
    """Suspect the nodes to reboot that have no jobs any more; return them, and those whose command was cut off."""
    connection.execute(_BEGIN)
    return [row[0] for row in connection.execute(_DUE)]


def record_sent(connection: Connection, nodes: Sequence[str]) -> None:
    """Note that the command was run for ``nodes``: they are back when they answer again."""
    connection.execute(_SENT, [list(nodes)])


def record_failure(connection: Connection, nodes: Sequence[str], failure: str) -> None:
    """Note and log why the command failed for ``nodes``, which stay drained."""
    connection.execute(_FAILED, {"nodes": list(nodes), "failure": failure})
