"""Nodes that sleep to save energy: the orders to them, and the outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class PowerRow:
    """The last order to a node, ``wake`` or ``sleep``, and whether the command was run since.

    A command that failed ``tries`` times is tried again from ``retry_at`` on. ``due``: it is to be run now.
    """

    node: str
    asked: str
    sent: bool
    due: bool
    tries: int
    retry_at: datetime | None


class FailedOrder(NamedTuple):
    """Nodes for which the command of an order, ``wake`` or ``sleep``, failed up to ``tries`` times in a row."""

    asked: str
    nodes: list[str]
    tries: int
    failure: str


_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 3600.0
"""Seconds from one failure to the next try: the pause doubles with each."""

NEW_ORDER = "asked_at = now(), sent_at = NULL, tries = 0, failed_since = NULL, retry_at = NULL, failure = ''"
"""What a new order does to the row of a former one."""

# What waits for longest is first, and what failed comes last: nodes that fail keep no others from their turn.
_ASKED = """
    SELECT network_address, asked, sent_at IS NOT NULL, sent_at IS NULL AND coalesce(retry_at <= now(), true),
           tries, retry_at
    FROM node_power ORDER BY tries > 0, coalesce(retry_at, asked_at), network_address
"""
_FAILED_ORDERS = """
    SELECT asked, array_agg(network_address ORDER BY network_address), max(tries), failure
    FROM node_power WHERE tries > 0 GROUP BY asked, failure ORDER BY min(asked_at), failure
"""

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

_ASK_SLEEP = f"""
    WITH down AS (
        UPDATE resources SET state = 'Absent', state_by = 'monitor'
        WHERE network_address = ANY(%s) AND state = 'Alive' RETURNING network_address
    ), asked AS (
        INSERT INTO node_power (network_address, asked) SELECT DISTINCT network_address, 'sleep' FROM down
        ON CONFLICT (network_address) DO UPDATE SET asked = 'sleep', {NEW_ORDER}
    )
    INSERT INTO event_logs (type, hosts, description)
    SELECT DISTINCT 'HALT_NODE', ARRAY[network_address], 'the node is idle: it is sent to sleep' FROM down
"""  # noqa: S608 - what a new order does
_ASK_WAKE = f"""
    WITH asked AS (
        INSERT INTO node_power AS p (network_address, asked) SELECT name, 'wake' FROM unnest(%s::text[]) AS name
        ON CONFLICT (network_address) DO UPDATE SET asked = 'wake', {NEW_ORDER}
            WHERE p.asked <> 'wake'
        RETURNING network_address
    )
    INSERT INTO event_logs (type, hosts, description)
    SELECT 'WAKEUP_NODE', ARRAY[network_address], 'the node is needed: it is woken' FROM asked
"""  # noqa: S608 - what a new order does

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
# A node whose command has failed for as long is late, too. One whose turn has not come is not.
_LATE = """
    WITH late AS (
        UPDATE resources r SET state = 'Suspected', state_by = 'monitor' FROM node_power p
        WHERE r.network_address = p.network_address AND r.state = 'Absent' AND r.available_upto IS NOT NULL
          AND p.asked = 'wake'
          AND coalesce(p.sent_at, p.failed_since) < now() - %(timeout)s * interval '1 second'
        RETURNING r.network_address, p.sent_at IS NOT NULL AS woken, p.tries, p.failure
    ), done AS (
        DELETE FROM node_power WHERE network_address IN (SELECT network_address FROM late)
    ), logged AS (
        INSERT INTO event_logs (type, hosts, description)
        SELECT DISTINCT 'WAKEUP_NODE_TIMEOUT', ARRAY[network_address],
               CASE WHEN woken THEN 'not awake ' || %(timeout)s || ' s after it was woken'
                   ELSE 'not woken: ' || tries || ' tries in ' || %(timeout)s || ' s or more failed: ' || failure END
        FROM late
    )
    SELECT DISTINCT network_address FROM late
"""
# Both: only if the node got no other order meanwhile.
_SENT = """
    UPDATE node_power SET sent_at = now(), tries = 0, failed_since = NULL, retry_at = NULL, failure = ''
    WHERE network_address = ANY(%(nodes)s) AND asked = %(asked)s AND sent_at IS NULL
"""
_FAILED = """
    WITH again AS (
        SELECT network_address, tries + 1 AS try, least(%(longest)s, %(first)s * 2 ^ least(tries, 30)) AS pause
        FROM node_power WHERE network_address = ANY(%(nodes)s) AND asked = %(asked)s AND sent_at IS NULL FOR UPDATE
    ), failed AS (
        UPDATE node_power p SET tries = least(try, 1000000), failed_since = coalesce(failed_since, now()),
            retry_at = now() + pause * interval '1 second', failure = %(failure)s
        FROM again WHERE p.network_address = again.network_address
    )
    INSERT INTO event_logs (type, hosts, description)
    SELECT 'ENERGY_COMMAND_FAILED', array_agg(network_address ORDER BY network_address),
           'try ' || try || ', the next after ' || pause || ' s: ' || %(failure)s
    FROM again GROUP BY try, pause
"""
# Only the command knows where an elastic node is; one that was deleted has no address.
_ADDRESSES = """
    UPDATE nodes n SET host = t.host, port = t.port
    FROM unnest(%s::text[], %s::text[], %s::integer[]) AS t(node, host, port)
    WHERE n.network_address = t.node AND n.elastic AND (n.host, n.port) IS DISTINCT FROM (t.host, t.port)
"""


def asked(connection: Connection) -> list[PowerRow]:
    """Return the nodes with an order, the one that waits for longest first."""
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


def record_sent(connection: Connection, nodes: Sequence[str], order: str) -> None:
    """Note that the command for ``order`` was run for ``nodes``."""
    connection.execute(_SENT, {"nodes": list(nodes), "asked": order})


def record_failure(connection: Connection, nodes: Sequence[str], order: str, failure: str) -> None:
    """Note and log why the command for ``order`` failed for ``nodes``: it is tried again, after longer each time."""
    pauses = {"first": _FIRST_PAUSE, "longest": _LONGEST_PAUSE}
    connection.execute(_FAILED, {"nodes": list(nodes), "asked": order, "failure": failure, **pauses})


def failed_orders(connection: Connection) -> list[FailedOrder]:
    """Return the orders whose command failed when it was last run, the oldest first."""
    return [FailedOrder(*row) for row in connection.execute(_FAILED_ORDERS)]


def record_addresses(connection: Connection, nodes: Sequence[str], told: Mapping[str, tuple[str, int | None]]) -> None:
    """Note where the elastic ones of ``nodes`` are reached: by an address and a port, or else by their names."""
    reached = [told.get(node, (None, None)) for node in nodes]
    hosts, ports = [host for host, _ in reached], [port for _, port in reached]
    connection.execute(_ADDRESSES, [list(nodes), hosts, ports])
