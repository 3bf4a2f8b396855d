"""Why another job was started before the user's job, by the verdicts that passes kept of both."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from oarpy.client.rendering import Document, Report, TwoForms, local_date
from oarpy.client.session import Session
from oarpy.model.errors import NotFound
from oarpy.model.reasons import NO_REASON, reason_record, sentence
from oarpy.scheduler.order.queue_orders import QUEUE_ORDERS
from oarpy.scheduler.verdicts import Verdict
from oarpy.store.jobs.job_listing import ListedJob
from oarpy.store.jobs.scope import JobScope
from oarpy.store.passes import verdict_history
from oarpy.store.passes.verdict_history import VerdictRow
from oarpy.store.past import instants

_OWN = {
    Verdict.HELD: "held",
    Verdict.DEPENDENCY: "dependency",
    Verdict.DATE: "date",
    Verdict.QUOTA: "quota",
    Verdict.RESOURCES_DOWN: "resources_down",
    Verdict.NEVER: "never",
    Verdict.RESERVATION: "reservation",
    Verdict.RESERVED: "own_reservation",
}
"""Verdicts on one's own job that say all: no other job's start made it wait."""


@dataclass(frozen=True, slots=True)
class Precedence:
    """Why job ``other`` was started ``at`` (epoch seconds) and job ``job`` was not.

    ``because`` is a word for programs, ``text`` a sentence. ``started`` is the pass's verdict on the other job,
    ``waited`` the verdict on this job that held then.
    """

    job: int
    other: int
    because: str
    text: str
    at: float | None = None
    started: VerdictRow | None = None
    waited: VerdictRow | None = None


def precedence(session: Session, job: int, other: int) -> Precedence:
    """Return why ``other`` started before ``job``; raise :class:`NotFound` for an unknown job."""
    connection, now = session.connection, time.time()
    listed = {row.job_id: row for row in _listed(session, (job, other))}
    for number in (job, other):
        if number not in listed:
            raise NotFound(f"job {number} does not exist", hint="oarstat shows the jobs")
    starts = verdict_history.starts_of(connection, [job, other], now)
    theirs, own = starts.get(other), starts.get(job)
    if theirs is None:
        return _without_start(job, listed[other])
    if own is not None and own.at <= theirs.at:
        text = f"it did not: job {job} was started first, at {local_date(own.at)}"
        return Precedence(job, other, "it_did_not", text, theirs.at, theirs)
    if listed[job].submitted > theirs.at:
        text = f"job {job} was submitted later, at {local_date(listed[job].submitted)}"
        return Precedence(job, other, "submitted_later", text, theirs.at, theirs)
    over = listed[job].ended
    if over is not None and over <= theirs.at:
        text = f"it did not: job {job} was over by then"
        return Precedence(job, other, "it_did_not", text, theirs.at, theirs)
    waited = verdict_history.verdict_at(connection, [job], theirs.at).get(job)
    passed = verdict_history.was_passed(connection, theirs, job)
    because, text = _reason(job, theirs, waited, passed=passed)
    return Precedence(job, other, because, text, theirs.at, theirs, waited)


def report(answer: Precedence) -> Report[dict[str, Document]]:
    """Return why the other job was started before."""
    return TwoForms(lambda: _text(answer), lambda: _record(answer))


def _text(answer: Precedence) -> str:
    """Return the answer for people."""
    if answer.at is None:
        return f"{answer.text}\n"
    lines = [f"Job {answer.other} was started at {local_date(answer.at)}.", f"Why: {answer.text}."]
    if answer.waited is not None:
        reason = sentence(answer.waited.reason, local_date)
        lines.append(
            f"Job {answer.job} was told at {local_date(answer.waited.at)}: {reason} ({answer.waited.verdict})."
        )
    return "\n".join(lines) + "\n"


def _record(answer: Precedence) -> dict[str, Document]:
    """Return the JSON object of ``oarstat --why JOB --before JOB -J``."""
    return {
        "job_id": answer.job,
        "before": answer.other,
        "because": answer.because,
        "text": answer.text,
        "at": answer.at,
        "started": _row(answer.started),
        "waited": _row(answer.waited),
    }


def _row(row: VerdictRow | None) -> Document:
    if row is None:
        return None
    return {
        "at": row.at,
        "verdict": row.verdict,
        "reason": sentence(row.reason, local_date),
        "reason_data": reason_record(row.reason),
        "predicted_start": row.start,
        "queue": row.queue,
        "queue_priority": row.priority,
        "order": row.order,
        "order_key": list(row.key),
    }


def _listed(session: Session, jobs: tuple[int, int]) -> tuple[ListedJob, ...]:
    return instants.jobs_at(session.connection, datetime.now(UTC), JobScope(job_ids=jobs, live=False), everywhere=True)


def _without_start(job: int, other: ListedJob) -> Precedence:
    if other.started is None:
        return Precedence(job, other.job_id, "it_did_not", f"It did not: job {other.job_id} has not been started.")
    text = f"What was decided about job {other.job_id} is not kept (scheduler.verdict_history)."
    return Precedence(job, other.job_id, "not_kept", text)


def _reason(job: int, theirs: VerdictRow, waited: VerdictRow | None, *, passed: bool) -> tuple[str, str]:
    if theirs.reason != NO_REASON:
        return "reservation", f"job {theirs.job} is an advance reservation, which starts at its date"
    if waited is not None and waited.verdict in _OWN:
        reason = sentence(waited.reason, local_date)
        return _OWN[Verdict(waited.verdict)], f"job {job} could not be started anyway: {reason}"
    if passed:
        foreseen = "" if waited is None or waited.start is None else f", foreseen for {local_date(waited.start)} then,"
        return "backfilled", (
            f"job {job} was before it in the order, but could not start yet. Job {theirs.job} fitted into what was free"
            f" before the start of job {job}{foreseen} and was backfilled"
        )
    if waited is None:
        return "not_looked_at", f"no pass had looked at job {job} yet"
    if theirs.priority != waited.priority:
        return "queue_priority", (
            f"its queue {theirs.queue} has priority {theirs.priority}, queue {waited.queue} of job {job} has"
            f" {waited.priority}"
        )
    return "order", f"it was before job {job} in the order '{theirs.order}'{_keys(theirs, waited)}"


def _keys(theirs: VerdictRow, waited: VerdictRow) -> str:
    """Return the keys by which both jobs were ordered, where the order says more than the times of submission."""
    if not theirs.key or not waited.key:
        return ""
    name = theirs.order.partition("/")[0]
    if name in QUEUE_ORDERS and name == "fifo" and theirs.order == name:
        return f": it was submitted at {local_date(theirs.key[0])}, job {waited.job} at {local_date(waited.key[0])}"
    first, second = (" ".join(f"{part:g}" for part in verdict.key) for verdict in (theirs, waited))
    return f", least first: {first}, against {second} of job {waited.job}"
