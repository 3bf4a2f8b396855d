"""The first view of an application: the view of the last-ranked application after the last pass."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.cluster_state.what_if import foreseen
from oarpy.configuration import Configuration
from oarpy.model.errors import OarpyError
from oarpy.negotiation.core.cluster_views import ClusterViews, GanttLook
from oarpy.negotiation.core.line import NegotiatingJob
from oarpy.negotiation.messages import ClusterFilter
from oarpy.negotiation.passes.cluster_facts import ClusterFacts, Informed, renewed
from oarpy.negotiation.passes.shown_clusters import ShownClusters
from oarpy.negotiation.profiles import Time
from oarpy.negotiation.store import ghosts
from oarpy.negotiation.store.applications import ApplicationRow
from oarpy.scheduler.gantt.gantt import Gantt
from oarpy.scheduler.job_roles import EXCLUSIVE
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.store.database import Connection
from oarpy.store.platform import cluster_links


@dataclass(frozen=True, slots=True)
class FirstView:
    """View number 1 in its stored form: profiles, groups and facts about clusters, each by cluster."""

    profiles: Mapping[str, tuple[int, Sequence[Time]]]
    groups: Mapping[str, object]
    informed: Informed


def first_view(
    connection: Connection, reader: SnapshotReader, configuration: Configuration, row: ApplicationRow
) -> FirstView:
    """Return the view of number 1, in the caller's transaction."""
    snapshot = reader.read(connection, int(time.time()), only_places=True).snapshot
    settings = configuration.negotiation
    shown = ShownClusters(settings, snapshot.platform, snapshot.consumables)
    try:
        passing = shown.passing(connection, ClusterFilter.read(dict(row.filter)), row.level)
    except OarpyError:  # a property that is gone since
        passing = ()
    names = tuple(cluster.name for cluster in passing)
    application = NegotiatingJob(row.job, row.state, 0, names, {}, 0, "", level=row.level, exact=row.exact)
    job = next((job for job in snapshot.waiting if job.id == row.job), WaitingJob(row.job, row.user))
    gantt, now = _left(connection, snapshot, job), snapshot.now
    view = ClusterViews(snapshot.platform, shown.all, settings.view_steps).view(
        application, GanttLook.at(gantt, job), now
    )
    facts = ClusterFacts(shown.at(row.level), cluster_links.links(connection), configuration.scheduler.security_time)
    return FirstView(
        {name: (1, profile.flat(now)) for name, profile in view.profiles.items()},
        {name: (1, groups.flat(now)) for name, groups in view.groups.items()},
        renewed({}, facts.marks(), names, 0) or {},
    )


def _left(connection: Connection, snapshot: Snapshot, application: WaitingJob) -> Gantt:
    """Return the occupation after the last pass: by holders, by jobs with a place, and by hosts kept back.

    Jobs that give way to the ``application`` are left out, but for promised reservations, and so is what they have
    freed. No pass has yet seen other resources freed since then: they are busy as long as their job might have held
    them.
    """
    gantt = Gantt(snapshot)
    gantt.protect(snapshot.holding, snapshot.besteffort_minimum_life)
    precedence = Precedence.of(snapshot)
    yields, level = precedence.yields, precedence.depth(application)
    gantt.hold(job for job in snapshot.holding if not yields(job, application))
    claims = foreseen(connection, snapshot.platform)
    for job in snapshot.asking:
        if job.id in claims and not yields(job, application):
            gantt.enter(job, claims[job.id], everywhere=True)
    for ghost in ghosts.kept(connection):
        if precedence.level(ghost.queue, ghost.project) > level:
            continue
        bits = snapshot.platform.bits_of(ghost.resources)
        gantt.whole.take(snapshot.now, ghost.until, bits, EXCLUSIVE, all_free=False)
    for freed in ghosts.freed_lately(connection):
        if precedence.level(freed.queue, freed.project) > level:
            continue
        until, bits = freed.end + snapshot.security_time, snapshot.platform.bits_of(freed.resources)
        gantt.whole.take(snapshot.now, max(until, snapshot.now), bits, EXCLUSIVE, all_free=False)
    return gantt
