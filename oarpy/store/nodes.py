"""Nodes: how they are reached, what is known of their channels, and what that means for their resources and jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node: its name, ``local`` or ``ssh``, the host (None: its name) and port (None: as configured)."""

    name: str
    transport: str
    host: str | None
    port: int | None
    channel: str


# Only nodes that have resources which are not Dead are worth a channel.
_NODES = """
    SELECT network_address, transport, host, port, channel FROM nodes n
    WHERE EXISTS (SELECT FROM resources r WHERE r.network_address = n.network_address AND r.state <> 'Dead')
    ORDER BY network_address
"""

_CHANNELS = """
    UPDATE nodes n
    SET channel = c.channel, channel_message = c.message, channel_since = now(),
        boot_id = CASE WHEN c.boot_id = '' THEN n.boot_id ELSE c.boot_id END
    FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS c(node, channel, message, boot_id)
    WHERE n.network_address = c.node AND n.channel <> c.channel
"""

# Jobs that ended while a node could not be reached may have left processes there.
_LEFT_BEHIND = """
    SELECT DISTINCT a.job_id, j.attempt
    FROM nodes n
        JOIN resources r USING (network_address)
        JOIN assigned_resources a USING (resource_id)
        JOIN jobs j USING (job_id)
    WHERE n.network_address = %s AND n.channel <> 'connected' AND upper(a.during) >= n.channel_since - interval '1 hour'
      AND j.attempt > 0
"""

# The launcher runs if its lock is held: only then does a lost channel say something of the node.
_SUSPECT = """
    WITH silent AS (
        SELECT n.network_address, n.channel_message FROM nodes n
        WHERE n.channel = 'lost' AND n.channel_since < now() - %(timeout)s * interval '1 second'
    ), suspected AS (
        UPDATE resources r SET state = 'Suspected', state_by = 'monitor' FROM silent s
        WHERE r.network_address = s.network_address AND r.state = 'Alive'
        RETURNING r.network_address, s.channel_message
    ), logged AS (
        INSERT INTO event_logs (type, hosts, description)
        SELECT 'PING_CHECKER_NODE_SUSPECTED', ARRAY[network_address], 'no answer: ' || min(channel_message)
        FROM suspected GROUP BY network_address
    )
    SELECT DISTINCT network_address FROM suspected
"""
_RECOVER = """
    WITH back AS (
        UPDATE resources r SET state = 'Alive', state_by = 'monitor' FROM nodes n
        WHERE n.network_address = r.network_address AND n.channel = 'connected'
          AND r.state = 'Suspected' AND r.state_by = 'monitor'
        RETURNING r.network_address
    ), logged AS (
        INSERT INTO event_logs (type, hosts, description)
        SELECT DISTINCT 'FINAUD_RECOVER', ARRAY[network_address], 'the node answers again' FROM back
    )
    SELECT DISTINCT network_address FROM back
"""

# Jobs with a node that has been silent for too long: (job, node, is it the first node of the job).
_STRANDED = """
    SELECT j.job_id, s.network_address, s.network_address = h.head
    FROM jobs j
        JOIN LATERAL (
            SELECT min(r.network_address) AS head
            FROM assigned_resources a JOIN resources r USING (resource_id)
            WHERE a.job_id = j.job_id AND upper_inf(a.during) AND r.type = 'default') h ON true
        JOIN LATERAL (
            SELECT DISTINCT n.network_address
            FROM assigned_resources a JOIN resources r USING (resource_id) JOIN nodes n USING (network_address)
            WHERE a.job_id = j.job_id AND upper_inf(a.during) AND n.channel = 'lost'
              AND n.channel_since < now() - %(timeout)s * interval '1 second') s ON true
    WHERE j.state IN ('Launching', 'Running', 'Suspended', 'Resuming') AND j.state NOT IN ('Terminated', 'Error')
"""

# What was to be launched on such a node waits again: nothing was sent there yet.
_UNPLACE = """
    UPDATE jobs j SET state = 'Waiting', moldable_id = NULL, walltime = NULL
    WHERE j.state = 'toLaunch' AND j.state NOT IN ('Terminated', 'Error') AND j.reservation_start IS NULL
      AND EXISTS (
        SELECT FROM assigned_resources a JOIN resources r USING (resource_id) JOIN nodes n USING (network_address)
        WHERE a.job_id = j.job_id AND upper_inf(a.during) AND n.channel = 'lost'
          AND n.channel_since < now() - %(timeout)s * interval '1 second')
    RETURNING j.job_id
"""

_FORGET_LOST = "UPDATE nodes SET channel = 'unknown', channel_since = now() WHERE channel = 'lost'"

_KILL = """
    INSERT INTO kill_requests (job_id, requested_by, reason)
    SELECT k.job_id, 'monitor', k.reason FROM unnest(%s::bigint[], %s::text[]) AS k(job_id, reason)
    ON CONFLICT (job_id) DO NOTHING
"""

_LAUNCHER_LEADS = """
    SELECT EXISTS (SELECT FROM pg_locks
                   WHERE locktype = 'advisory' AND granted AND classid = %s AND objid = %s
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
"""


def nodes(connection: Connection) -> list[NodeRow]:
    """Return every node that should have a channel."""
    return [NodeRow(*row) for row in connection.execute(_NODES)]


def record_channels(connection: Connection, channels: Sequence[tuple[str, str, str, str]]) -> None:
    """Note (node, ``connected`` or ``lost``, message, boot id) where it changed."""
    if channels:
        columns = [list(column) for column in zip(*channels, strict=True)]
        connection.execute(_CHANNELS, columns)


def left_behind(connection: Connection, node: str) -> list[tuple[int, int]]:
    """Return (job, attempt) of jobs that ended while ``node``, now answering again, was out of reach."""
    return [(job, attempt) for job, attempt in connection.execute(_LEFT_BEHIND, [node])]


def suspect(connection: Connection, timeout: float) -> list[str]:
    """Suspect the resources of nodes that have been silent for ``timeout`` seconds; return the nodes."""
    return [row[0] for row in connection.execute(_SUSPECT, {"timeout": timeout})]


def recover(connection: Connection) -> list[str]:
    """Take back the monitor's own suspicion of nodes that answer; return the nodes."""
    return [row[0] for row in connection.execute(_RECOVER)]


def stranded(connection: Connection, timeout: float) -> list[tuple[int, str, bool]]:
    """Return (job, node, whether it is the job's first node) for jobs on nodes silent for ``timeout`` seconds."""
    return [(job, node, head) for job, node, head in connection.execute(_STRANDED, {"timeout": timeout})]


def unplace(connection: Connection, timeout: float) -> list[int]:
    """Let jobs wait again which were about to be launched on nodes silent for ``timeout`` seconds."""
    return [row[0] for row in connection.execute(_UNPLACE, {"timeout": timeout})]


def forget_lost_channels(connection: Connection) -> None:
    """Called by a launcher that begins: what an earlier one could not reach says nothing yet."""
    connection.execute(_FORGET_LOST)


def ask_kills(connection: Connection, kills: Sequence[tuple[int, str]]) -> None:
    """Ask the canceller to kill jobs, with a reason each."""
    if kills:
        connection.execute(_KILL, [[job for job, _ in kills], [reason for _, reason in kills]])


def is_led(connection: Connection, key: tuple[int, int]) -> bool:
    """Tell whether somebody holds this leadership lock (see ``notifications.leadership_key``)."""
    row = connection.execute(_LAUNCHER_LEADS, list(key)).fetchone()
    return bool(row and row[0])
