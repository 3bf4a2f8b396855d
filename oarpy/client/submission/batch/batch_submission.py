"""A batch taken through checks and rules line by line, and stored in one transaction, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from oarpy.admission.rules.rules import RefusedByRule
from oarpy.client.session import Session
from oarpy.client.submission import job_keys
from oarpy.client.submission.batch.batch_site import BatchSite
from oarpy.client.submission.batch.lines import Batch, BatchLine
from oarpy.client.submission.draft import draft
from oarpy.client.submission.feasibility import KnownNeeds
from oarpy.client.submission.project_hours import Stored, charge
from oarpy.client.submission.projects import with_project
from oarpy.client.submission.site import rule_limits
from oarpy.client.submission.submission import (
    Admitted,
    Submitted,
    admitted,
    as_best_effort,
    as_submitted,
    cause,
    enabled_rules,
    message,
    require_no_launcher,
    submitter,
    unscheduled,
)
from oarpy.client.submission.waiting_jobs import WAITING_JOBS
from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.submission import Submission
from oarpy.store.jobs import submissions
from oarpy.store.jobs.submissions import KeyPair, NewSubmission


class BatchRefused(OarpyError):
    """Lines of a batch cannot be submitted, so that none was; ``faults`` has the number of each and why."""

    def __init__(self, faults: Mapping[int, OarpyError], lines: int) -> None:
        wrong = "1 line" if len(faults) == 1 else f"{len(faults)} lines"
        super().__init__(f"nothing was submitted: {wrong} of {lines} cannot be")
        self.faults = dict(sorted(faults.items()))
        self.exit_status = next(iter(self.faults.values())).exit_status


def submit_batch(session: Session, batch: Batch, environment: Mapping[str, str]) -> list[Submitted]:
    """Submit every line as the user of ``session``; return the results, in their order.

    All jobs get ``environment``. Raises :class:`BatchRefused` when a line is wrong or refused, and :class:`OarpyError`
    for an error of all of them together. Then nothing is stored.
    """
    faults, total = batch.faults, len(batch.lines) + len(batch.faults)
    site = BatchSite(session, datetime.now().astimezone())
    lines = _drafted(session, batch, environment, site)
    _check_size(session, [request for _, request, _ in lines])
    numbered = _admitted(session, lines, site, faults)
    pairs = _key_pairs(numbered, environment, faults)
    if faults:
        raise BatchRefused(faults, total)
    return _stored(session, [accepted for _, accepted in numbered], pairs)


_Drafted = tuple[BatchLine, Submission, Sequence[str]]


def _drafted(session: Session, batch: Batch, environment: Mapping[str, str], site: BatchSite) -> list[_Drafted]:
    """Return the submission of each line, and warnings, before the rules."""
    caller, limits = submitter(session, environment, ()), session.configuration.submission
    lines: list[_Drafted] = []
    for line in batch.lines:
        try:
            submission, warnings = draft(line.options, replace(caller, arguments=line.words), limits)
            submission = with_project(site.payers, submission)
            require_no_launcher(submission)
            if submission.bag:
                raise UsageError("--batch with --bag", hint="submit it by itself: its answer is waited for")
            if submission.processes:
                raise UsageError("--batch with --processes", hint="submit it by itself: jobs measure its rates first")
        except OarpyError as error:
            batch.faults[line.number] = error
        else:
            lines.append((line, submission, warnings))
    return lines


def _check_size(session: Session, requests: Sequence[Submission]) -> None:
    jobs, most = (
        sum(submission.array_size for submission in requests),
        session.configuration.submission.maximum_array_size,
    )
    if jobs > most:
        raise UsageError(f"batch of {jobs} jobs", hint=f"at most {most} (maximum_array_size)")


def _admitted(
    session: Session, lines: Sequence[_Drafted], site: BatchSite, faults: dict[int, OarpyError]
) -> list[tuple[int, Admitted]]:
    """Run the rules over every line, and check their results again; those that become best effort pass them again."""
    needs = KnownNeeds(session)
    paid, unpaid = list[tuple[int, Admitted]](), list[_Drafted]()
    for line, accepted, warnings in _ruled(session, lines, site, faults, needs):
        try:
            warned = site.hours.pay(accepted.submission, accepted.need)
        except OarpyError as error:
            faults[line.number] = error
            continue
        if warned is not None:
            site.add(accepted.submission)
            paid.append((line.number, replace(accepted, warnings=(*accepted.warnings, *warned))))
        else:
            requested, warning = as_best_effort(accepted)
            unpaid.append((line, requested, (*warnings, warning)))
    for line, accepted, _ in _ruled(session, unpaid, site, faults, needs):
        site.add(accepted.submission)
        paid.append((line.number, accepted))
    return sorted(paid, key=lambda numbered: numbered[0])


def _ruled(
    session: Session, lines: Sequence[_Drafted], site: BatchSite, faults: dict[int, OarpyError], needs: KnownNeeds
) -> Iterator[tuple[BatchLine, Admitted, Sequence[str]]]:
    """Yield each line that the rules and the checks behind them admit, with its own warnings."""
    limits = rule_limits(session.configuration.submission)
    outcomes = enabled_rules(session).run_each([request for _, request, _ in lines], site, limits=limits)
    for (line, submission, warnings), outcome in zip(lines, outcomes, strict=True):
        try:
            if isinstance(outcome, RefusedByRule):
                raise cause(outcome, submission, site, session)
            accepted = admitted(session, site, submission, warnings, *outcome, needs.of)
        except OarpyError as error:
            faults[line.number] = error
        else:
            yield line, accepted, warnings


def _key_pairs(
    numbered: Sequence[tuple[int, Admitted]], environment: Mapping[str, str], faults: dict[int, OarpyError]
) -> list[tuple[KeyPair, ...]]:
    pairs = []
    for number, accepted in numbered:
        try:
            pairs.append(job_keys.key_pairs(accepted.submission, environment))
        except OarpyError as error:
            faults[number] = error
    return pairs


def _stored(session: Session, accepted: Sequence[Admitted], pairs: Sequence[tuple[KeyPair, ...]]) -> list[Submitted]:
    jobs = sum(line.submission.array_size for line in accepted)
    counted = session.configuration.submission.hints
    new = [
        NewSubmission(line.submission, message(line), line.requested, line.submission.kind if counted else None)
        for line in accepted
    ]
    connection = session.connection
    with connection.transaction():
        WAITING_JOBS.check(session, jobs, "a batch")
        job_ids = submissions.insert_all(connection, new)
        WAITING_JOBS.recheck(session, job_ids[-1][-1], jobs)
        charge(session, [Stored(line.submission, line.need, ids) for line, ids in zip(accepted, job_ids, strict=True)])
        for request, ids, keys in zip(accepted, job_ids, pairs, strict=True):
            job_keys.store(connection, request.submission, ids, keys)
    for request, ids, keys in zip(accepted, job_ids, pairs, strict=True):
        job_keys.hand_out(session, request.submission, ids, keys)
    warnings = unscheduled(session)
    return [as_submitted(line, ids, warnings) for line, ids in zip(accepted, job_ids, strict=True)]
