"""The figures for Prometheus: figures of the database, and the gateway's figures from its file on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from oarpy.client.health.exposition import Family, exposition
from oarpy.configuration import Configuration
from oarpy.modules.registry import enabled_modules
from oarpy.store.database import Connection
from oarpy.store.platform import metrics

_STALE = 60.0
"""Seconds after which the gateway's file is that of a gateway that is gone."""


def metrics_text(connection: Connection, configuration: Configuration) -> str:
    """Return all figures in the text format of Prometheus."""
    return exposition(families(connection, configuration)) + _of_gateway(configuration)


def gateway_file(configuration: Configuration) -> str:
    """Return the path of the file with the figures of the gateway; empty if no gateway is configured."""
    socket = configuration.gateway.socket
    return f"{socket}.prom" if socket else ""


def families(connection: Connection, configuration: Configuration) -> Iterator[Family]:
    """Yield the figures of the database."""
    live = [({"state": job[0], "queue": job[1]}, job[2]) for job in metrics.live_jobs(connection)]
    yield _table("oarpy_jobs", "Jobs that are not over.", live)
    waits = metrics.longest_wait(connection)
    yield _gauge("oarpy_longest_wait_seconds", "How long the job waits that came first; 0 when none waits.", waits)
    yield from _passes(metrics.passes(connection))
    yield from _modules(connection, configuration)
    counted = [({"state": resource[0], "type": resource[1]}, resource[2]) for resource in metrics.resources(connection)]
    yield _table("oarpy_resources", "Resources by state and type.", counted)
    held = [({"type": resource[0]}, resource[1]) for resource in metrics.held_resources(connection)]
    yield _table("oarpy_resources_held", "Resources that jobs hold, by type.", held)
    states = [({"state": state[0]}, state[1]) for state in metrics.node_states(connection)]
    yield _table("oarpy_nodes", "Nodes that have resources in this state.", states)
    yield from _nodes(metrics.nodes(connection))
    yield from _gpus(metrics.gpus(connection))
    database = metrics.database(connection)
    yield _gauge("oarpy_database_size_bytes", "Size of the database.", database.size)
    yield _gauge("oarpy_database_connections", "Connections of clients to the database.", database.connections)
    yield _gauge("oarpy_notices_waiting", "Mails and commands of --notify that are not sent.", database.notices)


def _passes(figures: metrics.PassFigures) -> Iterator[Family]:
    yield _count("oarpy_passes_total", "Scheduling passes.", figures.number)
    yield _count("oarpy_pass_seconds_total", "Seconds that all passes took.", figures.seconds_spent)
    yield _count("oarpy_jobs_started_total", "Jobs that passes have started.", figures.jobs_started)
    yield _gauge("oarpy_last_pass_timestamp_seconds", "When the last pass was.", figures.at)
    yield _gauge("oarpy_last_pass_seconds", "How long the last pass took.", figures.seconds)
    yield _gauge("oarpy_last_pass_waiting_jobs", "Jobs that the last pass looked at.", figures.waiting)


def _modules(connection: Connection, configuration: Configuration) -> Iterator[Family]:
    beats = metrics.beats(connection, enabled_modules(configuration))
    led = [({"module": beat.module}, float(beat.led)) for beat in beats]
    yield _table("oarpy_module_up", "Whether a process leads the module (1) or none does (0).", led)
    reports = [({"module": beat.module}, beat.reported_at) for beat in beats if beat.reported_at is not None]
    yield _table("oarpy_module_last_report_timestamp_seconds", "When the module reported last.", reports)


def _nodes(nodes: list[metrics.NodeFigures]) -> Iterator[Family]:
    up = [({"node": figures.name}, float(figures.channel == "connected")) for figures in nodes]
    yield _table("oarpy_node_connected", "Whether the launcher has a channel to the node (1 or 0).", up)
    for name, meaning, column in (
        ("oarpy_node_load1", "Load of the node over one minute.", "load"),
        ("oarpy_node_memory_available_bytes", "Memory that a new program on the node could have.", "memory"),
        ("oarpy_node_uptime_seconds", "Seconds since the node was started.", "uptime"),
        ("oarpy_node_told_timestamp_seconds", "When the node told its load, memory and uptime.", "told_at"),
        ("oarpy_node_gpus", "Graphics processors that the node told of.", "gpus"),
    ):
        values = [(figures.name, getattr(figures, column)) for figures in nodes]
        yield _table(name, meaning, [({"node": node}, value) for node, value in values if value is not None])


def _gpus(figures: metrics.GpuFigures) -> Iterator[Family]:
    yield _gauge("oarpy_gpus_measured", "GPUs of running jobs that were looked at.", figures.held)
    yield _gauge("oarpy_gpus_busy", "How many of these were busy, those that were in part by that part.", figures.busy)
    yield _gauge("oarpy_gpu_memory_used_bytes", "Memory in use on these.", figures.memory)
    yield _gauge("oarpy_gpu_idle_jobs", "Running jobs whose GPUs were all idle.", figures.idle_jobs)


def _table(name: str, meaning: str, samples: Sequence[tuple[Mapping[str, str], float]]) -> Family:
    return Family(name, "gauge", meaning, tuple(samples))


def _gauge(name: str, meaning: str, value: float) -> Family:
    return Family(name, "gauge", meaning, (({}, value),))


def _count(name: str, meaning: str, value: float) -> Family:
    return Family(name, "counter", meaning, (({}, value),))


def _of_gateway(configuration: Configuration) -> str:
    path = gateway_file(configuration)
    try:
        with open(path, encoding="utf-8") as file:
            fresh = time.time() - os.fstat(file.fileno()).st_mtime < _STALE
            return file.read() if fresh else ""
    except OSError:  # no gateway here, or none yet
        return ""
