"""The questions of ``oarpy doctor`` to the database: its server, the modules, jobs that stay where they should not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oarpy.store.database import Connection
from oarpy.store.notifications import is_led
from oarpy.store.platform.nodes import NodeRow


class ServerState(NamedTuple):
    """The server. ``clock`` in epoch seconds, ``size`` in bytes, ``oldest`` in transactions, ``settings`` as shown."""

    clock: float
    standby: bool
    connections: int
    size: int
    oldest: int
    settings: Mapping[str, str]


class ModuleState(NamedTuple):
    """A module: whether an instance of it leads, and the seconds since it reported something (None: never)."""

    led: bool
    silent: float | None


class LateJobs(NamedTuple):
    """Jobs that are in a state for longer than they should; ``seconds``: the longest of these times."""

    state: str
    jobs: list[int]
    seconds: float


class NodeChannel(NamedTuple):
    """A node, how its channel is, and for how many seconds (None: none) its resources are Suspected."""

    node: NodeRow
    message: str
    suspected: float | None


class NodeGpus(NamedTuple):
    """A node's GPUs by its resources: their numbers there, and values of ``gpu`` without such a number."""

    devices: list[int]
    unnumbered: list[str]


_SERVER = """
    SELECT extract(epoch FROM clock_timestamp())::float8, pg_is_in_recovery(),
        (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
        pg_database_size(current_database()), (SELECT max(age(datfrozenxid)) FROM pg_database),
        (SELECT jsonb_object_agg(name, setting) FROM pg_settings
         WHERE name IN ('fsync', 'full_page_writes', 'autovacuum', 'max_connections', 'default_transaction_read_only'))
"""
_SILENT = "SELECT extract(epoch FROM clock_timestamp() - at)::float8 FROM module_runs WHERE module = %s"
_LATE = """
    SELECT j.state, array_agg(j.job_id ORDER BY j.job_id), max(extract(epoch FROM now() - lower(l.during)))::float8
    FROM unnest(%s::text[], %s::float8[]) AS allowed (state, seconds)
    JOIN jobs j ON j.state = allowed.state
    JOIN job_state_logs l ON l.job_id = j.job_id AND upper_inf(l.during)
    WHERE lower(l.during) < now() - make_interval(secs => allowed.seconds)
      AND NOT EXISTS (
          SELECT FROM launch_gates g WHERE g.job_id = j.job_id
          AND (g.opens_at < now() - make_interval(secs => allowed.seconds)) IS NOT TRUE)
    GROUP BY j.state ORDER BY j.state
"""
_OVERDUE = """
    SELECT 'Running', array_agg(job_id ORDER BY job_id),
        max(extract(epoch FROM now() - started_at - walltime - suspended_time))::float8
    FROM jobs WHERE state = 'Running' AND started_at + walltime + suspended_time < now() - make_interval(secs => %s)
    HAVING count(*) > 0
"""
_CHANNELS = """
    SELECT n.network_address, n.transport, n.host, n.port, n.channel, n.channel_message,
        (SELECT extract(epoch FROM now() - min(r.state_since))::float8 FROM resources r
         WHERE r.network_address = n.network_address AND r.state = 'Suspected')
    FROM nodes n
    WHERE NOT EXISTS (SELECT FROM resources r WHERE r.network_address = n.network_address
                      HAVING bool_and(r.state IN ('Absent', 'Dead')))
    ORDER BY 1
"""
_GPUS = """
    SELECT network_address,
        coalesce(array_agg(DISTINCT (row -> 'gpudevice')::numeric)
                 FILTER (WHERE jsonb_typeof(row -> 'gpudevice') = 'number'), '{}'),
        coalesce(array_agg(DISTINCT row ->> 'gpu') FILTER (WHERE row ->> 'gpudevice' IS NULL), '{}')
    FROM (SELECT network_address, to_jsonb(r) AS row FROM resources r WHERE network_address IS NOT NULL) AS described
    WHERE row ->> 'gpu' IS NOT NULL
    GROUP BY network_address
"""
_SHARED_GPUS = """
    SELECT gpu, array_agg(network_address ORDER BY network_address)
    FROM (SELECT DISTINCT to_jsonb(r) ->> 'gpu' AS gpu, network_address FROM resources r
          WHERE network_address IS NOT NULL AND EXISTS (SELECT FROM exclusive_levels WHERE property = 'gpu')) AS placed
    WHERE gpu IS NOT NULL
    GROUP BY gpu HAVING count(*) > 1
    ORDER BY gpu
"""
_LATE_NOTICES = "SELECT count(*) FROM notices WHERE due < now() - make_interval(secs => %s)"


def server(connection: Connection) -> ServerState:
    """Return how the server of the database is."""
    row = connection.execute(_SERVER).fetchone()
    assert row is not None
    return ServerState(*row)


def module(connection: Connection, name: str) -> ModuleState:
    """Return how a module is."""
    row = connection.execute(_SILENT, [name]).fetchone()
    return ModuleState(is_led(connection, name), row[0] if row else None)


def late_jobs(connection: Connection, limits: Mapping[str, float], overdue: float) -> list[LateJobs]:
    """Return the jobs that are in a state for longer than ``limits`` (seconds by state) allow.

    ``overdue`` is how many seconds after its walltime a job may still be Running.
    """
    rows = connection.execute(_LATE, [list(limits), [float(limit) for limit in limits.values()]]).fetchall()
    return [LateJobs(*row) for row in [*rows, *connection.execute(_OVERDUE, [overdue]).fetchall()]]


def channels(connection: Connection) -> list[NodeChannel]:
    """Return the nodes that should be reachable: not Absent or Dead."""
    return [NodeChannel(NodeRow(*row[:5]), row[5], row[6]) for row in connection.execute(_CHANNELS)]


def gpus(connection: Connection) -> dict[str, NodeGpus]:
    """Return the GPUs in resources, by node; nodes without any are left out."""
    return {
        node: NodeGpus([int(device) for device in devices], rest) for node, devices, rest in connection.execute(_GPUS)
    }


def shared_gpus(connection: Connection) -> list[tuple[str, list[str]]]:
    """Return each value of ``gpu`` that stands on several nodes, which a job would hold as one, with these nodes."""
    return list(connection.execute(_SHARED_GPUS))


def late_notices(connection: Connection, seconds: float) -> int:
    """Return how many mails and commands of ``--notify`` should have left ``seconds`` ago."""
    row = connection.execute(_LATE_NOTICES, [seconds]).fetchone()
    return row[0] if row else 0
