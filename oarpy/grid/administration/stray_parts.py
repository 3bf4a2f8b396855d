"""Strays: parts on clusters that the broker's database does not know, as after its restore from a backup."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from oarpy.client.rendering import Column, JsonValue, Table, local_date, one_line
from oarpy.grid.broker.cluster_answers import checked
from oarpy.grid.broker.connections import Opening
from oarpy.grid.calls.parts import PartEvent, PartStarted
from oarpy.grid.calls.table import Cancel, Cluster, Events, Waiting
from oarpy.model.errors import OarpyError
from oarpy.store.database import Connection
from oarpy.store.grid import broker_parts, clusters

_TITLES = ("Cluster", "Part", "Job there", "State", "Since", "Message")
_REASON = "its broker does not know it"


@dataclass(frozen=True, slots=True)
class StrayPart:
    """A part that waits or runs; ``since`` in epoch seconds, ``job`` is the cluster's own id.

    A cluster that cannot be asked has one entry without a name, whose ``message`` says why.
    """

    cluster: str
    name: str = ""
    job: str = ""
    state: str = ""
    since: float | None = None
    message: str = ""


def find(connection: Connection, opening: Opening, *, end: bool = False) -> list[StrayPart]:
    """Ask all clusters for their parts and return the strays; ``end`` also has them ended."""
    strays: list[StrayPart] = []
    for row in clusters.every(connection):
        try:
            cluster = opening(row)
        except OarpyError as error:
            strays.append(StrayPart(row.name, message=str(error)))
            continue
        try:
            strays += _on_cluster(connection, cluster, end=end)
        except OarpyError as error:
            strays.append(StrayPart(row.name, message=str(error)))
        finally:
            with suppress(OarpyError, OSError):
                cluster.close()
    return strays


def _on_cluster(connection: Connection, cluster: Cluster, *, end: bool) -> list[StrayPart]:
    """Return the strays of a cluster.

    Names are looked up last: the broker stores a part before it calls its cluster.
    """
    waiting = cluster.ask(Waiting())
    there = {part.name: StrayPart(cluster.name, part.name, part.job, "waits", part.submitted) for part in waiting}
    for event in _running(cluster).values():
        there[event.part] = StrayPart(cluster.name, event.part, event.job, "runs", event.at)
    there = checked(cluster.name, there)
    known = {row.name for row in broker_parts.by_name(connection, list(there))}
    strays = [stray for name, stray in there.items() if name not in known]
    if end:
        for stray in strays:
            cluster.ask(Cancel(stray.name, _REASON, key=f"{stray.name}:stray:{time.time_ns()}"))
    return strays


def _running(cluster: Cluster) -> Mapping[str, PartEvent]:
    """Return the starts of the parts that are not over."""
    running: dict[str, PartEvent] = {}
    after = 0
    while events := cluster.ask(Events(after)):
        for event in events:
            if isinstance(event, PartStarted):
                running[event.part] = event
            elif isinstance(event, PartEvent):
                running.pop(event.part, None)
        after = events[-1].number
    return running


def table(strays: Iterable[StrayPart]) -> Table:
    """Return strays for people."""
    return Table(tuple(map(Column, _TITLES)), tuple(map(_cells, strays)))


def record(part: StrayPart) -> dict[str, JsonValue]:
    """Return a stray for programs; ``since`` in epoch seconds."""
    return {
        "cluster": part.cluster,
        "part": part.name,
        "job": part.job,
        "state": part.state,
        "since": part.since,
        "message": part.message,
    }


def all_asked(strays: Sequence[StrayPart]) -> bool:
    """Return whether every cluster could be asked."""
    return all(stray.name for stray in strays)


def _cells(part: StrayPart) -> tuple[str, ...]:
    since = "" if part.since is None else local_date(part.since)
    return (part.cluster, part.name, part.job, part.state, since, one_line(part.message))
