"""Reports of recurring jobs, as commands print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from oarpy.client.jobs.job_views import may_look_into
from oarpy.client.rendering import Column, Report, Table, TwoForms, local_date, whole_seconds
from oarpy.client.session import Session
from oarpy.client.submission.report import trace_lines
from oarpy.recurrence.series import Begun
from oarpy.store.jobs.recurring import SeriesRow


class BegunDocument(TypedDict):
    """A series that was begun; ``next_due`` in epoch seconds. ``trace`` is there when it was asked for."""

    recurring_id: int
    every: str
    next_due: int
    notes: Sequence[str]
    warnings: Sequence[str]
    trace: NotRequired[Sequence[str]]


class SeriesDocument(TypedDict):
    """A series; instants in epoch seconds. ``command`` is null for others than its user and admins."""

    recurring_id: int
    user: str
    every: str
    name: str | None
    command: str | None
    next_due: int | None
    last_due: int | None
    last_job: int | None
    refusal: str | None
    ended: int | None
    ended_by: str | None


def begun_report(begun: Begun, *, verbose: bool) -> Report[BegunDocument]:
    """Return the answer of ``oarsub --every`` as text and as JSON."""
    return TwoForms(lambda: _begun_text(begun, verbose=verbose), lambda: _begun_document(begun, verbose=verbose))


def _begun_text(begun: Begun, *, verbose: bool) -> str:
    lines = [*begun.notes, *(f"# {warning}" for warning in begun.warnings)]
    lines += trace_lines(begun.trace) if verbose else []
    lines += [f"OAR_RECURRING_ID={begun.number}", f"# first due: {local_date(begun.due.timestamp())}"]
    return "".join(f"{line}\n" for line in lines)


def _begun_document(begun: Begun, *, verbose: bool) -> BegunDocument:
    document: BegunDocument = {
        "recurring_id": begun.number,
        "every": begun.rule,
        "next_due": int(begun.due.timestamp()),
        "notes": begun.notes,
        "warnings": begun.warnings,
    }
    if verbose:
        document["trace"] = begun.trace
    return document


def series_report(session: Session, rows: Sequence[SeriesRow]) -> Report[Sequence[SeriesDocument]]:
    """Return series as text and as JSON; commands are for their users and admins."""
    return TwoForms(lambda: _table(session, rows).text(), lambda: [_document(session, row) for row in rows])


_COLUMNS = ("Id", "User", "Every", "Next due", "Last job", "Name or command", "Message")


def _table(session: Session, rows: Sequence[SeriesRow]) -> Table:
    return Table(tuple(map(Column, _COLUMNS)), tuple(_cells(session, row) for row in rows))


def _cells(session: Session, row: SeriesRow) -> tuple[str, ...]:
    command = row.command if may_look_into(session, row.user) else ""
    due = local_date(row.next_due) if row.ended is None else "-"
    last = "-" if row.last_job is None else str(row.last_job)
    return str(row.number), row.user, row.rule, due, last, row.name or command or "-", _message(row)


def _message(row: SeriesRow) -> str:
    if row.ended is not None:
        return f"ended {local_date(row.ended)} by {row.ended_by}"
    return f"refused {local_date(row.last_due)}: {row.refusal}" if row.refusal else ""


def _document(session: Session, row: SeriesRow) -> SeriesDocument:
    return {
        "recurring_id": row.number,
        "user": row.user,
        "every": row.rule,
        "name": row.name,
        "command": row.command if may_look_into(session, row.user) else None,
        "next_due": int(row.next_due) if row.ended is None else None,
        "last_due": whole_seconds(row.last_due),
        "last_job": row.last_job,
        "refusal": row.refusal or None,
        "ended": whole_seconds(row.ended),
        "ended_by": row.ended_by,
    }
