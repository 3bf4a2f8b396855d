"""The applications that a pass deals with: who is in line, by which rank, and which clusters each is shown."""

from __future__ import annotations

import json

from oarpy.configuration import NegotiationSettings
from oarpy.model.errors import OarpyError
from oarpy.model.states import IN_LINE_STATES, JobState
from oarpy.modules.negotiator.shown_clusters import ShownClusters
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import NegotiatingJob, Negotiation
from oarpy.store.database import Connection
from oarpy.store.negotiation import applications
from oarpy.store.negotiation.applications import ApplicationRow
from oarpy.wire.negotiation import ClusterFilter


class ApplicationLine:
    """Makes applications of rows. ``ranks`` has the instant that ranks each, ``unasked`` who has not asked yet."""

    def __init__(self, settings: NegotiationSettings) -> None:
        self._settings = settings
        self.rows: list[ApplicationRow] = []
        self.ranks: dict[int, float] = {}
        self.unasked: frozenset[int] = frozenset()
        self._shown: ShownClusters | None = None
        self._passing: dict[str, tuple[str, ...]] = {}

    def read(self, connection: Connection, *, any_there: bool) -> None:
        """Read the applications that are not over, if there are any."""
        self.rows = applications.live(connection) if any_there else []
        self.unasked = frozenset(row.job for row in self.rows if row.hosts is None)
        self.ranks = {row.job: self._rank(row) for row in self.rows if row.hosts is not None}

    def _rank(self, row: ApplicationRow) -> float:
        if self._settings.rank == "submission" or row.first_asked is None:
            return row.subscribed
        return row.first_asked

    def negotiation(self, connection: Connection, platform: Platform) -> Negotiation | None:
        """Return the first applications in line; None when nobody is."""
        waiting = [row for row in self.rows if row.state in IN_LINE_STATES and row.job_state == JobState.WAITING]
        if not waiting:
            return None
        if self._shown is None or self._shown.platform is not platform:
            self._shown, self._passing = ShownClusters(self._settings, platform), {}
        waiting.sort(key=lambda row: (self.ranks[row.job], row.job))
        line = tuple(self._job(connection, row, self._shown) for row in waiting[: self._settings.most_applications])
        return Negotiation(line, self._shown.all, self._settings.view_steps)

    def _job(self, connection: Connection, row: ApplicationRow, shown: ShownClusters) -> NegotiatingJob:
        key = json.dumps(row.filter, sort_keys=True)
        if key not in self._passing:
            try:
                some = shown.passing(connection, ClusterFilter.read(dict(row.filter)))
            except OarpyError:  # a property that is gone
                some = ()
            self._passing[key] = tuple(one.name for one in some)
        told = row.told
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
            (told["tag"], told["start"]) if told and told["start"] is not None else None,
        )
