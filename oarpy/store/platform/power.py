"""Nodes that sleep to save energy: the orders to them, and the outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class PowerRow:
    """The last order to a node, ``wake`` or ``sleep``, and whether the command was run since."""

    node: str
    asked: str
    sent: bool


_ASKED = "SELECT network_address, asked, sent_at IS NOT NULL FROM node_power ORDER BY asked_at, network_address"

# By the index of each resource's holders, as nodes.left_behind does.
_RESTED = """
    SELECT r.network_address FROM resources r
    WHERE r.network_address = ANY(%(nodes)s) AND r.state <> 'Dead'
    GROUP BY r.network_address
    HAVING bool_and(coalesce(
        r.state = 'Alive' AND r.available_upto > now() AND r.state_since <= now() - %(idle)s * interval '1 second'
        AND NOT EXISTS (SELECT FROM assigned_resources a
                        WHERE (upper_inf(a.during) OR a.suspended) AND a.resource_id = r.resource_id)
        AND NOT EXISTS (SELECT FROM assigned_resources a WHERE a.resource_id = r.resource_id
                            AND a.during && tstzrange(now() - %(idle)s * interval '1 second', NULL)), false))
"""

_ASK_SLEEP = """
    WITH down AS (
        UPDATE resources SET state = 'Absent', state_by = 'monitor'
        WHERE network_address = ANY(%s) AND state = 'Alive' RETURNING network_address
    ), asked AS (
        INSERT INTO node_power (network_address, asked) SELECT DISTINCT network_address, 'sleep' FROM down
        ON CONFLICT (network_address) DO UPDATE SET asked = 'sleep', asked_at = now(), sent_at = NULL
    )
    INSERT INTO event_logs (type, hosts, description)
    SELECT DISTINCT 'HALT_NODE', ARRAY[network_address], 'the node is idle: it is sent to sleep' FROM down
"""
_ASK_WAKE = """
    WITH asked AS (
        INSERT INTO node_power AS p (network_address, asked) SELECT name, 'wake' FROM unnest(%s::text[]) AS name
        ON CONFLICT (network_address) DO UPDATE SET asked = 'wake', asked_at = now(), sent_at = NULL
            WHERE p.asked <> 'wake'
        RETURNING network_address
    )
    INSERT INTO event_logs (type, hosts, description)
    SELECT 'WAKEUP_NODE', ARRAY[network_address], 'the node is needed: it is woken' FROM asked
"""

# An admin took the node into service, or out of it, meanwhile.
_FORGET = """
    DELETE FROM node_power p
    WHERE NOT EXISTS (SELECT FROM resources r WHERE r.network_address = p.network_address
                          AND r.state = 'Absent' AND r.available_upto IS NOT NULL)
"""
# A channel from before the node was asked to wake says nothing.
_BACK = """
    WITH back AS (
        UPDATE resources r SET state = 'Alive', state_by = 'monitor'
        FROM node_power p JOIN nodes n USING (network_address)
        WHERE r.network_address = p.network_address AND r.state = 'Absent' AND r.available_upto IS NOT NULL
          AND p.asked = 'wake' AND n.channel = 'connected' AND n.channel_since >= p.asked_at
        RETURNING r.network_address
    ), done AS (
        DELETE FROM node_power WHERE network_address IN (SELECT network_address FROM back)
    ), logged AS (
        INSERT INTO event_logs (type, hosts, description)
        SELECT DISTINCT 'NODE_AWAKE', ARRAY[network_address], 'the node answers again' FROM back
    )
    SELECT DISTINCT network_address FROM back
"""
_LATE = """
    WITH late AS (
        UPDATE resources r SET state = 'Suspected', state_by = 'monitor' FROM node_power p
        WHERE r.network_address = p.network_address AND r.state = 'Absent' AND r.available_upto IS NOT NULL
          AND p.asked = 'wake' AND p.sent_at < now() - %(timeout)s * interval '1 second'
        RETURNING r.network_address
    ), done AS (
        DELETE FROM node_power WHERE network_address IN (SELECT network_address FROM late)
    ), logged AS (
        INSERT INTO event_logs (type, hosts, description)
        SELECT DISTINCT 'WAKEUP_NODE_TIMEOUT', ARRAY[network_address],
               'not awake ' || %(timeout)s || ' s after it was woken' FROM late
    )
    SELECT DISTINCT network_address FROM late
"""
# Only if the node got no other order meanwhile.
_SENT = """
    WITH sent AS (
        UPDATE node_power SET sent_at = now()
        WHERE network_address = ANY(%(nodes)s) AND asked = %(asked)s AND sent_at IS NULL
        RETURNING network_address
    )
    INSERT INTO event_logs (type, hosts, description)
    SELECT 'ENERGY_COMMAND_FAILED', array_agg(network_address), %(failure)s FROM sent
    WHERE %(failure)s <> '' HAVING count(*) > 0
"""
# Only the command knows where an elastic node is; one that was deleted has no address.
_ADDRESSES = """
    UPDATE nodes n SET host = t.host, port = t.port
    FROM unnest(%s::text[], %s::text[], %s::integer[]) AS t(node, host, port)
    WHERE n.network_address = t.node AND n.elastic AND (n.host, n.port) IS DISTINCT FROM (t.host, t.port)
"""


def asked(connection: Connection) -> list[PowerRow]:
    """Return the nodes with an order, the oldest order first."""
    return [PowerRow(*row) for row in connection.execute(_ASKED)]


def rested(connection: Connection, nodes: Sequence[str], idle_time: float) -> set[str]:
    """Return the nodes among ``nodes`` that may sleep, are Alive and have been idle for ``idle_time`` seconds."""
    return {row[0] for row in connection.execute(_RESTED, {"nodes": list(nodes), "idle": idle_time})}


def ask_sleep(connection: Connection, nodes: Sequence[str]) -> None:
    """Make the resources of ``nodes`` Absent and have the nodes sent to sleep."""
    if nodes:
        connection.execute(_ASK_SLEEP, [list(nodes)])


def ask_wake(connection: Connection, nodes: Sequence[str]) -> None:
    """Have ``nodes`` woken, unless they have that order already."""
    if nodes:
        connection.execute(_ASK_WAKE, [list(nodes)])


def settle(connection: Connection, wakeup_timeout: float) -> tuple[list[str], list[str]]:
    """Take back awake nodes, suspect nodes that do not wake within ``wakeup_timeout`` seconds; return both."""
    connection.execute(_FORGET)
    back = [row[0] for row in connection.execute(_BACK)]
    return back, [row[0] for row in connection.execute(_LATE, {"timeout": wakeup_timeout})]


def record_sent(connection: Connection, nodes: Sequence[str], order: str, failure: str) -> None:
    """Note that the command for ``order`` was run for ``nodes``; ``failure`` is logged unless empty."""
    connection.execute(_SENT, {"nodes": list(nodes), "asked": order, "failure": failure})


def record_addresses(connection: Connection, nodes: Sequence[str], told: Mapping[str, tuple[str, int | None]]) -> None:
    """Note where the elastic ones of ``nodes`` are reached: by an address and a port, or else by their names."""
    reached = [told.get(node, (None, None)) for node in nodes]
    hosts, ports = [host for host, _ in reached], [port for _, port in reached]
    connection.execute(_ADDRESSES, [list(nodes), hosts, ports])
