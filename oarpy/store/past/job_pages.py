"""Jobs, live and past, a page at a time: the statement is put together from the filters that are given.

SQLAlchemy writes it, psycopg runs it. No command of the gateway needs this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.sql import SQL
from sqlalchemy import (
    ColumnElement,
    Dialect,
    Double,
    FromClause,
    Select,
    Text,
    and_,
    case,
    cast,
    exists,
    extract,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql.psycopg import dialect

from oarpy.model.errors import NotFound
from oarpy.model.states import FINAL_STATES
from oarpy.store.database import Connection
from oarpy.store.jobs.job_listing import ListedJob, events_of_error
from oarpy.store.jobs.kill_requests import reason_of_kill
from oarpy.store.past.reading import is_in_past, with_past
from oarpy.store.schema.assignments import assigned_resources, first_predictions
from oarpy.store.schema.assignments import gantt_predictions as predictions
from oarpy.store.schema.jobs import jobs
from oarpy.store.schema.platform import resources
from oarpy.store.schema.requests import kill_requests as kills
from oarpy.store.schema.submissions import moldable_descriptions

_DIALECT: Dialect = dialect()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class JobFilter:
    """The common conditions of the jobs of a page; an empty value or None restricts nothing.

    ``live`` leaves ended jobs out. ``begin`` and ``end`` leave out jobs that had ended at ``begin`` and jobs that were
    submitted after ``end``. ``since`` and ``until``: jobs submitted between them. ``name_part`` is a part of the name.
    ``failed``: jobs in Error, and jobs whose command failed.
    """

    live: bool = True
    ids: tuple[int, ...] = ()
    users: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    name: str | None = None
    name_part: str | None = None
    node: str | None = None
    array: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    begin: datetime | None = None
    end: datetime | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class JobOrder:
    """The order of jobs: by one of :data:`SORTS`, and then by id."""

    key: str = "job"
    descending: bool = True


NEWEST_FIRST = JobOrder()


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs in their order; ``before`` is the key for the next page, ``after`` for the page before, None without one."""

    jobs: tuple[ListedJob, ...]
    before: int | None
    after: int | None


def page(
    connection: Connection,
    chosen: JobFilter,
    *,
    order: JobOrder = NEWEST_FIRST,
    before: int | None = None,
    after: int | None = None,
    limit: int,
    offset: int = 0,
) -> JobPage:
    """Return the first ``limit`` jobs of those that follow job ``before``, or the last of those ahead of ``after``.

    Raises :class:`oarpy.model.errors.NotFound` for a key that is no job, where jobs are not in the order of their ids.
    """
    backwards = after is not None
    key = after if backwards else before
    falling = order.descending != backwards
    value = SORTS[order.key]
    with _reached(connection, chosen), connection.cursor(row_factory=class_row(ListedJob)) as cursor:
        statement = select(*_columns()).select_from(_source()).where(*_conditions(chosen))
        if key is not None:
            statement = statement.where(
                _beyond(value, None if order.key == "job" else _value(connection, value, key), key, falling)
            )
        sorting = (value.desc(), jobs.c.job_id.desc()) if falling else (value.asc(), jobs.c.job_id.asc())
        # one job more than asked for tells whether there is another page
        text, values = _compiled(statement.order_by(*sorting).limit(limit + 1).offset(offset))
        listed = cursor.execute(SQL(text), values).fetchall()
    more, shown = len(listed) > limit, listed[:limit][::-1] if backwards else listed[:limit]
    following, ahead = (True, more) if backwards else (more, before is not None)
    return JobPage(
        tuple(shown),
        shown[-1].job_id if shown and following else None,
        shown[0].job_id if shown and ahead else None,
    )


def _source() -> FromClause:
    return (
        jobs.outerjoin(predictions, predictions.c.job_id == jobs.c.job_id)
        .outerjoin(kills, and_(kills.c.job_id == jobs.c.job_id, kills.c.state != "done"))
        .outerjoin(
            first_predictions,
            and_(
                first_predictions.c.job_id == predictions.c.job_id,
                predictions.c.start_time.is_not(None),
                kills.c.job_id.is_(None),
            ),
        )
    )


def _value(connection: Connection, column: ColumnElement[Any], job_id: int) -> Any:
    """Return the value of a job in the column that jobs are sorted by."""
    text, values = _compiled(select(column).select_from(_source()).where(jobs.c.job_id == job_id))
    row = connection.execute(SQL(text), values).fetchone()
    if row is None:
        raise NotFound(f"job {job_id}, after which the page begins, does not exist", hint="begin with the first page")
    return row[0]


def _beyond(column: ColumnElement[Any], value: Any, job_id: int, falling: bool) -> ColumnElement[bool]:
    """Return the condition of jobs that come after ``job_id``, which has ``value`` in ``column`` (None: its id)."""
    further = jobs.c.job_id < job_id if falling else jobs.c.job_id > job_id
    if value is None:
        return further
    return or_(column < value if falling else column > value, and_(column == value, further))


def count(connection: Connection, chosen: JobFilter) -> int:
    """Return how many jobs there are on all pages."""
    text, values = _compiled(select(func.count()).select_from(jobs).where(*_conditions(chosen)))
    with _reached(connection, chosen):
        row = connection.execute(SQL(text), values).fetchone()
    assert row is not None
    return int(row[0])


def live_counts(connection: Connection) -> dict[str, int]:
    """Return how many jobs are in each state that is not final."""
    return dict(connection.execute("SELECT state, count(*) FROM jobs WHERE is_live(state) GROUP BY state").fetchall())


_killing: ColumnElement[str | None] = literal_column(reason_of_kill("jobs", "kill_requests"))


def _columns() -> list[ColumnElement[Any]]:
    """Return a column for each field of a listed job."""
    expressions: dict[str, ColumnElement[Any]] = {
        "name": jobs.c.job_name,
        "user": jobs.c.user_name,
        "queue": jobs.c.queue_name,
        "submitted": _epoch(jobs.c.submitted_at),
        "started": _epoch(jobs.c.started_at),
        "ended": _epoch(jobs.c.ended_at),
        "predicted": _epoch(predictions.c.start_time),
        "reason": func.coalesce(_killing, predictions.c.reason, ""),
        "reason_data": case((_killing.is_(None), cast(predictions.c.reason_data, Text))),
        "earliest": _epoch(first_predictions.c.earliest_start),
        "latest": _epoch(first_predictions.c.latest_start),
        "walltime": _epoch(jobs.c.walltime),
        "end_events": literal_column(events_of_error("jobs")),
    }
    names = [field.name for field in fields(ListedJob)]
    return [(expressions[name] if name in expressions else jobs.c[name]).label(name) for name in names]


def _epoch(moment: ColumnElement[Any]) -> ColumnElement[float]:
    return cast(extract("epoch", moment), Double)


_first_walltimes = (
    select(func.min(moldable_descriptions.c.walltime))
    .where(moldable_descriptions.c.submission_id == jobs.c.submission_id, moldable_descriptions.c.position == 0)
    .scalar_subquery()
)
SORTS: dict[str, ColumnElement[Any]] = {
    "job": jobs.c.job_id,
    "state": jobs.c.state,
    "user": jobs.c.user_name,
    "name": jobs.c.job_name,
    "queue": jobs.c.queue_name,
    "project": jobs.c.project,
    "submitted": _epoch(jobs.c.submitted_at),
    "start": func.coalesce(
        _epoch(jobs.c.started_at), _epoch(predictions.c.start_time), literal_column("'Infinity'::float8")
    ),
    "ran": func.coalesce(_epoch(func.coalesce(jobs.c.ended_at, func.now()) - jobs.c.started_at), 0.0),
    "walltime": _epoch(func.coalesce(jobs.c.walltime, _first_walltimes)),
}
"""The sort keys of lists; a job without a known start starts at the end of time."""


def _conditions(chosen: JobFilter) -> list[ColumnElement[bool]]:
    several: Sequence[tuple[Sequence[Any], ColumnElement[Any]]] = (
        (chosen.ids, jobs.c.job_id),
        (chosen.users, jobs.c.user_name),
        (chosen.states, jobs.c.state),
        (chosen.queues, jobs.c.queue_name),
        (chosen.projects, jobs.c.project),
    )
    conditions: list[ColumnElement[bool]] = [column.in_(values) for values, column in several if values]
    if chosen.live or not _may_have_ended(chosen):
        conditions.append(func.is_live(jobs.c.state))
    if chosen.name is not None:
        conditions.append(jobs.c.job_name == chosen.name)
    if chosen.name_part is not None:
        conditions.append(func.lower(jobs.c.job_name).contains(chosen.name_part.lower(), autoescape=True))
    if chosen.node is not None:
        conditions.append(_holds_of(chosen.node))
    if chosen.array is not None:
        conditions.append(jobs.c.array_id == chosen.array)
    if chosen.since is not None:
        conditions.append(jobs.c.submitted_at >= chosen.since)
    if chosen.until is not None:
        conditions.append(jobs.c.submitted_at < chosen.until)
    if chosen.begin is not None:
        conditions.append(or_(jobs.c.ended_at.is_(None), jobs.c.ended_at >= chosen.begin))
    if chosen.end is not None:
        conditions.append(jobs.c.submitted_at <= chosen.end)
    if chosen.failed:
        conditions.append(or_(jobs.c.state == "Error", and_(jobs.c.state == "Terminated", jobs.c.exit_status != 0)))
    return conditions or [literal(value=True)]


def _holds_of(node: str) -> ColumnElement[bool]:
    """Return the condition that a job holds or held something of a node."""
    held = assigned_resources.join(resources, resources.c.resource_id == assigned_resources.c.resource_id)
    return (
        exists()
        .select_from(held)
        .where(assigned_resources.c.job_id == jobs.c.job_id, resources.c.network_address == node)
    )


def _may_have_ended(chosen: JobFilter) -> bool:
    return not chosen.live and not (chosen.states and FINAL_STATES.isdisjoint(chosen.states))


def _compiled(statement: Select[Any]) -> tuple[str, dict[str, Any]]:
    compiled = statement.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return str(compiled), dict(compiled.params)


def _reached(connection: Connection, chosen: JobFilter) -> Any:
    """Inside, the statement finds the jobs of the past too, where it may need any."""
    if _may_have_ended(chosen) and is_in_past(connection, chosen.ids, (), others=not chosen.ids):
        return with_past(connection)
    return nullcontext()
