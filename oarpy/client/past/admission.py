"""Admission rules applied anew to past submissions, at their instant of the replay."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from oarpy.admission.rules.default_rules import read_rule
from oarpy.admission.rules.process import RuleSet
from oarpy.admission.rules.rules import Rule, check_syntax
from oarpy.admission.rules.site import FixedSite, JobInfo, QueueInfo
from oarpy.client.past.workload import PastWorkload
from oarpy.client.session import Session
from oarpy.client.submission.site import rule_limits, rule_settings
from oarpy.client.submission.submission import filled_in
from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.submission import Submission
from oarpy.scheduler.snapshot import Alternative, HoldingJob, WaitingJob, conditions
from oarpy.simulation.traces.past import LiveJobs, PastJob, RefusedJob
from oarpy.store.jobs import history, submissions
from oarpy.store.past.reading import with_past

_FILE = re.compile(r"([0-9]{1,6})_([A-Za-z0-9_.-]+)\.py")


def read_rules(folder: Path) -> tuple[Rule, ...]:
    """Read the rules ``NN_name.py`` of a folder: NN is the priority. Raises :class:`UsageError` for what is no rule."""
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


class AdmissionAnew:
    """Admits each past submission by other rules. Members of an array share one answer, as they did."""

    def __init__(self, session: Session, past: PastWorkload, rules: Iterable[Rule]) -> None:
        connection = session.connection
        self._limits = session.configuration.submission
        self._settings = rule_settings(session.configuration)
        self._rules = RuleSet(rules)
        with with_past(connection):
            self._records = history.records(connection, {job.submission for job in past.jobs})
        self._queues = tuple(QueueInfo(row.name, row.priority) for row in submissions.queues(connection).values())
        self._columns = submissions.properties(connection)
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
        """Return the admitted submission; None when what was asked for is not on record."""
        record = self._records.get(past.submission)
        if not record or "user" not in record:
            return None
        try:
            submission = Submission.from_record(record)
            site, limits = self._site(submission, now, live), self._limits
            admitted, _ = self._rules.run(submission, site, limits=rule_limits(limits))
            return filled_in(admitted, limits)
        except OarpyError as error:
            return RefusedJob(error.message)

    def _site(self, submission: Submission, now: float, live: LiveJobs) -> FixedSite:
        return FixedSite(
            at=datetime.fromtimestamp(now).astimezone(),
            settings=self._settings,
            members={submission.user: submission.groups},
            queues=self._queues,
            columns=self._columns,
            jobs=(*(_info(job, "Waiting") for job in live.waiting), *(_info(job, "Running") for job in live.holding)),
        )

    def _changed(self, past: PastJob, asked: Submission) -> PastJob:
        ways = tuple(
            Alternative(request.groups, request.walltime or 0, request.consumes) for request in asked.alternatives
        )
        job = replace(
            past.job,
            project=asked.project,
            queue=asked.queue or "",
            name=asked.name,
            types=asked.types,
            filter=asked.properties,
            alternatives=ways,
            reservation=None if asked.reservation is None else asked.reservation.timestamp(),
        )
        self._resolve((job,))
        # with other resources, as with other walltimes, a program is taken to run as long as it did
        same = [way.groups for way in ways] == [way.groups for way in past.job.alternatives]
        return replace(past, job=job, runs=past.runs if same else (past.ran,) * len(ways))


def _info(job: WaitingJob | HoldingJob, state: str) -> JobInfo:
    reserved = isinstance(job, WaitingJob) and job.reservation is not None
    return JobInfo(job.id, job.user, job.queue, job.project, job.name, state, job.types, reserved)
