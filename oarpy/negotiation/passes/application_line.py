"""The applications that a pass deals with: those in line, by rank, and the clusters that each is shown."""

from __future__ import annotations

import json
import time
from math import ceil, inf

from oarpy.configuration import NegotiationSettings
from oarpy.model.errors import OarpyError
from oarpy.model.states import IN_LINE_STATES, JobState, NegotiationState
from oarpy.negotiation.core.cluster_pass import Negotiation
from oarpy.negotiation.core.line import FreedHosts, KeptHosts, KeptPlace, NegotiatingJob
from oarpy.negotiation.messages import ClusterFilter
from oarpy.negotiation.passes.cluster_facts import ClusterFacts, Informed, renewed
from oarpy.negotiation.passes.shown_clusters import ShownClusters
from oarpy.negotiation.store import applications, ghosts
from oarpy.negotiation.store.applications import ApplicationRow
from oarpy.negotiation.store.row_faults import fault
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.precedence import LOWEST, Precedence
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import Snapshot
from oarpy.scheduler.verdicts import Verdict
from oarpy.store.database import Connection
from oarpy.store.platform import cluster_links

_LATE = 2.0
"""Seconds between the end of a job and the moment at which a pass can see it, at most."""


class ApplicationLine:
    """Makes applications from rows. ``ranks`` has the instant that ranks each, ``unasked`` the ones without a request.

    An application whose request cannot be read, or that is about to end, counts as unasked.
    """

    def __init__(self, settings: NegotiationSettings) -> None:
        self._settings = settings
        self.rows: list[ApplicationRow] = []
        self.kept: list[ghosts.GhostRow] = []
        """Hosts that are kept back, as rows."""
        self.unowed = False
        """Whether the last pass left hosts kept back for which no application owes an answer."""
        self._since, self._read = 0.0, 0.0
        self._recent: dict[int, float] = {}
        self._freed_now: list[int] = []
        self._places: dict[int, KeptPlace] = {}
        self.read_at = self.told_at = -inf
        """The begins of the present pass and of the last pass for applications, by the monotonic clock."""
        self.ranks: dict[int, float] = {}
        self.unasked: frozenset[int] = frozenset()
        self._shown: ShownClusters | None = None
        self._passing: dict[str, tuple[str, ...]] = {}
        self._links: list[cluster_links.Link] = []
        self._security = 0.0
        self._marks: dict[str, dict[str, tuple[str, str]]] = {}

    def read(self, connection: Connection, *, any_there: bool) -> None:
        """Read the applications that are not over, if there are any."""
        self.read_at = time.monotonic()
        self.rows = applications.live(connection) if any_there else []
        self.kept = ghosts.kept(connection) if any_there else []
        self._read = time.time()
        going_on = [row for row in self.rows if row.state != NegotiationState.FINISH_SENT]
        asking = [row for row in going_on if row.hosts is not None and not fault(row)]
        self.ranks = {row.job: self._rank(row) for row in asking}
        self.unasked = frozenset(row.job for row in self.rows if row.job not in self.ranks)

    def _rank(self, row: ApplicationRow) -> float:
        if self._settings.rank == "submission" or row.first_asked is None:
            return row.subscribed
        return row.first_asked

    def negotiation(self, connection: Connection, snapshot: Snapshot) -> Negotiation | None:
        """Return the first applications in line; None if there are none."""
        waiting = [row for row in self.rows if row.state in IN_LINE_STATES and row.job_state == JobState.WAITING]
        waiting = [row for row in waiting if row.job in self.ranks]
        if not waiting and (not self.kept or self._settings.ghosts == "needed"):
            return None
        platform, now, security = snapshot.platform, snapshot.now, snapshot.security_time
        if self._shown is None or self._shown.platform is not platform:
            self._shown, self._passing = ShownClusters(self._settings, platform, snapshot.consumables), {}
        self._links, self._security, self._marks = cluster_links.links(connection), security, {}
        waiting.sort(key=lambda row: (self.ranks[row.job], row.job))
        line = tuple(self._job(connection, row, self._shown) for row in waiting[: self._settings.most_applications])
        freed = self._freed(connection, now)
        precedence = Precedence.of(snapshot)
        highest = _highest_waiting(snapshot, precedence)
        # who waits on a higher level sees as free what jobs on lower ones have
        kept = [row for row in self.kept if precedence.level(row.queue, row.project) <= highest]
        freed = [row for row in freed if precedence.level(row.queue, row.project) <= highest]
        return Negotiation(
            line,
            self._shown.all,
            self._settings.view_steps,
            tuple(self._ghost(row, platform) for row in kept),
            tuple(FreedHosts(row.of, platform.bits_of(row.resources), row.end + security) for row in freed),
            self._settings.ghosts,
            self._settings.fair_start,
            telling=(left := self._settings.timer - (self.read_at - self.told_at)) <= 0,
            next_telling=now + ceil(left) if left > 0 else now,
            places=self._places,
        )

    def _freed(self, connection: Connection, now: float) -> list[ghosts.FreedRow]:
        """Return the hosts left by jobs since the last pass for applications.

        The first pass looks back by the time of a ghost. An end that was written late is noticed late, and none is
        noticed twice.
        """
        since = max(self._since - _LATE, now - self._settings.fair_start - _LATE)
        known = {*self._recent, *(row.of for row in self.kept)}
        freed = [row for row in ghosts.freed(connection, since) if row.of not in known]
        self._freed_now = [row.of for row in freed]
        return freed

    def note_nobody(self) -> None:
        """Note a pass without applications in line: hosts freed until then are free."""
        self._since = self._read

    def note_told(self, plan: Plan) -> None:
        """Note a pass for applications: they keep their places of ``plan`` until the next such pass."""
        self.told_at = self.read_at
        self._recent = {of: at for of, at in self._recent.items() if at > self._since - 2 * _LATE}
        self._recent.update(dict.fromkeys(self._freed_now, self._read))
        self._since, placed = self._read, plan.by_job()
        self._places = {
            row.job: KeptPlace(place.verdict, place.reason, place.start, place.end, place.bits)
            for row in self.rows
            if (place := placed.get(row.job)) is not None and place.verdict is not Verdict.STARTS
        }

    def _ghost(self, row: ghosts.GhostRow, platform: Platform) -> KeptHosts:
        """Return hosts kept back; an application that answered, left, or lost its launcher owes no answer any more."""
        owing = {row.job: row for row in self.rows if row.state in IN_LINE_STATES and row.lost_since is None}
        viewers = {
            job: serial
            for job, serial in zip(row.owed_by, row.owed_since, strict=True)
            if job in owing and (serial == 0 or owing[job].answered < serial)
        }
        return KeptHosts(row.of, platform.bits_of(row.resources), row.made, row.until, viewers)

    def _job(self, connection: Connection, row: ApplicationRow, shown: ShownClusters) -> NegotiatingJob:
        key = f"{row.level} {json.dumps(row.filter, sort_keys=True)}"
        if key not in self._passing:
            try:
                some = shown.passing(connection, ClusterFilter.read(dict(row.filter)), row.level)
            except OarpyError:  # a property that is gone
                some = ()
            self._passing[key] = tuple(cluster.name for cluster in some)
        estimate = row.told
        return NegotiatingJob(
            row.job,
            row.state,
            self.ranks[row.job],
            self._passing[key],
            row.hosts or {},
            row.walltime or 0,
            "" if row.tag is None else row.tag,
            row.serial,
            {name: profile for name, (_, profile) in row.view.items()},
            (estimate["tag"], estimate["start"]) if estimate and estimate["start"] is not None else None,
            answers=row.lost_since is None,
            level=row.level,
            exact=row.exact,
            groups={name: groups for name, (_, groups) in row.groups.items()},
        )

    def informed(self, job: NegotiatingJob, row: ApplicationRow, serial: int) -> Informed | None:
        """Return the facts about clusters that an application knows once view ``serial`` names the changed ones.

        Return None if none has changed.
        """
        assert self._shown is not None
        if job.level not in self._marks:
            facts = ClusterFacts(self._shown.at(job.level), self._links, self._security)
            self._marks[job.level] = facts.marks()
        return renewed(row.informed, self._marks[job.level], job.clusters, serial)


def _highest_waiting(snapshot: Snapshot, precedence: Precedence) -> int:
    """Return the highest level of a job that waits and is not held; 0 where only best-effort jobs give way."""
    if not precedence.levelled:
        return 0
    return min((precedence.depth(job) for job in snapshot.waiting if not job.held), default=LOWEST)
