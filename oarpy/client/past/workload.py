"""The site's past as a workload for ``oarpy.simulation.engines.history_replay``, read from the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf

from oarpy.client.platform.quota_file import QuotaFile
from oarpy.client.session import Session
from oarpy.cluster_state.priority_history import factor_rules, karma_rules
from oarpy.cluster_state.project_budgets import ProjectBudgets
from oarpy.cluster_state.quota_rules import QuotaRules, spanned
from oarpy.cluster_state.snapshot_reader import SnapshotReader, alternatives
from oarpy.cluster_state.what_if import read_only, with_jobs
from oarpy.configuration import Configuration
from oarpy.model.dates import NO_DATES, JobDates
from oarpy.model.dependency import Dependency
from oarpy.model.errors import UsageError
from oarpy.model.job_types import read_types
from oarpy.model.quota_calendar import WEEK, valid_spans
from oarpy.model.request import Consumption
from oarpy.scheduler.order.usage_shares import Priorities, Usage
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import Alternative, AskedJob, HoldingJob, QuotaRule, Snapshot, WaitingJob
from oarpy.simulation.traces.past import Occupation, PastJob
from oarpy.store.database import Connection
from oarpy.store.jobs import history
from oarpy.store.passes import snapshot_rows
from oarpy.store.passes.project_use import project_shares
from oarpy.store.past.reading import with_past
from oarpy.store.platform import consumables

_LATER = 52 * WEEK
"""Seconds for which a replay may last longer than it really did with quotas that change with time."""


class EndedJob(AskedJob, frozen=True, kw_only=True):
    """A job that has ended. Instants are epoch seconds, durations seconds; ``position`` counts alternatives from 0.

    ``started``, ``walltime`` and ``position`` are None for a job that never ran. ``throttle`` is the number of members
    of its ``array`` that may run at once, 0 where it is not limited.
    """

    submission: int
    started: float | None
    ended: float
    walltime: float | None
    position: int | None
    succeeded: bool
    checkpoint: float
    throttle: int


@dataclass(frozen=True, slots=True)
class PastWorkload:
    """The workload of a replay. ``base`` has everything that stays the same, with every resource up that is not Dead.

    ``left_out`` counts jobs of the period that ended without having run.
    """

    base: Snapshot
    jobs: tuple[PastJob, ...]
    occupations: tuple[Occupation, ...]
    left_out: int
    reader: SnapshotReader
    """Resolves further conditions for the same platform."""


def read_past(session: Session, since: datetime | None, until: datetime | None) -> PastWorkload:
    """Read the jobs that were in the system between ``since`` and ``until`` (None: from the first, to the last)."""
    connection = session.connection
    reader = SnapshotReader(session.configuration)
    with connection.transaction():
        present = read_only(connection, reader).snapshot
        with with_past(connection):
            rows = history.ended(connection, since, until, EndedJob)
        ran = [row for row in rows if row.started is not None and row.walltime and row.position is not None]
        begin = None if since is None else since.timestamp()
        before = [row for row in ran if begin is not None and (row.started or 0) < begin]
        earlier = [row.id for row in before]
        with with_past(connection):
            jobs = _jobs(connection, [row for row in ran if begin is None or (row.started or 0) >= begin], begin)
            held, amounts = history.held(connection, earlier), consumables.held_by(connection, earlier)
            ways = _ways(connection, before)
        occupations = _occupations(before, ways, held, amounts)
        throttles = {row.array: row.throttle for row in rows if row.throttle}
        rules = _rules_then(connection, session.configuration, rows)
        rules += tuple(QuotaRule.of_array(array, throttle) for array, throttle in throttles.items())
        instants = [instant for row in rows for instant in (row.submitted, row.ended)] or [0]
        start = min(instants) if begin is None else begin
        projects = ProjectBudgets(session.configuration).between(connection, start, max(instants) + _LATER)
        present = replace(present, quotas=rules, quota_horizon=inf, outages=(), asleep=0, projects=projects)
        nobody = replace(present, waiting=(), holding=(), reservations=(), rules=replace(present.rules, power=None))
        shares = project_shares(connection)
        base = with_jobs(connection, reader, nobody, [past.job for past in jobs])
    known = {past.job.id for past in jobs} | {occupation.job.id for occupation in occupations}
    settings = session.configuration.priority
    platform = _whole(base.platform)
    base = replace(
        base,
        waiting=(),
        platform=platform,
        outcomes={job: outcome for job, outcome in base.outcomes.items() if job not in known},
        spans={job: span for job, span in base.spans.items() if job not in known},
        priorities=Priorities(
            usage=Usage(tree=shares),
            karma=karma_rules(settings),
            factors=factor_rules(settings),
            resources=platform.default_type.bit_count(),
        ),
    )
    return PastWorkload(base, jobs, occupations, len(rows) - len(ran), reader)


def rules_of(file: QuotaFile, past: PastWorkload) -> tuple[QuotaRule, ...]:
    """Return the quotas of a file as they would have been valid then, and for a year of later replay."""
    submitted = [job.job.submitted for job in past.jobs] or [0]
    ends = [job.job.submitted + job.waited + job.ran for job in past.jobs] or [0]
    return spanned(file.rules, valid_spans(file.calendar, min(submitted), max(ends) + _LATER))


def _rules_then(
    connection: Connection, configuration: Configuration, rows: Sequence[EndedJob]
) -> tuple[QuotaRule, ...]:
    """Return the quotas of today as they would have been valid then, and for a year of later replay."""
    instants = [instant for row in rows for instant in (row.submitted, row.ended)] or [0]
    return QuotaRules(configuration).between(connection, min(instants), max(instants) + _LATER)[0]


def _whole(platform: Platform) -> Platform:
    """Return the platform with everything up that is not Dead: failures of nodes are not replayed."""
    rows = [row if row.state == "Dead" else replace(row, state="Alive") for row in platform.resources]
    return Platform(rows, platform.levels, platform.aliases)


def _jobs(connection: Connection, rows: Sequence[EndedJob], begin: float | None) -> tuple[PastJob, ...]:
    ways = _ways(connection, rows)
    depends_on: dict[int, tuple[Dependency, ...]] = {}
    for need in snapshot_rows.dependencies(connection, [row.id for row in rows]):
        # The job did start: under another policy it must not be lost to a window that was met.
        dependency = replace(need.dependency, latest=None)
        depends_on[need.job] = (*depends_on.get(need.job, ()), dependency)
    return tuple(_past_job(row, ways[row.submission], depends_on.get(row.id, ()), begin) for row in rows)


def _ways(connection: Connection, rows: Sequence[EndedJob]) -> dict[int, tuple[Alternative, ...]]:
    """Return the alternatives of the submissions of jobs, in order."""
    by_submission = alternatives(snapshot_rows.requests(connection, {row.submission for row in rows}))
    return {submission: tuple(numbered.values()) for submission, numbered in by_submission.items()}


def _past_job(
    row: EndedJob, ways: tuple[Alternative, ...], depends_on: tuple[Dependency, ...], begin: float | None
) -> PastJob:
    """Return a job to be replayed; one submitted before ``begin`` arrives then, and is not measured."""
    assert row.started is not None
    assert row.walltime is not None
    ran = row.ended - row.started
    job = WaitingJob.of(
        row,
        submitted=row.submitted if begin is None else max(row.submitted, begin),
        alternatives=ways,
        depends_on=depends_on,
        dates=NO_DATES if row.reservation is not None else _postponed(row.types),
    )
    return PastJob(
        job=job,
        submission=row.submission,
        runs=run_times(ways, ran, row.position, row.walltime),
        ran=ran,
        waited=row.started - row.submitted,
        succeeded=row.succeeded,
        measured=begin is None or row.submitted >= begin,
        checkpoint=row.checkpoint,
    )


def _postponed(types: Sequence[str]) -> JobDates:
    """Return the date before which the job was not to start.

    Dates by which it had to start are left out: it met them.
    """
    try:
        return JobDates(not_before=read_types(types).dates().not_before)
    except UsageError:
        return NO_DATES


def run_times(ways: Sequence[Alternative], ran: float, position: int | None, walltime: float) -> tuple[float, ...]:
    """Return the run time with each alternative of a job that ran ``ran`` seconds with alternative ``position``.

    The real times of the others are unknown: the same share of the walltime is assumed.
    """
    return tuple(ran if place == position else ran / walltime * way.walltime for place, way in enumerate(ways))


def _occupations(
    rows: Sequence[EndedJob],
    ways: Mapping[int, tuple[Alternative, ...]],
    held: Mapping[int, tuple[int, ...]],
    amounts: Mapping[int, tuple[Consumption, ...]],
) -> tuple[Occupation, ...]:
    """Return the jobs that hold resources from the start, until they really ended."""
    return tuple(
        Occupation(
            HoldingJob(
                id=row.id,
                user=row.user,
                start=row.started or 0,
                walltime=max(row.walltime or 0, row.ended - (row.started or 0)),
                resources=held.get(row.id, ()),
                project=row.project,
                queue=row.queue,
                name=row.name,
                types=row.types,
                consumes=amounts.get(row.id, ()),
                levels=ways[row.submission][row.position or 0].levels,
                checkpoint=row.checkpoint,
            ),
            row.ended,
            row.succeeded,
        )
        for row in rows
    )
