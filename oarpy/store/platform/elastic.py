"""Elastic nodes: nodes that the commands of ``[energy]`` create and delete. One that does not stand is asleep."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.store.database import Connection
from oarpy.store.platform.nodes import explain_absence
from oarpy.store.platform.power import NEW_ORDER

_NAMES = "SELECT network_address FROM nodes WHERE elastic"

# A node that has not been created is one that was sent to sleep.
_BEGIN = """
    WITH marked AS (
        UPDATE nodes SET elastic = true WHERE network_address = ANY(%(nodes)s)
    ), down AS (
        UPDATE resources SET state = 'Absent', state_by = 'monitor', drain = false,
            available_upto = TIMESTAMPTZ '2999-01-01 00:00:00+00'
        WHERE network_address = ANY(%(nodes)s) RETURNING network_address
    )
    INSERT INTO node_power (network_address, asked, sent_at) SELECT DISTINCT network_address, 'sleep', now() FROM down
    ON CONFLICT (network_address) DO NOTHING
"""
_AGAIN = """
    SELECT DISTINCT network_address FROM resources JOIN nodes USING (network_address)
    WHERE elastic AND state = 'Dead' AND state_by = 'monitor' AND network_address = ANY(%s)
"""
_TOO_MANY = "elastic"
"""Who drained a node that is one too many."""
# An admin who drained a node meanwhile is asked first.
_DRAIN = """
    UPDATE resources r SET drain = true FROM nodes n
    WHERE n.network_address = r.network_address AND n.elastic AND r.state <> 'Dead' AND NOT r.drain
      AND NOT n.network_address = ANY(%s)
    RETURNING r.network_address
"""
_UNDRAIN = """
    UPDATE resources r SET drain = false FROM nodes n
    WHERE n.network_address = r.network_address AND n.elastic AND r.drain AND n.away_by = %s
      AND n.network_address = ANY(%s)
"""
# Its order is carried out first: as long as the command fails, the node stands.
_REMOVE = """
    WITH gone AS (
        UPDATE resources r SET state = 'Dead', state_by = 'monitor' FROM nodes n, node_power p
        WHERE n.network_address = r.network_address AND n.elastic AND r.state = 'Absent' AND r.state_by = 'monitor'
          AND p.network_address = r.network_address AND p.asked = 'sleep' AND p.sent_at IS NOT NULL
          AND NOT r.network_address = ANY(%s)
        RETURNING r.network_address
    )
    DELETE FROM node_power WHERE network_address IN (SELECT network_address FROM gone)
"""
_GIVE_UP = f"""
    WITH lost AS (
        SELECT r.network_address FROM resources r JOIN nodes n USING (network_address)
        WHERE n.elastic AND r.state <> 'Dead'
        GROUP BY r.network_address
        HAVING bool_and(r.state = 'Suspected' AND r.state_by = 'monitor'
            AND r.state_since <= now() - %s * interval '1 second'
            AND NOT EXISTS (SELECT FROM assigned_resources a
                            WHERE (upper_inf(a.during) OR a.suspended) AND a.resource_id = r.resource_id))
    ), down AS (
        UPDATE resources SET state = 'Absent', state_by = 'monitor'
        WHERE state <> 'Dead' AND network_address IN (SELECT network_address FROM lost)
    ), asked AS (
        INSERT INTO node_power (network_address, asked) SELECT network_address, 'sleep' FROM lost
        ON CONFLICT (network_address) DO UPDATE SET asked = 'sleep', {NEW_ORDER}
    ), logged AS (
        INSERT INTO event_logs (type, hosts, description)
        SELECT 'HALT_NODE', ARRAY[network_address], 'the node is lost: it is deleted, and may be created again'
        FROM lost
    )
    SELECT network_address FROM lost
"""  # noqa: S608 - what a new order does


def names(connection: Connection) -> set[str]:
    """Return the names of all elastic nodes."""
    return {row[0] for row in connection.execute(_NAMES)}


def begin(connection: Connection, nodes: Sequence[str]) -> None:
    """Make ``nodes`` elastic: they do not stand yet."""
    connection.execute(_BEGIN, {"nodes": list(nodes)})


def fit(connection: Connection, wanted: Sequence[str]) -> None:
    """Take elastic nodes out of service that are not among ``wanted``, when they are idle; take the others back."""
    nodes = list(wanted)
    if again := [row[0] for row in connection.execute(_AGAIN, [nodes])]:
        begin(connection, again)
    connection.execute(_UNDRAIN, [_TOO_MANY, nodes])
    if drained := {row[0] for row in connection.execute(_DRAIN, [nodes])}:
        explain_absence(connection, sorted(drained), "there are more nodes than elastic.most", _TOO_MANY)
    connection.execute(_REMOVE, [nodes])


def give_up(connection: Connection, timeout: float) -> list[str]:
    """Have elastic nodes deleted that nobody has reached for ``timeout`` seconds; return them."""
    return [row[0] for row in connection.execute(_GIVE_UP, [timeout])]
