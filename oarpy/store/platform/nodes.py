"""Nodes: how they are reached, the state of their channels, and its effect on their resources and jobs.

The launcher notes channels and faults here. The monitor suspects and recovers nodes, and ends jobs that were lost with
them. ``describe`` and ``types_there`` answer commands and calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oarpy.store import events
from oarpy.store.database import Connection
from oarpy.store.jobs import kill_requests


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A node: how it is reached and the state of its channel (``unknown``, ``connected`` or ``lost``).

    ``away_reason`` is why ``away_by`` took it away, at ``away_since`` in epoch seconds: "" without a reason, None when
    it is there. ``load_average`` (over one minute), ``available_memory`` (in MiB) and ``uptime`` (in seconds) are from
    the node's report at ``load_at``, None before that.
    """

    name: str
    transport: str
    host: str | None
    port: int | None
    channel: str
    message: str
    away_reason: str | None
    away_by: str | None
    away_since: float | None
    load_average: float | None
    available_memory: int | None
    uptime: int | None
    load_at: float | None


_LISTED_NODES = """
    SELECT network_address, transport, host, port, channel, channel_message,
           away_reason, away_by, extract(epoch FROM away_since)::float8,
           load_average, available_memory, uptime, extract(epoch FROM load_at)::float8
    FROM nodes WHERE network_address = ANY(%s) ORDER BY network_address
"""
# Without a reason, the reason before stays.
_EXPLAIN = """
    UPDATE nodes SET away_reason = coalesce(%(reason)s::text, ''), away_by = %(user)s, away_since = now()
    WHERE network_address = ANY(%(nodes)s)
      AND (%(reason)s::text IS NOT NULL OR coalesce(away_reason, '') = '' OR away_by IN ('monitor', 'launcher', 'node'))
"""


def describe(connection: Connection, names: Sequence[str]) -> tuple[NodeDescription, ...]:
    """Return the nodes of these names."""
    return tuple(NodeDescription(*row) for row in connection.execute(_LISTED_NODES, (list(names),)).fetchall())


def explain_absence(connection: Connection, names: Sequence[str], reason: str | None, user: str) -> None:
    """Note that ``user`` takes these nodes away, and why (None: no reason is given).

    A trigger clears it when they are back.
    """
    connection.execute(_EXPLAIN, {"reason": reason, "user": user, "nodes": list(names)})


# By the index of each resource's holders.
_THERE = """
    SELECT DISTINCT j.types
    FROM resources r JOIN assigned_resources a ON a.resource_id = r.resource_id AND (upper_inf(a.during) OR a.suspended)
        JOIN jobs j ON j.job_id = a.job_id
    WHERE r.network_address = %s AND j.user_name = %s
      AND j.state IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')
"""

_ANYWHERE = """
    SELECT DISTINCT types FROM jobs
    WHERE user_name = %s AND state IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')
"""


def types_there(connection: Connection, node: str, user: str) -> list[tuple[str, ...]]:
    """Return the different lists of types of the jobs that a user has now on resources of ``node``."""
    return [tuple(types) for (types,) in connection.execute(_THERE, (node, user))]


def types_anywhere(connection: Connection, user: str) -> list[tuple[str, ...]]:
    """Return the different lists of types of the jobs that a user has now."""
    return [tuple(types) for (types,) in connection.execute(_ANYWHERE, (user,))]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a node: the type of event that tells of it, the job it was noticed with, and a text.

    A fault that ``heals`` is over when the node reports that the failed action works again.
    """

    node: str
    event: str
    job: int
    text: str
    heals: bool = False


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node: its name, ``local`` or ``ssh``, the host (None: its name) and port (None: as configured).

    ``unfit``: it has a fault that it can tell the end of.
    """

    name: str
    transport: str
    host: str | None
    port: int | None
    channel: str
    unfit: bool = False


# A channel is for nodes with resources that are not Dead, or with jobs all the same. Nodes that were sent to sleep have
# none until the command that wakes them has run: an elastic node may have another address then.
_NODES = """
    SELECT network_address, transport, host, port, channel,
           EXISTS (SELECT FROM resources r WHERE r.network_address = n.network_address
                   AND r.state = 'Suspected' AND r.state_by = 'node')
    FROM nodes n
    WHERE network_address = ANY(%s)
      OR EXISTS (SELECT FROM resources r WHERE r.network_address = n.network_address AND (r.state <> 'Dead'
        OR EXISTS (SELECT FROM assigned_resources a WHERE a.resource_id = r.resource_id
                   AND (upper_inf(a.during) OR a.suspended))))
      AND NOT (EXISTS (SELECT FROM node_power p WHERE p.network_address = n.network_address
                      AND (p.asked = 'sleep' OR p.sent_at IS NULL))
        AND NOT EXISTS (SELECT FROM resources r WHERE r.network_address = n.network_address
            AND (r.state IN ('Alive', 'Suspected') OR (r.state = 'Absent' AND r.available_upto IS NULL))))
    ORDER BY network_address
"""

_NAMED = """
    SELECT network_address, transport, host, port, channel FROM nodes WHERE network_address = ANY(%s)
    ORDER BY network_address
"""

_ADD_HOSTS = """
    INSERT INTO nodes (network_address, transport)
    SELECT host, CASE WHEN host IN ('localhost', '127.0.0.1', '::1') THEN 'local' ELSE 'ssh' END
    FROM unnest(%s::text[]) AS host
    ON CONFLICT DO NOTHING
"""

_CHANNELS = """
    UPDATE nodes n
    SET channel = c.channel, channel_message = c.message,
        channel_since = CASE WHEN n.channel = c.channel THEN n.channel_since ELSE now() END,
        boot_id = CASE WHEN c.boot_id = '' THEN n.boot_id ELSE c.boot_id END
    FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS c(node, channel, message, boot_id)
    WHERE n.network_address = c.node
      AND ((n.channel, n.channel_message) <> (c.channel, c.message) OR c.boot_id NOT IN ('', n.boot_id))
"""

_LOADS = """
    UPDATE nodes n SET load_average = l.average, available_memory = l.memory, uptime = l.uptime, load_at = now()
    FROM unnest(%s::text[], %s::float8[], %s::integer[], %s::integer[]) AS l(node, average, memory, uptime)
    WHERE n.network_address = l.node
"""

_GPUS = """
    UPDATE nodes n SET gpus = g.number FROM unnest(%s::text[], %s::integer[]) AS g(node, number)
    WHERE n.network_address = g.node AND n.gpus IS DISTINCT FROM g.number
"""

# Jobs that ended while a node could not be reached, or left it, may have left processes there. By the index of each
# resource's holders, however many there were before. Jobs that were killed while suspended held them earlier. A node
# that greets while its channel counts as open greets a new launcher: the launcher before may have been killed before it
# told the node, or the node's agent before it obeyed. Only jobs on several nodes need that: what a job had where its
# program ran is gone when the program has ended.
_LEFT_BEHIND = """
    SELECT DISTINCT a.job_id, j.attempt
    FROM nodes n
        JOIN resources r USING (network_address)
        JOIN assigned_resources a ON a.resource_id = r.resource_id
            AND a.during && tstzrange(n.channel_since - interval '1 hour', NULL)
        JOIN jobs j ON j.job_id = a.job_id
    WHERE n.network_address = %(node)s AND n.channel <> 'connected' AND NOT is_live(j.state) AND j.attempt > 0
    UNION
    SELECT a.job_id, j.attempt
    FROM nodes n
        JOIN resources r USING (network_address)
        JOIN assigned_resources a ON a.resource_id = r.resource_id
            AND a.during && tstzrange(now() - interval '1 hour', NULL)
        JOIN jobs j ON j.job_id = a.job_id
    WHERE n.network_address = %(node)s AND n.channel = 'connected' AND NOT is_live(j.state) AND j.attempt > 0
      AND EXISTS (SELECT FROM assigned_resources h JOIN resources o USING (resource_id)
                  WHERE h.job_id = a.job_id AND o.network_address <> n.network_address)
    UNION
    SELECT a.job_id, j.attempt
    FROM nodes n
        JOIN resources r USING (network_address)
        JOIN assigned_resources a ON a.resource_id = r.resource_id AND NOT upper_inf(a.during) AND NOT a.suspended
            AND a.during && tstzrange(n.channel_since - interval '1 hour', NULL)
        JOIN jobs j ON j.job_id = a.job_id AND j.state IN ('Running', 'Suspended', 'Resuming')
    WHERE n.network_address = %(node)s AND n.channel <> 'connected'
      AND NOT EXISTS (SELECT FROM assigned_resources h JOIN resources o USING (resource_id)
                      WHERE h.job_id = a.job_id AND o.network_address = n.network_address
                        AND (upper_inf(h.during) OR h.suspended))
    UNION
    SELECT j.job_id, j.attempt
    FROM nodes n
        JOIN jobs j ON j.ended_at > n.channel_since - interval '1 hour' AND j.suspended_time > interval '0'
    WHERE n.network_address = %(node)s AND n.channel <> 'connected' AND j.attempt > 0
      AND EXISTS (SELECT FROM assigned_resources a JOIN resources r USING (resource_id)
                  WHERE a.job_id = j.job_id AND r.network_address = n.network_address)
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
# A node with a fault answers, so that the monitor must not take it back. One event for each time it becomes so, and for
# each time it says another cause meanwhile.
_BLAME = """
    WITH faults AS (
        SELECT DISTINCT ON (node) node, event, job_id, text, bool_and(heals) OVER (PARTITION BY node) AS heals
        FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::text[], %s::boolean[])
            AS f(node, event, job_id, text, heals)
        ORDER BY node, heals, job_id
    ), suspected AS (
        UPDATE resources r SET state = 'Suspected', state_by = CASE WHEN f.heals THEN 'node' ELSE 'launcher' END
        FROM faults f
        WHERE r.network_address = f.node
          AND (r.state = 'Alive' OR (r.state = 'Suspected' AND r.state_by IN ('monitor', 'node')
               AND NOT (f.heals AND r.state_by = 'node')))
        RETURNING r.network_address
    ), reworded AS (
        UPDATE nodes n SET away_reason = f.text
        FROM faults f
        WHERE n.network_address = f.node AND f.heals AND n.away_by = 'node' AND n.away_reason <> f.text
          AND f.node NOT IN (SELECT network_address FROM suspected)
        RETURNING n.network_address
    ), logged AS (
        INSERT INTO event_logs (type, job_id, hosts, description)
        SELECT event, (SELECT j.job_id FROM jobs j WHERE j.job_id = f.job_id), ARRAY[node], text
        FROM faults f
        WHERE node IN (SELECT network_address FROM suspected UNION ALL SELECT network_address FROM reworded)
    ), explained AS (
        UPDATE nodes n SET away_reason = f.text, away_by = CASE WHEN f.heals THEN 'node' ELSE 'launcher' END,
            away_since = now()
        FROM faults f
        WHERE n.network_address = f.node AND f.node IN (SELECT network_address FROM suspected)
          AND (n.away_since IS NULL OR n.away_by IN ('monitor', 'node'))
    )
    SELECT DISTINCT network_address FROM suspected
"""
# A node that is rebooted says so only on a channel from after that.
_HEALED = """
    WITH back AS (
        UPDATE resources r SET state = 'Alive', state_by = 'node'
        WHERE r.network_address = ANY(%s) AND r.state = 'Suspected' AND r.state_by = 'node'
          AND NOT EXISTS (SELECT FROM nodes n WHERE n.network_address = r.network_address
                          AND n.away_by = 'rebooting' AND (r.drain OR n.channel_since < n.away_since))
        RETURNING r.network_address
    ), logged AS (
        INSERT INTO event_logs (type, hosts, description)
        SELECT DISTINCT 'FINAUD_RECOVER', ARRAY[network_address], 'the node says that its fault is over' FROM back
    )
    SELECT DISTINCT network_address FROM back
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

# Jobs with a node that has been silent for too long: (job, node, is it the first node of the job). The launcher itself
# gives up a node that comes to its job, or leaves it. Jobs that run on a host of the site leave their nodes alone,
# which may well restart meanwhile.
_STRANDED = """
    SELECT j.job_id, s.network_address, s.network_address = h.head
    FROM jobs j
        JOIN LATERAL (
            SELECT min(r.network_address) FILTER (WHERE a.extension_id IS NULL) AS head
            FROM assigned_resources a JOIN resources r USING (resource_id)
            WHERE a.job_id = j.job_id AND (upper_inf(a.during) OR a.suspended) AND r.type = 'default') h ON true
        JOIN LATERAL (
            SELECT DISTINCT n.network_address
            FROM assigned_resources a JOIN resources r USING (resource_id) JOIN nodes n USING (network_address)
            WHERE a.job_id = j.job_id AND (upper_inf(a.during) OR a.suspended) AND n.channel = 'lost'
              AND n.channel_since < now() - %(timeout)s * interval '1 second'
              AND NOT EXISTS (
                  SELECT FROM resizes g WHERE g.job_id = j.job_id AND g.done_at IS NULL
                    AND a.resource_id = ANY(g.resource_ids))) s ON true
    WHERE j.state IN ('Launching', 'Running', 'Suspended', 'Resuming')
      AND NOT j.types && %(types)s::text[]
    UNION ALL
    SELECT j.job_id, n.network_address, true
    FROM unnest(%(types)s::text[], %(hosts)s::text[]) AS e(type, host)
        JOIN nodes n ON n.network_address = e.host AND n.channel = 'lost'
            AND n.channel_since < now() - %(timeout)s * interval '1 second'
        JOIN jobs j ON e.type = ANY(j.types)
    WHERE j.state IN ('Launching', 'Running', 'Suspended', 'Resuming')
"""

_FORGET_LOST = "UPDATE nodes SET channel = 'unknown', channel_since = now() WHERE channel = 'lost'"

# Jobs on resources that somebody took away (Absent, Dead), with oarnodesetting or by hand, whenever that was. No job is
# given such a resource, unless it was taken away while the job was being placed. And jobs that were moved here by hand,
# without a resource: nothing else would end them.
_WITHDRAWN = """
    SELECT a.job_id, min(coalesce(r.network_address, 'resource ' || r.resource_id) || ' set ' || r.state)
    FROM resources r JOIN assigned_resources a ON a.resource_id = r.resource_id AND (upper_inf(a.during) OR a.suspended)
    WHERE r.state IN ('Absent', 'Dead')
      AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = a.job_id)
    GROUP BY a.job_id
    UNION ALL
    SELECT j.job_id, 'it holds no resource' FROM jobs j
    WHERE j.state IN ('Launching', 'Running', 'Suspended', 'Resuming')
      AND NOT EXISTS (SELECT FROM assigned_resources a
                      WHERE a.job_id = j.job_id AND (upper_inf(a.during) OR a.suspended))
      AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = j.job_id)
"""

# The process that looks after these jobs on their nodes hangs: it is stopped, say. The first condition is cheap.
_OVERDUE = """
    SELECT j.job_id, 'its walltime is over and its node did not end it'
    FROM jobs j
    WHERE j.state = 'Running' AND j.started_at + j.walltime < now() - %(slack)s * interval '1 second'
      AND expected_end(j) < now() - %(slack)s * interval '1 second'
      AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = j.job_id)
"""


def nodes(connection: Connection, hosts: Sequence[str] = ()) -> list[NodeRow]:
    """Return every node that should have a channel; ``hosts`` should, with or without resources."""
    return [NodeRow(*row) for row in connection.execute(_NODES, [list(hosts)])]


def add_hosts(connection: Connection, hosts: Sequence[str]) -> None:
    """Make nodes of hosts that are none: reached by their name over SSH, or this machine."""
    if hosts:
        connection.execute(_ADD_HOSTS, [list(hosts)])


def named(connection: Connection, names: Sequence[str]) -> list[NodeRow]:
    """Return the nodes of these names."""
    return [NodeRow(*row) for row in connection.execute(_NAMED, [list(names)])]


def record_channels(connection: Connection, channels: Sequence[tuple[str, str, str, str]]) -> None:
    """Note (node, ``connected``, ``lost`` or ``unknown``, message, boot id) where it changed."""
    if channels:
        columns = [list(column) for column in zip(*channels, strict=True)]
        connection.execute(_CHANNELS, columns)


def record_loads(connection: Connection, loads: Sequence[tuple[str, float, int, int]]) -> None:
    """Note (node, load average, available memory in MiB, uptime in seconds)."""
    connection.execute(_LOADS, [list(column) for column in zip(*loads, strict=True)])


def record_gpus(connection: Connection, gpus: Mapping[str, int]) -> None:
    """Note how many graphics processors nodes have."""
    connection.execute(_GPUS, [list(gpus), list(gpus.values())])


def left_behind(connection: Connection, node: str) -> list[tuple[int, int]]:
    """Return (job, attempt) of jobs that ended while ``node``, now answering again, was out of reach."""
    return [(job, attempt) for job, attempt in connection.execute(_LEFT_BEHIND, {"node": node})]


def suspect(connection: Connection, timeout: float) -> list[str]:
    """Suspect the resources of nodes that have been silent for ``timeout`` seconds; return the nodes."""
    return [row[0] for row in connection.execute(_SUSPECT, {"timeout": timeout})]


def blame(connection: Connection, faults: Sequence[Fault]) -> list[str]:
    """Suspect the nodes at fault, until the fault is over or an admin takes them back; return the new ones.

    A node that was suspected by such a fault keeps the words of its latest one.
    """
    if not faults:
        return []
    columns = [[getattr(fault, name) for fault in faults] for name in ("node", "event", "job", "text", "heals")]
    return [row[0] for row in connection.execute(_BLAME, columns)]


def healed(connection: Connection, names: Sequence[str]) -> list[str]:
    """Take back nodes that report that they are well, if only faults of that kind were against them; return them."""
    return [row[0] for row in connection.execute(_HEALED, [list(names)])] if names else []


def recover(connection: Connection) -> list[str]:
    """Take back the monitor's own suspicion of nodes that answer; return the nodes."""
    return [row[0] for row in connection.execute(_RECOVER)]


def stranded(connection: Connection, timeout: float, elsewhere: Mapping[str, str]) -> list[tuple[int, str, bool]]:
    """Return (job, node, whether it is the job's first node) for jobs on nodes silent for ``timeout`` seconds.

    Jobs of some types are on a host instead of their nodes (``elsewhere``: host by type).
    """
    values = {"timeout": timeout, "types": list(elsewhere), "hosts": list(elsewhere.values())}
    return [(job, node, head) for job, node, head in connection.execute(_STRANDED, values)]


def forget_lost_channels(connection: Connection) -> None:
    """Forget the nodes that an earlier launcher could not reach; a launcher calls this when it begins."""
    connection.execute(_FORGET_LOST)


def ask_kills(connection: Connection, kills: Sequence[tuple[int, str]]) -> None:
    """Ask the canceller to kill jobs, with a reason each."""
    reasons = dict(reversed(kills))
    to_kill = kill_requests.ask_once(connection, list(reasons.items()), "monitor")
    events.log(connection, (events.NewEvent("NODE_LOST", reasons[job], job) for job in to_kill))


def kill_on_withdrawn(connection: Connection) -> int:
    """Ask the canceller to kill jobs whose resources became Absent or Dead, or that have none.

    Return the number of new requests.
    """
    to_kill = kill_requests.ask_once(connection, connection.execute(_WITHDRAWN).fetchall(), "monitor")
    events.log_request(connection, to_kill, "monitor", "FRAG_JOB_REQUEST")
    return len(to_kill)


def kill_overdue(connection: Connection, slack: float) -> int:
    """Ask the canceller to kill jobs that run on ``slack`` seconds after their walltime; return how many."""
    to_kill = kill_requests.ask_once(connection, connection.execute(_OVERDUE, {"slack": slack}).fetchall(), "monitor")
    events.log_request(connection, to_kill, "monitor", "FRAG_JOB_REQUEST")
    return len(to_kill)
