"""The first view of an application: what one ranked last would see of what the last pass has left."""

from __future__ import annotations

import time
from collections.abc import Sequence

from oarpy.configuration import NegotiationSettings
from oarpy.model.errors import OarpyError
from oarpy.modules.metascheduler.snapshot_reader import SnapshotReader
from oarpy.modules.metascheduler.what_if import foreseen
from oarpy.modules.negotiator.shown_clusters import ShownClusters
from oarpy.scheduler.gantt.gantt import Gantt
from oarpy.scheduler.negotiation.host_counts import HostCounts, shortened
from oarpy.store.database import Connection
from oarpy.wire.negotiation import ClusterFilter

View = dict[str, tuple[int, list[float]]]
"""Number of the view in which a cluster changed last, and its profile, by cluster."""


def first_view(
    connection: Connection, reader: SnapshotReader, settings: NegotiationSettings, asked: ClusterFilter
) -> View:
    """Return the view of number 1, in the caller's transaction."""
    snapshot = reader.read(connection, int(time.time()), only_places=True).snapshot
    gantt = Gantt(snapshot)
    gantt.hold(job for job in snapshot.holding if not job.besteffort)
    claims = foreseen(connection, snapshot.platform)
    for job in snapshot.waiting:
        if not job.besteffort and job.id in claims:
            gantt.enter(job, claims[job.id], everywhere=True)
    shown = ShownClusters(settings, snapshot.platform)
    try:
        clusters = shown.passing(connection, asked)
    except OarpyError:  # a property that is gone since
        clusters = ()
    profiles = HostCounts(len(snapshot.platform.ids), clusters).profiles(gantt.whole.exclusive.slots())
    return {
        one.name: (
            1,
            numbers(shortened(profiles[one.name].since(snapshot.now), settings.view_steps).flat(snapshot.now)),
        )
        for one in clusters
    }


def numbers(flat: Sequence[object]) -> list[float]:
    """Return a profile as numbers of JSON."""
    return [one if isinstance(one, int) else float(one) for one in flat]  # type: ignore[arg-type]
