"""Admission rules applied again to past submissions, at their instant of the replay."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from msgspec import structs

from oarpy.admission.rules.default_rules import read_rule
from oarpy.admission.rules.process import RuleSet
from oarpy.admission.rules.rules import Rule, check_syntax
from oarpy.admission.rules.site import FixedSite, Holding, JobInfo, QueueInfo
from oarpy.client.past.workload import PastWorkload
from oarpy.client.session import Session
from oarpy.client.submission.site import DatabaseSite, rule_limits
from oarpy.client.submission.submission import filled_in
from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.submission import Submission
from oarpy.scheduler.snapshot import HoldingJob, WaitingJob, conditions, ways_of
from oarpy.simulation.traces.past import LiveJobs, PastJob, RefusedJob
from oarpy.store.jobs import history
from oarpy.store.past.reading import with_past

_FILE = re.compile(r"([0-9]{1,6})_([A-Za-z0-9_.-]+)\.py")


def read_rules(folder: Path) -> tuple[Rule, ...]:
    """Read the rules ``NN_name.py`` of a folder: NN is the priority. Raises :class:`UsageError` for a wrong rule."""
    try:
        entries = sorted(folder.iterdir())
        rules = [
            read_rule(parts[2], int(parts[1]), entry.read_text(encoding="utf-8"))
            for entry in entries
            if (parts := _FILE.fullmatch(entry.name))
        ]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read the rules of '{folder}': {reason}", hint="a folder of NN_name.py") from None
    for rule in rules:
        check_syntax(rule)
    if not rules:
        raise UsageError(f"no rules in '{folder}'", hint="files NN_name.py, as in admission_rules/")
    return tuple(rules)


class SiteOfThen(DatabaseSite):
    """The site at an instant of a replay. Data without a history, such as tables and sizes, is of today."""

    def __init__(self, session: Session, submission: Submission, now: float, live: LiveJobs) -> None:
        super().__init__(session, datetime.fromtimestamp(now).astimezone())
        self._user, self._groups = submission.user, submission.groups
        waiting = (_info(job, "Waiting") for job in live.waiting)
        self._live = FixedSite(jobs=(*waiting, *(_info(job, "Running") for job in live.holding)))
        self._holding = live.holding

    def groups(self, user: str) -> Collection[str]:
        """Return the recorded groups of the submitter, and the present groups of any other user."""
        return self._groups if user == self._user else super().groups(user)

    def job(self, job_id: int) -> JobInfo | None:
        """Return a job that was live then."""
        return self._live.job(job_id)

    def containers(self, name: str) -> Collection[JobInfo]:
        """Return the jobs typed ``container=name`` that were live then."""
        return self._live.containers(name)

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
        """Count the jobs that were live then and satisfy every condition given."""
        return self._live.count_jobs(
            user=user, queue=queue, project=project, job_type=job_type, states=states, reservation=reservation
        )

    def held(self, *, user: str | None = None, queue: str | None = None, project: str | None = None) -> Holding:
        """Return the resources that the jobs which satisfy every condition held then."""
        jobs = [
            job
            for job in self._holding
            if user in (None, job.user) and queue in (None, job.queue) and project in (None, job.project)
        ]
        return Holding(len(jobs), sum(len(job.resources) for job in jobs))

    def queue(self, name: str) -> QueueInfo | None:
        """Return the queue called ``name``, active: whether it was then is not known."""
        row = super().queue(name)
        return None if row is None else QueueInfo(row.name, row.priority)


class AdmissionAnew:
    """Admits each past submission by other rules. Members of an array share one answer, as they did."""

    def __init__(self, session: Session, past: PastWorkload, rules: Iterable[Rule]) -> None:
        connection = session.connection
        self._limits = session.configuration.submission
        self._session = session
        self._rules = RuleSet(rules)
        with with_past(connection):
            self._records = history.records(connection, {job.submission for job in past.jobs})
        self._resolve: Callable[[Collection[WaitingJob]], None] = lambda jobs: past.reader.resolve(
            connection, conditions(jobs)
        )
        self._answers: dict[int, Submission | RefusedJob | None] = {}

    def __call__(self, past: PastJob, now: float, live: LiveJobs) -> PastJob | RefusedJob:
        """Return the job as the rules make it, or why they refuse it."""
        if past.submission not in self._answers:
            self._answers[past.submission] = self._admit(past, now, live)
        answer = self._answers[past.submission]
        if answer is None:
            return past
        return answer if isinstance(answer, RefusedJob) else self._changed(past, answer)

    def _admit(self, past: PastJob, now: float, live: LiveJobs) -> Submission | RefusedJob | None:
        """Return the admitted submission; None when its request is not on record."""
        record = self._records.get(past.submission)
        if not record or "user" not in record:
            return None
        try:
            submission = Submission.from_record(record)
            site, limits = SiteOfThen(self._session, submission, now, live), self._limits
            admitted, _ = self._rules.run(submission, site, limits=rule_limits(limits))
            return filled_in(admitted, limits)
        except OarpyError as error:
            return RefusedJob(error.message)

    def _changed(self, past: PastJob, submission: Submission) -> PastJob:
        ways = ways_of(submission)
        job = structs.replace(past.job, alternatives=ways, **submission.seen())
        self._resolve((job,))
        # with other resources, as with other walltimes, a program is taken to run as long as it did
        same = [way.groups for way in ways] == [way.groups for way in past.job.alternatives]
        return replace(past, job=job, runs=past.runs if same else (past.ran,) * len(ways))


def _info(job: WaitingJob | HoldingJob, state: str) -> JobInfo:
    reserved = isinstance(job, WaitingJob) and job.reservation is not None
    return JobInfo(job.id, job.user, job.queue, job.project, job.name, state, job.types, reserved)
