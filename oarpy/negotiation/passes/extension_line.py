"""Extensions as jobs of a snapshot: waiting ones, and each host that may be taken from a job."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from msgspec import structs

from oarpy.cluster_state.stored_jobs import StoredHolder
from oarpy.configuration import NegotiationSettings
from oarpy.model.request import Consumption, Group, Level
from oarpy.model.states import ExtensionState, JobState
from oarpy.negotiation.core.clusters import HOST, HostCluster
from oarpy.negotiation.passes.shown_clusters import ShownClusters
from oarpy.scheduler.gantt.gantt import bits_held
from oarpy.scheduler.resources.consumables import Capacities
from oarpy.scheduler.resources.platform import NETWORK_ADDRESS
from oarpy.scheduler.snapshot import Alternative, HoldingJob, JobPart, PartId, Snapshot, WaitingJob
from oarpy.store.database import Connection
from oarpy.store.jobs import extensions
from oarpy.store.jobs.extensions import LiveExtension, RevocableHost


class ExtensionLine:
    """Makes jobs from rows; it keeps the rows read last for the writing."""

    def __init__(self, settings: NegotiationSettings) -> None:
        self._settings = settings
        self.rows: list[LiveExtension] = []
        self.hosts: list[RevocableHost] = []
        self._shown: ShownClusters | None = None

    def read(self, connection: Connection, *, any_there: bool) -> None:
        """Read the extensions that are not over, if there are any."""
        self.rows = extensions.live(connection) if any_there else []
        self.hosts = extensions.revocable(connection) if any_there else []

    def without_revocable(self, rows: list[StoredHolder]) -> list[StoredHolder]:
        """Return rows of jobs without the hosts that others may take from them."""
        if not self.hosts:
            return rows
        apart: dict[int, set[int]] = {}
        for host in self.hosts:
            apart.setdefault(host.job, set()).update(host.resources)
        return [
            structs.replace(
                row, resources=tuple(resource for resource in row.resources if resource not in apart[row.id])
            )
            if row.id in apart
            else row
            for row in rows
        ]

    def holding(self, snapshot: Snapshot) -> list[HoldingJob]:
        """Return the hosts that others may take from jobs: best-effort jobs whose checkpoint is the notice.

        A job takes its amount once from a block, so a host takes only amounts that the job's earlier hosts do not have.
        """
        if not self.hosts:
            return []
        known = {job.id: job for job in snapshot.holding}
        capacities = Capacities(snapshot.consumables, snapshot.platform)
        covered = {number: bits_held(snapshot.platform, job) | job.given_back for number, job in known.items()}
        held = []
        for host in self.hosts:
            if (job := known.get(host.job)) is None:
                continue
            bits = snapshot.platform.bits_of(host.resources)
            own = capacities.beyond(bits, covered[job.id], job.consumes)
            held.append(self._held(host, job, bits, own, int(snapshot.now)))
            covered[job.id] |= bits
        return held

    def _held(
        self, host: RevocableHost, job: HoldingJob, bits: int, consumes: tuple[Consumption, ...], now: int
    ) -> HoldingJob:
        start = min(int(host.since), now)
        left = self._settings.reclaim_notice if host.reclaim_at is None else max(host.reclaim_at - now, 0)
        if host.leaving:
            left = 0
        return structs.replace(
            job,
            id=PartId.of_host(host.resources[0]),
            start=start,
            walltime=job.end - start,
            resources=host.resources,
            bits=bits,
            consumes=consumes,
            given_back=0,
            resuming=False,
            checkpoint=math.ceil(left),
            part=JobPart(job.id, job.end, revocable=True),
        )

    def waiting(self, snapshot: Snapshot, withheld: Collection[int]) -> tuple[WaitingJob, ...]:
        """Return the waiting extensions of jobs that hold resources, except the ``withheld`` ones."""
        asking = [row for row in self.rows if row.row.state == ExtensionState.WAITING]
        if not asking:
            return ()
        if self._shown is None or self._shown.platform is not snapshot.platform:
            self._shown = ShownClusters(self._settings, snapshot.platform, snapshot.consumables)
        levels = {extension.level for extension in asking}
        clusters = {level: {cluster.name: cluster for cluster in self._shown.at(level)} for level in levels}
        ends, now = {job.id: job.end for job in snapshot.holding}, int(snapshot.now)
        return tuple(
            _asking(extension, clusters[extension.level], ends[extension.row.job], now)
            for extension in asking
            if extension.job_state == JobState.RUNNING
            and extension.row.job in ends
            and PartId.of_extension(extension.row.id) not in withheld
        )


def _asking(extension: LiveExtension, clusters: Mapping[str, HostCluster], until: float, now: int) -> WaitingJob:
    """Return an extension that waits as a job that lasts until its own ends."""
    row = extension.row
    counted = bool(row.hosts) and all(type(count) is int and count > 0 for count in row.hosts.values())
    unknown = [name for name in row.hosts if name and name not in clusters]
    groups = tuple(
        host_group(count, clusters[name].hosts if name else None, extension.level if name else HOST)
        for name, count in row.hosts.items()
        if counted and name not in unknown
    )
    fault = f"there is no cluster '{unknown[0]}' any more" if unknown else ""
    if not counted:  # SQL by hand may have written anything that is JSON
        fault = "the numbers of hosts are not whole and above 0 (extensions.hosts)"
    consumes = tuple(Consumption(*amount) for amount in extension.amounts)
    return WaitingJob(
        PartId.of_extension(row.id),
        extension.user,
        project=extension.project,
        queue=extension.queue,
        name=extension.name,
        types=extension.types,
        submitted=row.asked,
        alternatives=(Alternative(groups, max(until - now, 1), consumes),),
        properties=extension.properties,
        fault=fault,
        ranked=row.asked,
        part=JobPart(row.job, until, revocable=row.kind == "revocable"),
    )


def host_group(count: int, names: Sequence[str] | None, level: str) -> Group:
    """Return a request for whole hosts, or blocks of another level, of the hosts with these names if any are given."""
    some = "" if names is None else ", ".join("'" + name.replace("'", "''") + "'" for name in names)
    counted = NETWORK_ADDRESS if level == HOST else level
    return Group((Level(counted, count),), f"{NETWORK_ADDRESS} IN ({some})" if names is not None else "")
