"""The cluster as it was at one instant (``--at DATE``): jobs, Gantt chart, nodes; why a job waited then."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from oarpy.client import rendering
from oarpy.client.jobs import job_table
from oarpy.client.jobs.description import window_json
from oarpy.client.jobs.reports import Question
from oarpy.client.past import gantt_chart
from oarpy.client.past.gantt_chart import GanttDocument
from oarpy.client.rendering import Column, Document, Look, Report, Table, TwoForms, json_text, local_date
from oarpy.client.session import Session
from oarpy.model.errors import NotFound
from oarpy.model.reasons import reason_record, sentence
from oarpy.store.jobs.scope import JobScope
from oarpy.store.jobs.windows import JobWindow
from oarpy.store.passes import verdict_history
from oarpy.store.past import instants
from oarpy.store.platform import resources
from oarpy.store.platform.resources import ResourceScope

_WAITS = ("Hold", "Waiting", "toAckReservation")
"""States of jobs that have not begun."""


def _window_then(window: JobWindow) -> dict[str, object]:
    """Return the window of a reservation, and the start that it had."""
    return {**window_json(window), "start": window.start}


def listing(session: Session, at: datetime, question: Question, layout: str, seen: Look) -> str:
    """Return a line a job, as ``oarstat`` printed it then."""
    jobs = instants.jobs_at(session.connection, at, question.scope())
    if layout == "ids":
        return rendering.ids_text(job.job_id for job in jobs)
    table = job_table.job_table(jobs, layout, at.timestamp(), seen)
    return table.csv() if layout == "csv" else table.text()


def states(session: Session, at: datetime, question: Question) -> str:
    """Return ``ID: State`` a line."""
    jobs = instants.jobs_at(session.connection, at, question.scope())
    return "".join(f"{job.job_id}: {job.state}\n" for job in jobs)


def document(session: Session, at: datetime, question: Question) -> str:
    """Return the JSON object of jobs as they were, by id."""
    jobs = instants.jobs_at(session.connection, at, question.scope())
    windows = instants.windows_at(session.connection, at, [job.job_id for job in jobs if job.state in _WAITS])
    by_job: dict[str, Document] = {
        str(job.job_id): {
            "Job_Id": job.job_id,
            "array_id": job.array_id,
            "name": job.name,
            "project": job.project,
            "queue": job.queue,
            "owner": job.user,
            "state": job.state,
            "reason": sentence(job.why, local_date),
            "reason_data": reason_record(job.why),
            "submissionTime": job.submitted,
            "startTime": job.started,
            "stopTime": job.ended,
            "scheduledStart": job.predicted,
            "exit_code": job.exit_status,
            **({"window": _window_then(window)} if (window := windows.get(job.job_id)) else {}),
        }
        for job in jobs
    }
    return json_text(by_job)


def gantt(session: Session, at: datetime, period: tuple[datetime, datetime], user: str | None) -> Report[GanttDocument]:
    """Return the bars of jobs in ``period``, as known at ``at``."""
    bars = instants.bars_at(session.connection, at, *period, user)
    nodes = {
        resource.resource_id: resource.network_address or f"{resource.type} {resource.resource_id}"
        for resource in resources.resources(session.connection, ResourceScope())
    }
    return TwoForms(
        lambda: gantt_chart.chart(bars, nodes, *period, rendering.look().columns),
        lambda: gantt_chart.document(bars, nodes, *period),
    )


def nodes(session: Session, at: datetime, wanted: frozenset[int]) -> Report[Document]:
    """Return the resources ``wanted`` as they were, by node and state."""
    held = [row for row in instants.resources_at(session.connection, at) if row.resource_id in wanted]
    grouped: dict[tuple[str, str], list[instants.ResourceThen]] = defaultdict(list)
    for row in held:
        grouped[row.node or "-", row.state].append(row)
    rows = tuple(
        (node, state, str(len(some)), " ".join(map(str, sorted({job for row in some for job in row.jobs}))))
        for (node, state), some in grouped.items()
    )
    columns = (Column("Node", 14), Column("State", 9), Column("Resources"), Column("Jobs", 20))
    return TwoForms(
        lambda: Table(columns, rows).text(),
        lambda: {
            str(row.resource_id): {"network_address": row.node, "state": row.state, "jobs": list(row.jobs)}
            for row in held
        },
    )


def why(session: Session, job: int, at: datetime) -> Report[Document]:
    """Return why a job waited at ``at``, as the pass found it; raise :class:`NotFound`."""
    scope = JobScope(job_ids=(job,), live=False)
    past = next(iter(instants.jobs_at(session.connection, at, scope)), None)
    if past is None:
        raise NotFound(f"there was no job {job} at {local_date(at.timestamp())}", hint="oarstat -f tells its dates")
    waits = past.state in _WAITS
    window = instants.windows_at(session.connection, at, [job] if waits else []).get(job)
    verdict = verdict_history.verdict_at(session.connection, [job], at.timestamp()).get(job)
    record: dict[str, Document] = {"job_id": job, "at": at.timestamp(), "state": past.state}
    lines = [f"At {local_date(at.timestamp())}, job {job} of {past.user} was {past.state}."]
    if verdict is not None and waits:
        record |= {
            "verdict": verdict.verdict,
            "since": verdict.at,
            "reason": sentence(verdict.reason, local_date),
            "reason_data": reason_record(verdict.reason),
            "predicted_start": verdict.start,
            "queue": verdict.queue,
            "queue_priority": verdict.priority,
            "order": verdict.order,
            "order_key": list(verdict.key),
        }
        lines.append(f"Since {local_date(verdict.at)}: {sentence(verdict.reason, local_date)} ({verdict.verdict}).")
        if verdict.start is not None:
            lines.append(f"Its start was foreseen for {local_date(verdict.start)} when that was found.")
        lines.append(f"Queue {verdict.queue} (priority {verdict.priority}) went by the order '{verdict.order}'.")
    elif waits:
        lines.append("No verdict of then is kept (scheduler.verdict_history).")
    if window is not None:
        record["window"] = _window_then(window)
        ready, start = local_date(window.ready) or "at once", local_date(window.start)
        moves = "it no longer moved" if window.fixed else "it could move"
        lines.append(f"Its window was {ready} to {local_date(window.deadline)}, its start {start}; {moves}.")
    return TwoForms(lambda: "\n".join(lines) + "\n", lambda: record)
