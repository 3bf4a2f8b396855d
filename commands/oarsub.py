"""oarsub: submit a job, an array of jobs, a reservation, or a finished job once more."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from oarpy.admission.rules.rules import RefusedByRule
from oarpy.client.boundary import run
from oarpy.client.caller import current
from oarpy.client.rendering import json_text, look, remark, say, show, warn, write
from oarpy.client.session import Session, open_session
from oarpy.client.submission import report, submission
from oarpy.client.submission.bags import BagAnswer, wait_for_promise
from oarpy.client.submission.command_line import OarsubCommand, given_options, with_options
from oarpy.client.submission.options import Options
from oarpy.client.submission.reservation_answer import ReservationAnswer, wait_for_answers
from oarpy.client.submission.submission import Submitted, submit
from oarpy.model.errors import AdmissionRefused, Unreachable, UsageError
from oarpy.model.submission import OPTIONS

if TYPE_CHECKING:
    from oarpy.client.submission.dry_run import PredictedStart

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def main() -> None:
    """Run oarsub on the arguments of the process."""
    run(app, "oarsub")


class InteractiveCommand(OarsubCommand):
    """``-X`` is XML, as with OAR, but windows for an interactive job."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the command by what ``-X`` means for it."""
        values = ctx.params
        if values["interactive"] and values["as_xml"] and "--xml" not in current().arguments:
            values["as_xml"], values["windows"] = False, True
        return super().invoke(ctx)


_ANSWER_TIMEOUT = 60.0
"""Seconds in which a pass answers."""
_LONGEST_NUMBER = 19
"""Digits that a number of the database may have."""


@app.command(cls=InteractiveCommand)
@with_options(OPTIONS)
def oarsub(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="Command or script, with its arguments.")
    ] = None,
    *,
    connect: Annotated[
        bool, typer.Option("-C", "--connect", help="Open a shell in a running job: oarsub -C [ID].")
    ] = False,
    windows: Annotated[
        bool, typer.Option("--x11", help="Show windows of an interactive job on your display, as ssh -X does: -I -X.")
    ] = False,
    scanscript: Annotated[
        bool,
        typer.Option(
            "-S", "--scanscript", help="Read the #OAR lines of the script: an executable file, or - for standard input."
        ),
    ] = False,
    ignore_directives: Annotated[
        bool,
        typer.Option(
            "--ignore-directives",
            help="With -S: leave out #SBATCH and #PBS lines about resources that have no counterpart.",
        ),
    ] = False,
    resubmit: Annotated[
        str | None, typer.Option("--resubmit", metavar="ID", help="Submit a finished job again.")
    ] = None,
    resubmit_failed: Annotated[
        str | None,
        typer.Option("--resubmit-failed", metavar="ARRAY", help="Submit the failed members of an array again."),
    ] = None,
    accept: Annotated[
        str | None,
        typer.Option("--accept", metavar="OFFER", help="Take a start that a refused reservation of yours was offered."),
    ] = None,
    answer_timeout: Annotated[
        float | None,
        typer.Option(
            "--answer-timeout",
            min=0,
            metavar="SECONDS",
            help="Wait so long for the answer to a reservation or a bag: 60, and for its profile besides.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be submitted, where and when it would run, and why; -v: rules."),
    ] = False,
    question: Annotated[
        str | None,
        typer.Option(
            "--question",
            metavar="FILE",
            help="With --dry-run of a reservation: write the question, counted, for oarpy decide FILE.",
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="End when the jobs are over, with their largest exit status; an interrupt leaves the jobs alone.",
        ),
    ] = False,
    launcher: Annotated[
        str | None,
        typer.Option(
            "--launcher",
            metavar="PROG",
            help="Have PROG choose the hosts of the job: it is run on the launchers' host.",
        ),
    ] = None,
    subscribe: Annotated[
        str | None,
        typer.Option("--subscribe", metavar="JSON", hidden=True, help="Make a job that negotiates; for launchers."),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch",
            metavar="FILE",
            help="Submit each line of FILE (- for standard input): options and a command, or JSON. All or none.",
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--every",
            metavar="RULE",
            help="Submit the same at each due time: mon 8:00, day 8:00, mon-fri 8:00, 1st 6:30, or an interval: 2h.",
        ),
    ] = None,
    no_hint: Annotated[
        bool, typer.Option("--no-hint", help="Propose no smaller request, whatever past jobs like this one used.")
    ] = False,
    parsable: Annotated[
        bool,
        typer.Option("--parsable", help="Print nothing but the id, for an array the id of the array."),
    ] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show what each admission rule changed.")] = False,
    **typed: Any,
) -> None:
    """Submit a job, an array of jobs with --array, or a finished job again with --resubmit."""
    options = replace(
        given_options(typed),
        words=tuple(command or ()),
        scan_script=scanscript,
        ignore_directives=ignore_directives,
    )
    _check_windows(options, asked=windows)
    if every is not None:
        once = {"-C": connect, "--wait": wait, "--dry-run": dry_run, "--resubmit": resubmit is not None}
        once |= {"--resubmit-failed": resubmit_failed is not None, "--accept": accept is not None}
        once |= {"--batch": batch is not None, "--launcher": launcher is not None, "--question": question is not None}
        _check_every({**once, "--subscribe": subscribe is not None})
        _begin_series(options, every, Form.JSON if as_json else Form.ID if parsable else Form.TEXT, verbose=verbose)
        return
    if wait and subscribe is None:
        _check_wait({"-C": connect, "--dry-run": dry_run, "-I": "interactive" in options.flags})
    if connect and subscribe is None:
        _connect(options, as_json=as_json)
    if subscribe is not None:
        given = (wait, connect, dry_run, resubmit, resubmit_failed, parsable, as_json, verbose, launcher)
        _subscribe(options, subscribe, given=given)
        return
    again = resubmit if resubmit is not None else resubmit_failed
    if resubmit is not None and resubmit_failed is not None:
        raise UsageError("--resubmit and --resubmit-failed exclude each other")
    new = {"--batch": batch is not None, "--dry-run": dry_run, "--launcher": launcher is not None}
    new["--bag"] = "bag" in options.texts
    new["--processes"] = "processes" in options.texts
    _check_offer(accept, options, {**new, "--resubmit": again is not None})
    _check_new(new, again=again is not None)
    _check_question(question, dry_run=dry_run)
    if batch is not None:
        _submit_batch(batch, options, given={"--wait": wait, "-v": verbose}, as_json=as_json)
        return
    with open_session("oarsub") as session:
        if dry_run:
            _rehearse(session, options, question, as_json=as_json, verbose=verbose)
            return
        if accept is not None:
            patience = _ANSWER_TIMEOUT if answer_timeout is None else answer_timeout
            submitted = _accept(session, accept, patience, as_json=as_json)
        elif again is not None:
            submitted = _submit_again(session, options, again, failed=resubmit is None)
        else:
            submitted = _submit(session, options, launcher, verbose=verbose)
        form = Form.JSON if as_json else Form.ID if parsable else Form.TEXT
        _show(session, submitted, _patience(session, submitted, answer_timeout), form, verbose=verbose)
        if submitted.kind is not None and not (as_json or no_hint):
            _propose(session, submitted)
    _stay(submitted, interactive="interactive" in options.flags, windows=windows, wait=wait, as_json=as_json)


def _stay(submitted: Submitted, *, interactive: bool, windows: bool, wait: bool, as_json: bool) -> None:
    """Stay with an interactive job, or until the jobs are over, if that was asked for."""
    if interactive:
        _hold_session(submitted.job_ids[0], as_json=as_json, windows=windows)
    if wait:
        _wait_for_ends(submitted)


def _check_every(others: Mapping[str, bool]) -> None:
    """Refuse --every beside options that submit nothing new, or that answer about jobs that are there now."""
    for word, given in others.items():
        if given:
            raise UsageError(f"--every with {word}", hint="leave one of both out: jobs come when they are due")


def _check_offer(text: str | None, options: Options, others: Mapping[str, bool]) -> None:
    """Refuse options beside an offer to take, which says all there is to ask for."""
    if text is None:
        return
    for word, given in {"other options or a command": options != Options(), **others}.items():
        if given:
            raise UsageError(f"--accept with {word}", hint="the offer says what is asked for; give only -J or --wait")
    if not (text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER):
        raise UsageError(f"--accept '{text[:80]}' is no number of an offer", hint="OAR_OFFER_ID=7: --accept 7")


def _accept(session: Session, offer: str, timeout: float, *, as_json: bool) -> Submitted:
    from oarpy.client.jobs.running.windows import WindowRefused
    from oarpy.client.submission.offers import accept

    try:
        return accept(session, int(offer), timeout)
    except WindowRefused as refused:
        answer = ReservationAnswer(
            refused.reservation.job, accepted=False, reason=refused.message, offers=refused.offers
        )
        stands = Submitted((answer.job_id,), is_array=False)
        document = report.record(stands, [answer], verbose=False) if as_json else None
        write(json_text(document) if document else report.offer_lines(answer.offers))
        raise


def _subscribe(options: Options, text: str, *, given: Sequence[object]) -> None:
    """Make a job whose launcher chooses its hosts, and print its id and its token."""
    from oarpy.negotiation.messages import Subscribe, Unreadable, read
    from oarpy.negotiation.requests import application_requests

    if any(value not in (None, False) for value in given):
        raise UsageError("options beside a subscription that say how oarsub answers", hint="leave them out")
    try:
        message = read(text.encode("utf-8", "surrogateescape"))
    except Unreadable as error:
        raise UsageError(f"--subscribe: {error}", hint="docs/negotiation.md has every message") from None
    if not isinstance(message, Subscribe):
        raise UsageError("--subscribe takes a message 'subscribe'", hint="docs/negotiation.md has every message")
    with open_session("oarsub") as session:
        caller = current()
        submitted, token = application_requests.subscribe(
            session, options, message, caller.arguments, caller.environment
        )
    write(json_text({"job": submitted.job_ids[0], "token": token}))


def _launch(session: Session, options: Options, launcher: str) -> Submitted:
    """Submit a job whose launcher the site runs. It needs no token: its user is known."""
    from oarpy.negotiation.requests import application_requests

    caller = current()
    submitted, _ = application_requests.launch(session, options, launcher, caller.arguments, caller.environment)
    return submitted


def _check_wait(others: Mapping[str, bool]) -> None:
    """Refuse --wait beside options that submit no job, or that wait themselves."""
    for word, given in others.items():
        if given:
            raise UsageError(f"--wait with {word}", hint="--wait is for jobs that are submitted with a command")


def _check_windows(options: Options, *, asked: bool) -> None:
    """Refuse -X without an interactive job, or without a display to show windows on."""
    if not asked:
        return
    if "interactive" not in options.flags:
        raise UsageError("--x11 without -I", hint="oarsh -X -j ID HOST shows windows of a job that runs")
    if not current().environment.get("DISPLAY"):
        raise UsageError("-X without a display: DISPLAY is not set", hint="leave -X out, or log in here with ssh -X")


def _check_new(given: Mapping[str, bool], *, again: bool) -> None:
    """Refuse two options of a new request together, and such an option beside --resubmit."""
    words = [word for word, is_given in given.items() if is_given]
    if words and again:
        raise UsageError(f"{words[0]} with --resubmit", hint="give the request instead")
    if len(words) > 1:
        hint = "a launcher asks for hosts when the job is there"
        if "--batch" in words:
            hint = "give the options of one line"
        if "--processes" in words:
            hint = "submit it by itself: its walltime follows when its rates are known"
        if "--bag" in words:
            hint = "submit it by itself: its answer is waited for, and oardel gives it up"
        raise UsageError(f"{words[0]} with {words[1]}", hint=hint)


def _check_question(path: str | None, *, dry_run: bool) -> None:
    """Refuse --question without --dry-run: the cluster itself answers the question of a real submission."""
    if path is not None and not dry_run:
        raise UsageError("--question without --dry-run", hint="oarsub --dry-run --question FILE -r START ...")


def _submit_again(session: Session, options: Options, named: str, *, failed: bool) -> Submitted:
    """Submit a job, or the failed members of an array, again."""
    if options != Options():
        raise UsageError("--resubmit with other options", hint="the job keeps its own; give only -J or -v")
    return (submission.resubmit_failed if failed else submission.resubmit)(session, named)


def _submit_batch(path: str, common: Options, *, given: Mapping[str, bool], as_json: bool) -> None:
    """Submit every line of a batch, or name the errors of all wrong lines."""
    from oarpy.client.submission.batch import batch_report
    from oarpy.client.submission.batch.batch_submission import BatchRefused, submit_batch
    from oarpy.client.submission.batch.lines import read_batch

    for word, is_given in given.items():
        if is_given:
            raise UsageError(f"--batch with {word}", hint="leave it out")
    if common.words:
        raise UsageError("--batch with a command", hint="each line of the batch has its own")
    with open_session("oarsub") as session:
        lines = read_batch(path, common)
        try:
            submitted = submit_batch(session, lines, current().environment)
        except BatchRefused as refused:
            for line in batch_report.fault_lines(path, refused):
                warn(line)
            raise
        for line in batch_report.remarks(submitted):
            remark(line)
        write(batch_report.json_lines(lines, submitted) if as_json else batch_report.text(submitted))


def _begin_series(options: Options, every: str, form: Form, *, verbose: bool) -> None:
    """Begin a series of recurring jobs, and print its number."""
    from oarpy.recurrence import reports, series

    caller = current()
    with open_session("oarsub") as session:
        begun = series.begin(session, options, every, caller.arguments, caller.environment)
        if form is Form.ID:
            write(f"{begun.number}\n")
        else:
            show(reports.begun_report(begun, verbose=verbose), as_json=form is Form.JSON)


def _connect(options: Options, *, as_json: bool) -> NoReturn:
    """Do what ``oarconnect`` does."""
    if options != Options(words=options.words) or len(options.words) > 1:
        raise UsageError("-C with other options or words", hint="oarsub -C [ID]")
    from oarpy.commands.oarconnect import oarconnect

    oarconnect(options.command, as_json=as_json)
    raise typer.Exit(0)


def _hold_session(job_id: int, *, as_json: bool, windows: bool) -> NoReturn:
    """Wait for the job, and give its user a shell there."""
    from oarpy.client.jobs import interactive

    raise typer.Exit(interactive.run_interactive(job_id, interactive.silent if as_json else say, windows=windows))


def _propose(session: Session, submitted: Submitted) -> None:
    """Say which smaller request past jobs like this one would have fitted in, if that starts earlier."""
    from oarpy.client.analytics.better_request import better_request

    if line := better_request(session, submitted):
        remark(line)


def _wait_for_ends(submitted: Submitted) -> NoReturn:
    """Wait for the ends of the jobs, and end as they did."""
    from oarpy.client.jobs import interactive

    raise typer.Exit(interactive.wait_for_ends(submitted.job_ids, submitted.array_id))


def _submit(session: Session, options: Options, launcher: str | None, *, verbose: bool) -> Submitted:
    if launcher is not None:
        return _launch(session, options, launcher)
    try:
        caller = current()
        return submit(session, options, caller.arguments, caller.environment)
    except RefusedByRule as refusal:
        if verbose:
            write("".join(f"{line}\n" for line in report.trace_lines(refusal.trace.lines())))
        raise


def _rehearse(session: Session, options: Options, question: str | None, *, as_json: bool, verbose: bool) -> None:
    """Print the result of a dry run; exit status 3 if the submission would be refused."""
    # imported here: the scheduler, with the numpy under it, is needed by dry runs alone
    from oarpy.client.submission import dry_run_report
    from oarpy.client.submission.dry_run import dry_run

    caller = current()
    rehearsed = dry_run(session, options, caller.arguments, caller.environment)
    if question is not None and rehearsed.prediction is not None:
        _write_question(question, rehearsed.prediction)
    shown = json_text(dry_run_report.record(rehearsed)) if as_json else dry_run_report.text(rehearsed, verbose=verbose)
    write(shown)
    if rehearsed.refused:
        raise typer.Exit(AdmissionRefused.exit_status)


def _write_question(path: str, prediction: PredictedStart) -> None:
    """Write the question of a reservation to the cluster, for ``oarpy decide``."""
    from oarpy.questions.counted_cluster import question_text

    if prediction.reservation is None:
        raise UsageError("--question without a reservation", hint="-r START, --until END, or both")
    if prediction.size > 1:
        raise UsageError("--question of an array", hint="each member is a question: leave --array out")
    rehearsed = prediction.rehearsed
    try:
        current().write_private(path, path, question_text(rehearsed.snapshot, rehearsed.job, rehearsed.matchers))
    except OSError as error:
        raise UsageError(f"'{path}' cannot be written: {error.strerror}", hint="name another file") from None


class Form(Enum):
    """The form of the answer: for people and scripts as OAR does, as JSON, or the id alone."""

    TEXT = "text"
    JSON = "json"
    ID = "id"


def _patience(session: Session, submitted: Submitted, given: float | None) -> float:
    """Return the seconds for which an answer is waited for."""
    if given is not None:
        return given
    profile = session.configuration.scheduler.profile_limit if submitted.is_bag and submitted.measuring else 0
    return _ANSWER_TIMEOUT + profile


def _show(session: Session, submitted: Submitted, timeout: float, form: Form, *, verbose: bool) -> None:
    """Print the jobs; for a reservation or a bag also the answer, exit status 3 when it is refused."""
    answers: list[ReservationAnswer] = []
    promise: BagAnswer | None = None
    tell = write if form is Form.TEXT else _aside
    if form is Form.ID:
        _aside("".join(f"{line}\n" for line in report.remarks(submitted)))
        write(f"{submitted.array_id if submitted.is_array else submitted.job_ids[0]}\n")
    elif form is Form.TEXT:
        write(report.text(submitted, verbose=verbose, brief=look().terminal))
    sys.stdout.flush()
    if submitted.reservation is not None or submitted.is_bag:
        if submitted.reservation is not None and form is not Form.JSON:
            tell("# Advance reservation request: waiting for validation...\n")
            sys.stdout.flush()
        try:
            if submitted.is_bag:
                promise = wait_for_promise(session.connection, submitted.array_id, timeout)
            else:
                answers = wait_for_answers(session.connection, submitted.job_ids, timeout)
        except Unreachable:
            if form is Form.JSON:
                write(json_text(report.record(submitted, (), verbose=verbose)))
            raise
    if form is Form.JSON:
        write(json_text(report.record(submitted, answers, verbose=verbose, bag=promise)))
    else:
        tell("".join(map(report.answer_text, answers)) + ("" if promise is None else report.promise_text(promise)))
    if not all(answer.accepted for answer in answers) or (promise is not None and promise.reason):
        raise typer.Exit(AdmissionRefused.exit_status)


def _aside(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
