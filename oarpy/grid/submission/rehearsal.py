"""``oargridsub --dry-run``, and when a job that waits would end elsewhere: clusters are asked, nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from oarpy.client.rendering import Column, JsonValue, Table, local_date, one_line
from oarpy.client.session import Session
from oarpy.grid.broker.connections import clusters_of
from oarpy.grid.calls.parts import PartRequest
from oarpy.grid.calls.table import CallRefused, Cluster
from oarpy.grid.reports.grid_job_views import GridJobView
from oarpy.grid.submission.bag_rehearsal import BagRehearsal, rehearse_bag
from oarpy.grid.submission.expected_ends import EndQuestion, ExpectedEnd, best, expected_ends
from oarpy.grid.submission.grid_draft import GridDraft
from oarpy.grid.submission.grid_options import GridOptions
from oarpy.grid.submission.grid_submission import read_draft
from oarpy.grid.submission.spread_rehearsal import SpreadRehearsal, rehearse_spread
from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.states import GridJobState, GridPartState
from oarpy.store.grid import clusters, door_sessions
from oarpy.store.grid.broker_jobs import GridComponentRow, GridJobRow, NewGridComponent, NewGridJob
from oarpy.store.grid.clusters import GridClusterRow

_MOST_AT_ONCE = 8
"""Users that may ask at one time: a door has places for them and for the broker's modules."""

GridOpening = Callable[[GridClusterRow], Cluster]
"""How a cluster of the table is opened."""


@dataclass(frozen=True, slots=True)
class GridRehearsal:
    """A job that was not stored, and when a component of it would end on each cluster that it may go to."""

    drafted: GridDraft
    ends: tuple[ExpectedEnd, ...]

    @property
    def refused(self) -> bool:
        """Tell whether the job can never run, by the clusters that answered.

        A job with named clusters needs all of them.
        """
        never = [end.end is None and not end.silent for end in self.ends]
        return any(never) if self.drafted.job.kind == "named" else all(never)

    def text(self) -> str:
        """Return it for people."""
        columns = (Column("Cluster"), Column("Expected end"), Column("Idle processors"), Column("Message"))
        lines = [Table(columns, tuple(map(_cells, self.ends))).text()]
        first = best(self.ends)
        if self.refused:
            lines.append("It can never run.\n")
        elif all(end.end is None for end in self.ends):
            lines.append("Nobody knows when it would end: no cluster that could run it answers.\n")
        elif first is not None and self.drafted.job.kind == "mapped":
            lines.append(f"It would end first on {first.cluster}.\n")
        return "".join(lines)

    def data(self) -> dict[str, JsonValue]:
        """Return it for programs; dates are epoch seconds, durations seconds."""
        first = best(self.ends)
        ends = [{"cluster": end.cluster, "end": end.end, "idle": end.idle, "error": end.error} for end in self.ends]
        return {
            "kind": self.drafted.job.kind,
            "copies": self.drafted.copies,
            "walltime": self.drafted.job.walltime,
            "deadline": self.drafted.job.deadline,
            "refused": self.refused,
            "best": None if first is None else first.cluster,
            "ends": ends,
        }


def rehearse(
    session: Session, options: GridOptions, opening: GridOpening | None = None
) -> GridRehearsal | SpreadRehearsal | BagRehearsal:
    """Return the predicted result of a submission; errors as :func:`read_draft`."""
    drafted, rows = read_draft(session, options)
    if drafted.processes is not None:
        raise UsageError("--processes with --dry-run", hint="its rates are measured where it is submitted")
    if drafted.metajob is not None:
        opening = opening or clusters_of(session.configuration.grid.name)
        return rehearse_spread(session, drafted, drafted.metajob, opening, _MOST_AT_ONCE)
    if drafted.bag is not None:
        if drafted.bag.profile:
            raise UsageError("--profile with --dry-run", hint="the profile is taken by jobs, before offers are made")
        opening = opening or clusters_of(session.configuration.grid.name)
        return rehearse_bag(session, drafted, drafted.bag, opening, _MOST_AT_ONCE)
    job = drafted.job
    if job.kind == "named":
        by_name = {row.name: row for row in rows}
        places = [(by_name[component.cluster or ""], component) for component in job.components]
    else:
        places = [(row, job.components[0]) for row in rows]
    return GridRehearsal(
        drafted,
        tuple(_ask(session, [(row, _request(job, component, row), "") for row, component in places], opening)),
    )


def ends_of(session: Session, view: GridJobView, opening: GridOpening | None = None) -> tuple[ExpectedEnd, ...]:
    """Return when a mapped job that waits would end where it is and elsewhere; nothing for other jobs."""
    waits = view.job.state in (GridJobState.SUBMITTED, GridJobState.MAPPED)
    if view.job.kind != "mapped" or not waits:
        return ()
    (component,), (part,) = view.components, view.parts
    there = part if part is not None and part.state is GridPartState.WAITING else None
    rows = [row for row in clusters.every(session.connection) if row.active or (there and row.name == there.cluster)]
    names = [there.name if there and row.name == there.cluster else "" for row in rows]
    requests = [(row, _request(view.job, component, row), name) for row, name in zip(rows, names, strict=True)]
    return tuple(_ask(session, requests, opening))


def _cells(end: ExpectedEnd) -> tuple[str, ...]:
    if end.error:
        return (end.cluster, "not known", "", one_line(end.error))
    return (end.cluster, local_date(end.end) or "never", "" if end.idle is None else str(end.idle), "")


def _request(
    job: NewGridJob | GridJobRow, component: NewGridComponent | GridComponentRow, row: GridClusterRow
) -> PartRequest:
    """Return a component's request to a cluster."""
    return PartRequest(
        job.user,
        component.resources,
        component.procs,
        job.walltime / row.speed,
        job.queue,
        component.properties,
        job.project,
        component.types,
    )


def _ask(
    session: Session, requests: Sequence[tuple[GridClusterRow, PartRequest, str]], opening: GridOpening | None
) -> list[ExpectedEnd]:
    """Ask clusters about requests, or about parts by name; a cluster that cannot be asked has the error."""
    with door_sessions.place_to_ask(session.connection, _MOST_AT_ONCE) as free:
        if free:
            return _answers(requests, opening or clusters_of(session.configuration.grid.name))
    busy = f"not asked: {_MOST_AT_ONCE} users ask clusters at present; try again"
    return [ExpectedEnd(row.name, error=busy, silent=True) for row, _, _ in requests]


def _answers(requests: Sequence[tuple[GridClusterRow, PartRequest, str]], opening: GridOpening) -> list[ExpectedEnd]:
    with _opened(requests, opening) as opened:
        questions = [
            EndQuestion(cluster, request, name, row.clock_ahead)
            for (row, request, name), cluster in zip(requests, opened, strict=True)
            if not isinstance(cluster, OarpyError)
        ]
        answers = iter(expected_ends(questions))
        return [
            ExpectedEnd(row.name, error=str(cluster)) if isinstance(cluster, OarpyError) else next(answers)
            for (row, _, _), cluster in zip(requests, opened, strict=True)
        ]


@contextmanager
def _opened(
    requests: Sequence[tuple[GridClusterRow, PartRequest, str]], opening: GridOpening
) -> Iterator[list[Cluster | OarpyError]]:
    """Yield the cluster of each row, or why it cannot be asked; close the clusters at the end.

    A request without a part gets no cluster that is closed to its user.
    """
    opened: list[Cluster | OarpyError] = []
    for row, request, part in requests:
        try:
            if not part and (closed := row.refusal_to(request.user)):
                raise CallRefused(closed)
            opened.append(opening(row))
        except OarpyError as error:
            opened.append(error)
    try:
        yield opened
    finally:
        for cluster in opened:
            if not isinstance(cluster, OarpyError):
                with suppress(OarpyError, OSError):
                    cluster.close()
