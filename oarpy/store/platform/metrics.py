"""Figures for monitoring: the present state, and counts that the modules keep. No query grows with the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oarpy.store.database import Connection
from oarpy.store.notifications import is_led


class PassFigures(NamedTuple):
    """The last pass (its instant in epoch seconds), and all: number, seconds, jobs started."""

    number: int
    at: float
    seconds: float
    waiting: int
    seconds_spent: float
    jobs_started: int


class NodeFigures(NamedTuple):
    """A node: its channel, and its last report at ``told_at`` (epoch seconds). Memory in bytes, uptime in seconds."""

    name: str
    channel: str
    load: float | None
    memory: int | None
    uptime: int | None
    told_at: float | None
    gpus: int | None


class GpuFigures(NamedTuple):
    """GPUs of running jobs as seen last: how many, how many of them busy, bytes in use, jobs with idle ones."""

    held: int
    busy: float
    memory: int
    idle_jobs: int


class BeatFigures(NamedTuple):
    """When a module reported last (epoch seconds; None: never), and whether a process leads it."""

    module: str
    reported_at: float | None
    led: bool


class DatabaseFigures(NamedTuple):
    """The database: its size in bytes, connections of clients, notices that wait to be sent."""

    size: int
    connections: int
    notices: int


_JOBS = "SELECT state, queue_name, count(*) FROM jobs WHERE is_live(state) GROUP BY 1, 2 ORDER BY 1, 2"
_LONGEST_WAIT = """
    SELECT coalesce(extract(epoch FROM clock_timestamp() - min(submitted_at)), 0)::float8
    FROM jobs WHERE state = 'Waiting'
"""
_PASSES = """
    SELECT pass, extract(epoch FROM at)::float8, seconds, waiting, seconds_spent, jobs_started FROM scheduling_passes
"""
_RESOURCES = "SELECT state, type, count(*) FROM resources GROUP BY 1, 2 ORDER BY 1, 2"
_HELD = """
    SELECT r.type, count(DISTINCT a.resource_id)
    FROM jobs j JOIN assigned_resources a USING (job_id) JOIN resources r USING (resource_id)
    WHERE is_live(j.state) AND j.state NOT IN ('Waiting', 'Hold', 'Suspended') GROUP BY 1 ORDER BY 1
"""
_NODE_STATES = """
    SELECT state, count(DISTINCT network_address) FROM resources WHERE network_address IS NOT NULL GROUP BY 1 ORDER BY 1
"""
_NODES = """
    SELECT network_address, channel, load_average, available_memory::bigint * 1048576, uptime,
        extract(epoch FROM load_at)::float8, gpus
    FROM nodes ORDER BY 1
"""
_GPUS = """
    SELECT coalesce(sum(u.gpus), 0)::bigint, coalesce(sum(u.busy), 0)::float8, coalesce(sum(u.memory), 0)::bigint,
        count(u.idle_since)
    FROM jobs j JOIN gpu_uses u USING (job_id) WHERE j.state = 'Running'
"""
_BEATS = "SELECT module, extract(epoch FROM at)::float8 FROM module_runs"
_DATABASE = """
    SELECT pg_database_size(current_database()),
        (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'),
        (SELECT count(*) FROM notices)
"""


def live_jobs(connection: Connection) -> list[tuple[str, str, int]]:
    """Return state, queue and number of the jobs that are not over."""
    return [(row[0], row[1], row[2]) for row in connection.execute(_JOBS)]


def longest_wait(connection: Connection) -> float:
    """Return the seconds since the submission of the first submitted waiting job; 0 if none waits."""
    row = connection.execute(_LONGEST_WAIT).fetchone()
    assert row is not None
    return float(row[0])


def passes(connection: Connection) -> PassFigures:
    """Return the figures of scheduling passes."""
    row = connection.execute(_PASSES).fetchone()
    assert row is not None
    return PassFigures(*row)


def resources(connection: Connection) -> list[tuple[str, str, int]]:
    """Return state, type and number of resources."""
    return [(row[0], row[1], row[2]) for row in connection.execute(_RESOURCES)]


def held_resources(connection: Connection) -> list[tuple[str, int]]:
    """Return type and number of the resources that jobs hold."""
    return [(row[0], row[1]) for row in connection.execute(_HELD)]


def node_states(connection: Connection) -> list[tuple[str, int]]:
    """Return for each state how many nodes have resources in it."""
    return [(row[0], row[1]) for row in connection.execute(_NODE_STATES)]


def nodes(connection: Connection) -> list[NodeFigures]:
    """Return the figures of each node."""
    return [NodeFigures(*row) for row in connection.execute(_NODES)]


def gpus(connection: Connection) -> GpuFigures:
    """Return the figures of the GPUs that running jobs have."""
    row = connection.execute(_GPUS).fetchone()
    assert row is not None
    return GpuFigures(*row)


def beats(connection: Connection, modules: Sequence[str]) -> list[BeatFigures]:
    """Return when each of these modules reported, and whether it is led."""
    reported = {row[0]: row[1] for row in connection.execute(_BEATS)}
    return [BeatFigures(name, reported.get(name), is_led(connection, name)) for name in modules]


def database(connection: Connection) -> DatabaseFigures:
    """Return the figures of the database."""
    row = connection.execute(_DATABASE).fetchone()
    assert row is not None
    return DatabaseFigures(*row)
