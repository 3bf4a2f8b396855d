"""The answers to admission rules about the cluster, from the database and the configuration."""

from __future__ import annotations

import dataclasses
import functools
import grp
import os
import pwd
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from oarpy import configuration as settings
from oarpy.admission.rules.execution import RuleLimits
from oarpy.admission.rules.queries import check_query
from oarpy.admission.rules.site import Holding, JobInfo, QueueInfo
from oarpy.client.session import Session
from oarpy.client.submission.feasibility import resources_taken
from oarpy.client.submission.project_hours import Hours
from oarpy.client.submission.projects import Payers
from oarpy.model.request import parse_request
from oarpy.store.jobs import submissions
from oarpy.store.query import read_only


class DatabaseSite:
    """The :class:`oarpy.admission.rules.site.Site` of a real cluster; queues, properties and projects are read once.

    ``payers`` and ``hours`` are for submissions themselves, not for rules.
    """

    def __init__(self, session: Session, now: datetime) -> None:
        self._session = session
        self._connection = session.connection
        self._limits = session.configuration.submission
        self._now = now
        self.settings = rule_settings(session.configuration)
        self.payers = Payers(session)
        self.hours = Hours(session, self.payers)

    def now(self) -> datetime:
        """Return the instant of the submission."""
        return self._now

    def groups(self, user: str) -> Collection[str]:
        """Return the Unix groups of ``user``."""
        return unix_groups(user)

    def queue(self, name: str) -> QueueInfo | None:
        """Return the queue called ``name``."""
        row = self._queues.get(name)
        return None if row is None else QueueInfo(row.name, row.priority, row.active)

    def queue_names(self) -> tuple[str, ...]:
        """Return the names of all queues."""
        return tuple(sorted(self._queues))

    def properties(self) -> Mapping[str, str]:
        """Return the resource properties with their SQL types."""
        return self._properties

    def job(self, job_id: int) -> JobInfo | None:
        """Return a live job."""
        row = submissions.live_job(self._connection, job_id)
        return None if row is None else _info(row)

    def containers(self, name: str) -> Collection[JobInfo]:
        """Return the live jobs typed ``container=name``."""
        return [_info(row) for row in submissions.live_jobs_of_type(self._connection, f"container={name}")]

    def count_jobs(
        self,
        *,
        user: str | None = None,
        queue: str | None = None,
        project: str | None = None,
        job_type: str | None = None,
        states: Iterable[str] | None = None,
        reservation: bool | None = None,
    ) -> int:
        """Count the live jobs that satisfy every condition given.

        A bag counts as one reservation. Dates of brokers' parts do not count.
        """
        return submissions.count_live(
            self._connection,
            user=user,
            queue=queue,
            project=project,
            job_type=job_type,
            states=None if states is None else tuple(states),
            reservation=reservation,
        )

    def held(self, *, user: str | None = None, queue: str | None = None, project: str | None = None) -> Holding:
        """Return the resources that the live jobs which satisfy every condition hold now."""
        return Holding(*submissions.held(self._connection, user=user, queue=queue, project=project))

    def cores(self, request: str, properties: str = "", types: Iterable[str] = ()) -> int:
        """Return how many resources ``request`` would take; 0 when it can never be served."""
        return resources_taken(self._session, parse_request(request), properties, types)

    def query(self, statement: str, *values: object) -> Sequence[Mapping[str, object]]:
        """Return the rows of one SELECT over the tables that the settings list."""
        check_query(statement, self._limits.rule_tables)
        names, rows = read_only(self._connection, statement, values, seconds=self._limits.rule_time_limit)
        return [dict(zip(names, row, strict=True)) for row in rows]

    @functools.cached_property
    def _queues(self) -> dict[str, submissions.SubmissionQueue]:
        return submissions.queues(self._connection)

    @functools.cached_property
    def _properties(self) -> dict[str, str]:
        return submissions.properties(self._connection)


def rule_settings(configuration: settings.Configuration) -> Mapping[str, object]:
    """Return the settings that rules may ask for."""
    return {**dataclasses.asdict(configuration.submission), **configuration.site}


def rule_limits(configuration: settings.SubmissionSettings) -> RuleLimits:
    """Return the limits of one admission rule at this site."""
    return RuleLimits(configuration.rule_time_limit, configuration.rule_memory_limit)


def unix_groups(user: str) -> tuple[str, ...]:
    """Return the names of the groups of ``user``, none when the system does not know the account."""
    try:
        numbers = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except KeyError:
        return ()
    names = []
    for number in numbers:
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return tuple(names)


def _info(row: submissions.LiveJobRow) -> JobInfo:
    return JobInfo(row.id, row.user, row.queue, row.project, row.name, row.state, row.types, row.reservation)
