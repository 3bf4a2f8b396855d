"""``oarstat``: what jobs are doing."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from oarpy.client.boundary import run
from oarpy.client.caller import current
from oarpy.client.options.documents import DocumentCommand
from oarpy.client.options.optional_values import OptionalValue, OptionalValueCommand
from oarpy.client.rendering import Color, Document, Look, Report, TwoForms, ids_text, look, show, warn, write
from oarpy.client.session import Session, open_session
from oarpy.model.errors import NotFound, UsageError

if TYPE_CHECKING:
    from oarpy.client.jobs.reports import Question, ReportText
    from oarpy.store.analytics.efficiency_rows import Step
    from oarpy.store.jobs.scope import JobScope

app = typer.Typer(add_completion=False, rich_markup_mode=None)

OWN = ""
"""The value of ``-u``, ``-j`` and ``--array`` given alone: the caller, the job one is in, every array."""


class OarstatCommand(OptionalValueCommand, DocumentCommand):
    """``-u``, ``-j``, ``--array`` and ``--gantt`` may come alone."""

    optional_values: ClassVar[Mapping[str, OptionalValue]] = {
        "-j": OptionalValue("--job"),
        "--job": OptionalValue("--job"),
        "-u": OptionalValue("--user"),
        "--user": OptionalValue("--user"),
        "--array": OptionalValue("--array"),
        "-g": OptionalValue("--gantt", r"[^-]|-\d"),
        "--gantt": OptionalValue("--gantt", r"[^-]|-\d"),
        "--graph": OptionalValue("--graph", r"(text|dot)\Z"),
    }


@dataclass(frozen=True, slots=True)
class StatusView:
    """The wanted report, and its form."""

    full: bool
    state: bool
    as_json: bool
    arrays: bool
    compact: bool
    events: bool
    properties: bool
    layout: str
    look: Look
    graph: str | None

    @property
    def for_people(self) -> bool:
        """True if it is a list that people read."""
        return not self.as_json and self.graph is None and self.layout not in ("csv", "ids")


@app.command(cls=OarstatCommand)
def oarstat(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JOB_ID...",
            help="Jobs to show: ids, 12-20, last, @name, state:Running, user:ann,bob; another word is a queue.",
        ),
    ] = None,
    jobs: Annotated[
        list[str] | None,
        typer.Option(
            "-j", "--job", metavar="[ID]", help="Show this job, ended or not; alone: $OAR_JOB_ID; repeatable."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("-f", "--full", help="Show everything, as key = value lines.")] = False,
    state: Annotated[bool, typer.Option("-s", "--state", help="Show the state alone, as ID: State.")] = False,
    user: Annotated[
        str | None, typer.Option("-u", "--user", metavar="[USER]", help="Show the jobs of this user; alone: yours.")
    ] = None,
    arrays: Annotated[
        list[str] | None,
        typer.Option("--array", metavar="[ID]", help="Show this array, ended or not, with its columns; repeatable."),
    ] = None,
    compact: Annotated[bool, typer.Option("-c", "--compact", help="Show an array on one line, as N@ARRAY.")] = False,
    gantt: Annotated[
        str | None,
        typer.Option(
            "-g", "--gantt", metavar="['D1, D2']", help="Show who holds what between two dates; alone: from now on."
        ),
    ] = None,
    events: Annotated[bool, typer.Option("-e", "--events", help="Show the events of the jobs.")] = False,
    properties: Annotated[
        bool, typer.Option("-p", "--properties", help="Show the properties of the resources of the jobs.")
    ] = False,
    accounting: Annotated[
        str | None,
        typer.Option("--accounting", metavar="'D1, D2'", help="Show consumption between dates, or of a day."),
    ] = None,
    top: Annotated[
        bool, typer.Option("--top", help="Show the list and renew it as things happen, until q or ctrl-C.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="With --top: show it once and end.")] = False,
    failures: Annotated[
        str | None,
        typer.Option("--failures", metavar="ARRAY", help="Show what failed in this array, by cause and node."),
    ] = None,
    bag: Annotated[
        str | None,
        typer.Option("--bag", metavar="ID", help="Show this bag: its tasks, what was promised, and how that changed."),
    ] = None,
    script: Annotated[
        str | None,
        typer.Option("--script", metavar="ID", help="Print the script of this job of yours, as it was submitted."),
    ] = None,
    recurring: Annotated[
        bool, typer.Option("--recurring", help="Show the recurring jobs that go on, or those with these ids.")
    ] = False,
    efficiency: Annotated[
        bool, typer.Option("--efficiency", help="Show what jobs used of what they held: of named jobs, or by week.")
    ] = False,
    project: Annotated[
        str | None, typer.Option("--project", metavar="PROJECT", help="With --efficiency: of this project, by week.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="day|week", help="With --efficiency: by day, or by week.")
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option("--graph", metavar="[text|dot]", help="Draw the jobs and what they wait for; dot: for Graphviz."),
    ] = None,
    condition: Annotated[
        str | None,
        typer.Option("--sql", metavar="CONDITION", help="Show jobs, ended or not, that meet a condition on columns."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="DATE|AGE", help="Show jobs that ended since then, too: yesterday, 2h, a date."
        ),
    ] = None,
    why: Annotated[
        str | None,
        typer.Option("--why", metavar="ID", help="Say why this job waits, and what would let it start earlier."),
    ] = None,
    priority: Annotated[
        str | None,
        typer.Option("--priority", metavar="ID", help="Show the rank of this job and the numbers behind it."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="DATE", help="Show jobs, --gantt or --why as they were at this date."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="ID", help="With --why: say why this job was started before the other."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print each change as it comes; of named jobs, until all are over.")
    ] = False,
    layout: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="1|2|3|csv|ids", help="Text format; default $OAR_OARSTAT_OUTPUT_FORMAT, or 2."
        ),
    ] = None,
    complete: Annotated[
        str | None, typer.Option("--complete", metavar="KIND", hidden=True, help="For the tab key: words of a kind.")
    ] = None,
    color: Color = "auto",
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Show jobs that have not ended, or the jobs asked for."""
    if before is not None or (at is not None and why is not None):
        _show_past_verdict(why, at, before, as_json=as_json)
        return
    if why is not None or priority is not None:
        _show_standing(why, priority, words or [], as_json=as_json)
        return
    if complete is not None:
        _show_words(complete)
        return
    if recurring:
        _show_series(words or [], user, as_json=as_json)
        return
    if bag is not None or script is not None or failures is not None:
        _show_one(bag, script, failures, look(color), as_json=as_json)
        return
    from oarpy.client.jobs.job_table import DEFAULT_FORMAT, check_format
    from oarpy.client.jobs.selection import parse_user

    whose = None if user is None else parse_user(user)
    if gantt is not None and accounting is not None:
        raise UsageError("--gantt and --accounting exclude each other")
    chosen = check_format(layout or current().environment.get("OAR_OARSTAT_OUTPUT_FORMAT") or DEFAULT_FORMAT)
    view = StatusView(full, state, as_json, arrays is not None, compact, events, properties, chosen, look(color), graph)
    if gantt is not None or accounting is not None:
        _show_period(gantt, accounting, whose, at, as_json=as_json)
        return
    question, queue = _question(words or [], jobs or [], arrays or [], condition, since)
    if efficiency or project is not None or by is not None:
        _show_efficiency(question, whose, project, by, view, given=efficiency)
        return
    if watch:
        _watch(question, whose, queue, as_json=as_json)
        return
    if top:
        _show_top(question, whose, queue, view.look, once=once)
        return
    with open_session("oarstat") as session:
        _show_jobs(session, question, whose, queue, view, at)


def _question(
    words: list[str], jobs: list[str], arrays: list[str], condition: str | None, since: str | None
) -> tuple[Question, str | None]:
    """Return which jobs are meant and the queue named, if any."""
    from oarpy.client.jobs.reports import Question
    from oarpy.client.jobs.selection import is_selector, parse_condition, parse_ids, parse_words
    from oarpy.client.past.periods import parse_since

    named = [word for word in words if is_selector(word)]
    queues = [word for word in words if not is_selector(word)]
    if len(queues) > 1:
        raise UsageError(
            f"'{queues[1][:60]}' is not a job id",
            hint="an id, 12-20, last, @name, state:Running, user:ann or one queue",
        )
    if OWN in jobs:
        own = current().environment.get("OAR_JOB_ID")
        if not own:
            raise UsageError("-j without a job id", hint="OAR_JOB_ID is not set, so no job is meant")
        jobs = [*filter(None, jobs), own]
    selection = replace(
        parse_words([*named, *jobs]),
        array_ids=parse_ids([array for array in arrays if array != OWN], "array"),
        condition=None if condition is None else parse_condition(condition),
        since=None if since is None else parse_since(since),
    )
    return Question(selection), (queues[0] if queues else None)


def _show_jobs(
    session: Session, question: Question, user: str | None, queue: str | None, view: StatusView, at: str | None
) -> None:
    from oarpy.client.jobs import reports
    from oarpy.client.jobs.selection import JobSelection

    settled = reports.settled(session, question, user, queue)
    if at is not None:
        _show_then(session, settled, view, at)
        return
    report = _report(session, settled, view)
    _print(report)
    if not report.has_jobs and view.for_people:
        if note := reports.nothing_found(settled):
            warn(f"oarstat: {note}")
        elif sys.stderr.isatty() and question.selection == JobSelection():
            warn("oarstat: no jobs wait or run; oarstat -j ID shows ended ones")


def _show_then(session: Session, question: Question, view: StatusView, at: str) -> None:
    """Print jobs as they were."""
    from oarpy.client.past import past_cluster
    from oarpy.client.past.periods import parse_past_date

    if view.full or view.events or view.properties or view.arrays or view.compact or view.graph:
        raise UsageError("--at shows a line a job, -s or -J", hint="leave -f, -e, -p, -c, --graph and --array out")
    moment = parse_past_date(at)
    if view.state:
        write(past_cluster.states(session, moment, question))
    elif view.as_json:
        write(past_cluster.document(session, moment, question))
    else:
        write(past_cluster.listing(session, moment, question, view.layout, view.look))


def _show_past_verdict(why: str | None, at: str | None, before: str | None, *, as_json: bool) -> None:
    """Say why a job waited at a date, or why another was started before it."""
    from oarpy.client.jobs.selection import one_job, parse_one
    from oarpy.client.past import past_cluster, precedence
    from oarpy.client.past.periods import parse_past_date

    if why is None or (at is not None and before is not None):
        raise UsageError("--before goes with --why, and not with --at", hint="oarstat --why MINE --before OTHER")
    with open_session("oarstat") as session:
        job = one_job(session, parse_one(why))
        if at is not None:
            show(past_cluster.why(session, job, parse_past_date(at)), as_json=as_json)
        else:
            other = one_job(session, parse_one(before or ""))
            show(precedence.report(precedence.precedence(session, job, other)), as_json=as_json)


def _watch(question: Question, user: str | None, queue: str | None, *, as_json: bool) -> None:
    """Print changes until the jobs are over, or the reader goes."""
    from oarpy.client.events.watching import Watched, watch_jobs
    from oarpy.client.jobs import reports
    from oarpy.client.jobs.selection import JobSelection

    def find(session: Session) -> Watched:
        if queue is not None:
            known = reports.known_queue(session, queue)
            raise UsageError(f"--watch of queue '{known}'", hint="name jobs, or -u USER")
        chosen = question.selection.resolved(session)
        whose = session.user if user == OWN else user
        if whose is not None:
            reports.require_users(session, [whose] if whose != session.user else [])
        meant = reports.Question(chosen)
        named = frozenset() if chosen == JobSelection() else frozenset(reports.chosen_ids(session, meant))
        if chosen != JobSelection() and not named:
            raise NotFound(reports.nothing_found(meant), hint="oarstat lists the jobs")
        return Watched(named, whose)

    watch_jobs(find, as_json=as_json)


def _report(session: Session, question: Question, view: StatusView) -> ReportText:
    from oarpy.client.jobs import reports

    if view.graph is not None:
        return reports.graph(session, question, view.graph, as_json=view.as_json)
    if view.state:
        return reports.states(session, question, as_json=view.as_json)
    if view.events:
        return reports.event_log(session, question, as_json=view.as_json)
    if view.properties:
        return reports.assigned_properties(session, question, as_json=view.as_json)
    if view.full or view.as_json:
        return reports.full(session, question, as_json=view.as_json, complete=view.full)
    return reports.listing(session, question, view.layout, view.look, arrays=view.arrays, compact=view.compact)


def _show_standing(why: str | None, priority: str | None, others: Sequence[str], *, as_json: bool) -> None:
    """Explain jobs: why they wait, or where they stand. JSON is an object for one job, a list for several."""
    from oarpy.client.jobs.selection import one_job, parse_one

    if why is not None and priority is not None:
        raise UsageError("--why and --priority exclude each other")
    chosen = [parse_one(word) for word in (why if why is not None else priority or "", *others)]
    with open_session("oarstat") as session:
        # imported when the connection stands: the scheduler, with the numpy under it, is needed here alone
        from oarpy.client.jobs import explanation, explanation_report
        from oarpy.client.jobs.views import priority_report

        jobs = [one_job(session, selection) for selection in chosen]
        if why is not None:
            reports: Sequence[Report[Document]] = [
                explanation_report.report(explanation.explain(session, job)) for job in jobs
            ]
        else:
            reports = [priority_report.report(priority_report.priority(session, job)) for job in jobs]
    several = TwoForms(
        lambda: "\n".join(report.text() for report in reports), lambda: [report.data() for report in reports]
    )
    show(several if others else reports[0], as_json=as_json)


def _show_top(question: Question, user: str | None, queue: str | None, seen: Look, *, once: bool) -> None:
    from oarpy.client.jobs import reports
    from oarpy.client.jobs.views import live_view

    def find(session: Session) -> JobScope:
        return reports.settled(session, question, user, queue).scope()

    if not once:
        live_view.follow(find, seen)
        return
    with open_session("oarstat") as session:
        write("".join(f"{line}\n" for line in live_view.frame(session, find(session), seen)))


def _show_words(kind: str) -> None:
    """Print the words of a kind, one a line, for the tab key; nothing for an unknown kind."""
    from oarpy.store.jobs.job_listing import WORD_KINDS, words

    if kind in WORD_KINDS:
        with open_session("oarstat") as session:
            write(ids_text(words(session.connection, kind, session.user)))


def _show_one(bag: str | None, script: str | None, failures: str | None, seen: Look, *, as_json: bool) -> None:
    """Show a bag, else the script of a job, else the failures of an array."""
    if bag is not None:
        _show_bag(bag, as_json=as_json)
    elif script is not None:
        _show_script(script, as_json=as_json)
    elif failures is not None:
        _show_failures(failures, seen, as_json=as_json)


def _show_bag(number: str, *, as_json: bool) -> None:
    from oarpy.client.jobs.selection import one_array, parse_one
    from oarpy.client.jobs.views import bag_report

    chosen = parse_one(number)
    with open_session("oarstat") as session:
        show(bag_report.report(bag_report.bag_state(session, one_array(session, chosen))), as_json=as_json)


def _show_series(words: list[str], user: str | None, *, as_json: bool) -> None:
    from oarpy.client.jobs.selection import parse_ids, parse_user
    from oarpy.recurrence import reports, series

    numbers = parse_ids(words, "recurring job")
    whose = None if user is None else parse_user(user)
    with open_session("oarstat") as session:
        rows = series.shown(session, numbers, session.user if whose == OWN else whose)
        show(reports.series_report(session, rows), as_json=as_json)


def _show_script(job: str, *, as_json: bool) -> None:
    from oarpy.client.jobs import job_views
    from oarpy.client.jobs.selection import one_job, parse_one

    chosen = parse_one(job)
    with open_session("oarstat") as session:
        text = job_views.script(session, one_job(session, chosen))
    show(TwoForms(lambda: text, lambda: {"script": text}), as_json=as_json)


def _show_failures(array: str, seen: Look, *, as_json: bool) -> None:
    from oarpy.client.jobs.selection import one_array, parse_one
    from oarpy.client.jobs.views.failures import failures

    chosen = parse_one(array)
    with open_session("oarstat") as session:
        show(failures(session, one_array(session, chosen), seen), as_json=as_json)


def _show_efficiency(
    question: Question, user: str | None, project: str | None, by: str | None, view: StatusView, *, given: bool
) -> None:
    """Show the use of resources: by the selected jobs, else by day or week; of the caller if no user is named."""
    from oarpy.client.jobs import reports
    from oarpy.client.jobs.selection import JobSelection
    from oarpy.client.jobs.views import efficiency

    if not given:
        raise UsageError("--project and --by go with --efficiency", hint="oarstat --efficiency --project P")
    if by not in (None, "day", "week"):
        raise UsageError(f"--by {by[:20]!r} is not day or week", hint="oarstat --efficiency --by day")
    named = question.selection != JobSelection()
    if named and (user is not None or project is not None or by is not None):
        raise UsageError("--efficiency of jobs and by period exclude each other", hint="jobs, or -u, --project, --by")
    with open_session("oarstat") as session:
        if named:
            chosen = question.selection.resolved(session)
            ids = reports.chosen_ids(session, reports.Question(chosen))
            show(efficiency.of_jobs(session, ids, view.look), as_json=view.as_json)
            return
        whose = session.user if user == OWN or (user is None and project is None) else user
        if whose is not None and whose != session.user:
            reports.require_users(session, [whose])
        step: Step = "day" if by == "day" else "week"
        show(efficiency.of_periods(session, step, whose, project, view.look), as_json=view.as_json)


def _show_period(gantt: str | None, accounting: str | None, user: str | None, at: str | None, *, as_json: bool) -> None:
    from oarpy.client.past import past_cluster, period_reports
    from oarpy.client.past.periods import parse_past_date, parse_period

    if accounting is not None and at is not None:
        raise UsageError("--accounting and --at exclude each other", hint="its second date says until when it counts")

    from_now_on = gantt == OWN and at is None
    wanted = None if from_now_on else parse_period(gantt if gantt is not None else accounting or "")
    with open_session("oarstat") as session:
        period = wanted or period_reports.to_come(session)
        whose = session.user if user == OWN else user
        if at is not None:
            show(past_cluster.gantt(session, parse_past_date(at), period, whose), as_json=as_json)
        elif gantt is not None:
            show(period_reports.gantt(session, period, whose), as_json=as_json)
        else:
            show(period_reports.accounting(session, period, whose), as_json=as_json)


def _print(report: ReportText) -> None:
    write(report.text)
    if report.failure is not None:
        raise report.failure


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarstat")
