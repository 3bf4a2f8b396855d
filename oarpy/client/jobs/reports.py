"""The output of ``oarstat``, as text: which jobs, then how they are rendered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from oarpy.client import rendering
from oarpy.client.jobs import description, job_table
from oarpy.client.jobs.job_views import may_look_into
from oarpy.client.jobs.selection import JobSelection, missing
from oarpy.client.jobs.views import dependency_graph
from oarpy.client.platform.resource_text import properties_of, resource_json, shown
from oarpy.client.rendering import JsonValue, Look
from oarpy.client.session import Session, has_account
from oarpy.model.errors import NotFound, UsageError
from oarpy.store import events
from oarpy.store.jobs import details, job_listing, scope
from oarpy.store.jobs.scope import JobScope
from oarpy.store.platform import queues, resources


@dataclass(frozen=True, slots=True)
class Question:
    """A selection of jobs, perhaps of one queue only."""

    selection: JobSelection
    queue: str | None = None

    def scope(self) -> JobScope:
        """Return the same as the store reads it."""
        return replace(self.selection.scope(live=not self.selection.wants_ended), queue=self.queue)


def settled(session: Session, question: Question, user: str | None, queue: str | None) -> Question:
    """Return the question with the value of ``-u`` (empty: the caller) and a queue; raise :class:`NotFound`."""
    chosen = question.selection.resolved(session, ended=True)
    if user is not None:
        chosen = replace(chosen, users=(*chosen.users, user or session.user))
    require_users(session, [name for name in chosen.users if name != session.user])
    return Question(chosen, None if queue is None else known_queue(session, queue))


@dataclass(frozen=True, slots=True)
class ReportText:
    """Text to print, and the error to end with once it is printed (ids that do not exist).

    ``has_jobs`` is False if there is no job to print.
    """

    text: str
    failure: NotFound | None = None
    has_jobs: bool = True


def listing(
    session: Session, question: Question, layout: str, seen: Look, *, arrays: bool, compact: bool
) -> ReportText:
    """Return one line a job."""
    with _reached(session, question):
        jobs = job_listing.listing(session.connection, question.scope())
        failure = _missing(session, question)
    if layout == "ids":
        return _report(rendering.ids_text(job.job_id for job in jobs), bool(jobs), failure)
    now = job_listing.database_time(session.connection)
    if compact and seen.terminal:
        progress = job_listing.array_progress(session.connection, [job.array_id for job in jobs])
        table = job_table.progress_table(jobs, progress, layout, now, seen)
    elif compact:
        table = job_table.compact_table(jobs, layout, now)
    else:
        table = job_table.job_table(jobs, layout, now, seen, arrays=arrays)
    return _report(table.csv() if layout == "csv" else table.text(seen), bool(jobs), failure)


def states(session: Session, question: Question, *, as_json: bool) -> ReportText:
    """Return ``ID: State`` a line, or one JSON object of them."""
    with _reached(session, question):
        pairs = job_listing.states(session.connection, question.scope())
        failure = _missing(session, question)
    if as_json:
        text = rendering.json_text({str(job): state for job, state in pairs})
    else:
        text = "".join(f"{job}: {state}\n" for job, state in pairs)
    return _report(text, bool(pairs), failure)


def full(session: Session, question: Question, *, as_json: bool, complete: bool) -> ReportText:
    """Return everything on each job; ``complete`` adds to the JSON the environment of jobs the caller may look into."""
    environments: dict[int, Mapping[str, str]] = {}
    with _reached(session, question):
        jobs = details.details(session.connection, question.scope(), session.configuration.scheduler.reservation_notice)
        failure = _missing(session, question)
        if as_json and complete:
            seen = [job.row.job_id for job in jobs if may_look_into(session, job.row.user)]
            environments = details.environments(session.connection, seen)
    if not as_json:
        text = "\n".join(description.as_text(job, private=may_look_into(session, job.row.user)) for job in jobs)
        return _report(text, bool(jobs), failure)
    document: dict[str, description.JobDocument] = {}
    for job in jobs:
        shown = environments.get(job.row.job_id, {}) if complete else None
        document[str(job.row.job_id)] = description.as_json(
            job, private=may_look_into(session, job.row.user), environment=shown
        )
    return _report(rendering.json_text(document), bool(jobs), failure)


def graph(session: Session, question: Question, form: str, *, as_json: bool) -> ReportText:
    """Return the jobs with the jobs that they wait for and their dependants; of all live jobs, the connected ones."""
    if form not in ("", *dependency_graph.FORMS):
        raise UsageError(f"'{form[:40]}' is no form of a graph", hint=" or ".join(dependency_graph.FORMS))
    with _reached(session, question):
        failure = _missing(session, question)
        dependencies = job_listing.dependencies(session.connection, question.scope())
        ends = {number for dependency in dependencies for number in (dependency.job, dependency.required)}
        if question.selection.names_jobs:
            ends |= {job for job, _ in job_listing.states(session.connection, question.scope())}
        jobs = job_listing.listing(session.connection, JobScope(tuple(ends), live=False)) if ends else ()
    drawn = dependency_graph.DependencyGraph(jobs, dependencies)
    if as_json:
        return _report(rendering.json_text(drawn.document()), bool(jobs), failure)
    text = drawn.dot() if form == "dot" else drawn.text(unicode=rendering.speaks_unicode())
    return _report(text, bool(jobs), failure)


def event_log(session: Session, question: Question, *, as_json: bool) -> ReportText:
    """Return the events of each job."""
    with _reached(session, question):
        ids, failure = _ids(session, question)
        by_job = events.job_events(session.connection, ids)
    if as_json:
        document = {str(job): [description.event_json(event) for event in by_job.get(job, ())] for job in ids}
        return _report(rendering.json_text(document), bool(ids), failure)
    lines = (f"[{job}] {description.event_line(event)}" for job in ids for event in by_job.get(job, ()))
    return _report("".join(lines), bool(ids), failure)


def assigned_properties(session: Session, question: Question, *, as_json: bool) -> ReportText:
    """Return the properties of the resources each job holds or held, a line a resource."""
    with _reached(session, question):
        ids, failure = _ids(session, question)
        rows = resources.of_jobs(session.connection, ids)
    if as_json:
        document: dict[str, list[JsonValue]] = {str(job): [] for job in ids}
        for job, row in rows:
            document[str(job)].append(resource_json(row))
        return _report(rendering.json_text(document), bool(ids), failure)
    lines = []
    for _, row in rows:
        pairs = (f"{name} = '{shown(value)}'" for name, value in properties_of(row).items() if value is not None)
        lines.append(rendering.one_line(" , ".join(pairs)) + "\n")
    return _report("".join(lines), bool(ids), failure)


def chosen_ids(session: Session, question: Question) -> tuple[int, ...]:
    """Return the jobs that are meant; raise :class:`NotFound` for an id that names none."""
    with _reached(session, question):
        ids, failure = _ids(session, question)
    if failure is not None:
        raise failure
    return tuple(ids)


def known_queue(session: Session, name: str) -> str:
    """Return ``name`` if it is a queue, else raise :class:`NotFound`."""
    names = [queue.name for queue in queues.queues(session.connection)]
    if name not in names:
        raise NotFound(f"there is no queue '{name[:60]}'", hint="one of " + ", ".join(names))
    return name


def require_users(session: Session, names: Sequence[str]) -> None:
    """Raise :class:`NotFound` for a name that is neither an account here nor the owner of a job."""
    for name in names:
        if not has_account(name) and not scope.has_jobs(session.connection, name):
            raise NotFound(f"there is no user '{name[:60]}'", hint="a login name")


def _reached(session: Session, question: Question) -> AbstractContextManager[None]:
    """Let queries inside find every requested job, past jobs too."""
    return scope.reached(session.connection, question.scope())


def _ids(session: Session, question: Question) -> tuple[list[int], NotFound | None]:
    pairs = job_listing.states(session.connection, question.scope())
    ids = [job for job, _ in pairs]
    return ids, _missing(session, question)


def nothing_found(question: Question) -> str:
    """Say that no job meets the request; empty if nothing was requested."""
    chosen = question.selection
    parts = [
        f"{word} {', '.join(values)}"
        for word, values in (
            ("of", chosen.users),
            ("in state", chosen.states),
            ("in queue", [question.queue] if question.queue else []),
            ("named", chosen.names),
        )
        if values
    ]
    parts += ["that meets the condition"] if chosen.condition else []
    return f"no {'' if chosen.wants_ended else 'waiting or running '}job {' '.join(parts)}" if parts else ""


def _missing(session: Session, question: Question) -> NotFound | None:
    return missing(session, question.selection, live=not question.selection.wants_ended)


def _report(text: str, any_found: bool, failure: NotFound | None) -> ReportText:
    """Print nothing at all when every job asked for is missing."""
    return ReportText(text if any_found or failure is None else "", failure, any_found)
