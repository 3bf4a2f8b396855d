"""Jobs that their user waits for: until an interactive one starts, for a shell on its first node; until others end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from oarpy.client.caller import Streams, current
from oarpy.client.events.listening import wait
from oarpy.client.jobs import job_steps
from oarpy.client.jobs.actions import delete
from oarpy.client.jobs.job_steps import RunningJob
from oarpy.client.jobs.selection import JobSelection, one_job, parse_one
from oarpy.client.rendering import local_date, one_line
from oarpy.client.session import Session, open_session
from oarpy.frontend.windowed_shell import WAIT_FOR_STATUS
from oarpy.model.errors import NotFound, OarpyError, UsageError
from oarpy.model.states import FINAL_STATES, JobState
from oarpy.store.database import Connection, reachable
from oarpy.store.jobs import requests
from oarpy.store.jobs.requests import FinishedJob, Progress
from oarpy.store.notifications import EVENTS, Ear

_POLL = 1.0
"""Seconds between two looks when no notification arrives."""

_PAUSE = 0.1
"""Seconds between two looks however many notifications arrive."""

_LOOK_PERIOD = 15.0
"""Seconds between two looks of a command that may keep no connection to the database meanwhile."""

_UNHEARD = 60.0
"""Seconds after which ends are looked for even without a notification."""

_LEAST_CHANGE, _LEAST_SHARE = 60.0, 0.1
"""The least change of a prediction, in seconds and as a share of the wait, at which its user sees it again."""

_ENDS = frozenset(f"job {state}" for state in FINAL_STATES)
"""The announcements of the ends of jobs."""

_OVER = FINAL_STATES | {JobState.TO_ERROR, JobState.FINISHING}

Say = Callable[[str], None]
"""Takes a line for the user, to be shown at once."""


def run_interactive(job_id: int, say: Say, *, windows: bool = False) -> int:
    """Wait until a job of kind INTERACTIVE runs, give its user a shell there, and return the shell's exit status.

    The job ends with the shell. If the user leaves before it runs, by an interrupt or otherwise, the job is deleted.
    ``windows``: the shell is one of ssh, which shows windows of the job on the user's display.
    """
    with ExitStack() as stack:
        with _deleted_when_left(job_id, say):
            say("# Interactive mode: waiting...")
            streams = stack.enter_context(current().attached())
            job = _StartWait(job_id, streams, say).job()
            say("# Starting...")
        shell = _windowed_shell if windows else _shell
        status = shell(job, streams, say, lead=True)
    say(f"# Disconnected from OAR job {job_id}")
    return status


def wait_for_ends(job_ids: Sequence[int], array: int) -> int:
    """Wait until these jobs are over, and return the largest of their exit statuses. Leaving early does not end them.

    A line on standard error describes failures: for one job the reason, for several their number and the command that
    shows more.
    """
    left, bad = set(job_ids), dict[int, FinishedJob]()
    with current().attached() as streams:
        while True:
            hears = current().may_keep_connection()
            with open_session("oarsub") as session:
                ear = Ear(session.connection, EVENTS)
                while True:
                    for end in requests.ends(session.connection, sorted(left)):
                        left.remove(end.job)
                        if _exit_status(end):
                            bad[end.job] = end
                    if not left:
                        break
                    if not hears:
                        break
                    _hear_of_an_end(ear, streams)
            if not left:
                break
            wait(_LOOK_PERIOD, [], streams)
        if bad:
            streams.send(2, f"oarsub: {_bad_ends(len(job_ids), list(bad.values()), array)}\n".encode())
    return max(map(_exit_status, bad.values()), default=0)


def _exit_status(end: FinishedJob) -> int:
    """Return the exit status of a job, as a shell would give it; a job that did not end well never has 0."""
    status = 0 if end.status is None else job_steps.exit_status(end.status)
    return status if end.state == JobState.TERMINATED else max(status, 1)


def _bad_ends(jobs: int, bad: Sequence[FinishedJob], array: int) -> str:
    """Say which of the ``jobs`` (a number) failed, or why the only one did."""
    if jobs > 1:
        return f"{len(bad)} of {jobs} jobs failed: oarstat --failures {array}"
    (end,) = bad
    if end.state is None:
        return f"job {end.job} is gone"
    status = "no exit status" if end.status is None else f"exit {_exit_status(end)}"
    # the summary of the request stays in the message of a job without any other message
    reasons = [part for part in (end.message or "").split("; ") if not part.startswith("R=")]
    return one_line(", ".join(filter(None, (f"job {end.job}: {status}", "; ".join(reasons)))))


def _hear_of_an_end(ear: Ear, streams: Streams) -> None:
    """Return when some job has ended, or after a while: a notification may be missed."""
    deadline = time.monotonic() + _UNHEARD
    while _ENDS.isdisjoint(ear.drain()) and (seconds := deadline - time.monotonic()) > 0:
        if wait(seconds, [ear.fileno()], streams):
            ear.listen()
    wait(_PAUSE, [], streams)


def connect(chosen: JobSelection | None, say: Say) -> tuple[int, int]:
    """Open a shell in a running job of the caller (None: the only one); return the job and the exit status."""
    with open_session("oarconnect") as session:
        job = job_steps.running_job(session, _only_job(session) if chosen is None else one_job(session, chosen))
    with current().attached() as streams:
        status = _shell(job, streams, say, lead=False)
    say(f"# Disconnected from OAR job {job.launch.spec.job}")
    return job.launch.spec.job, status


def silent(line: str) -> None:
    """Take a line and show nothing, for a caller that wants JSON."""


def parse_job(text: str) -> JobSelection | None:
    """Return the job that the word names, None for an empty one; raise :class:`UsageError`."""
    return parse_one(text) if text else None


def _only_job(session: Session) -> int:
    running = requests.running_jobs(session.connection, session.user)
    if not running:
        raise NotFound(f"no job of '{session.user}' runs", hint="oarsub -I starts an interactive one")
    if len(running) > 1:
        listed = ", ".join(map(str, running[:20])) + (", ..." if len(running) > 20 else "")
        raise UsageError(f"{len(running)} jobs of '{session.user}' run: {listed}", hint="name one of them")
    return running[0]


def _shell(job: RunningJob, streams: Streams, say: Say, *, lead: bool) -> int:
    say(f"# Connect to OAR job {job.launch.spec.job} via the node {job.nodes[0].name}")
    with job_steps.steps_of(job) as steps:
        terminal = job_steps.open_terminal(streams, current().environment)
        spec = job_steps.step_spec(job, job.nodes[0], "", terminal=terminal, lead=lead)
        return job_steps.exit_status(job_steps.relay(steps, steps.start(job.nodes[0], spec), streams))


def _windowed_shell(job: RunningJob, streams: Streams, say: Say, *, lead: bool) -> int:
    """Have the caller's ssh be the shell, and a step wait for its exit status."""
    number, node = job.launch.spec.job, job.nodes[0]
    say(f"# Connect to OAR job {number} via the node {node.name}")
    with job_steps.steps_of(job) as steps:
        step = steps.start(node, job_steps.step_spec(job, node, WAIT_FOR_STATUS, lead=lead))
        streams.open_shell(number, node.name)
        return job_steps.exit_status(job_steps.relay(steps, step, streams))


class _StartWait:
    """The wait for the start of an interactive job."""

    def __init__(self, job_id: int, streams: Streams, say: Say) -> None:
        self._job_id = job_id
        self._streams = streams
        self._say = say
        self._shown: float | None = None

    def job(self) -> RunningJob:
        """Return the job when it runs; raise :class:`OarpyError` when it ended without."""
        while True:
            hears = current().may_keep_connection()
            with open_session("oarsub") as session:
                if self._runs(session.connection) or (hears and self._hear(session.connection)):
                    return job_steps.running_job(session, self._job_id)
            wait(_LOOK_PERIOD, [], self._streams)

    def _hear(self, connection: Connection) -> bool:
        """Read the job after each notification, until it runs."""
        connection.execute("LISTEN oarpy_events")
        while not self._runs(connection):
            wait(_PAUSE, [], self._streams)
            if wait(_POLL, [connection.fileno()], self._streams):
                with reachable():
                    for _ in connection.notifies(timeout=0):
                        continue
        return True

    def _runs(self, connection: Connection) -> bool:
        """Read the job once, and show a new prediction; tell whether it runs."""
        progress = requests.progress(connection, self._job_id)
        if progress is None or progress.state in _OVER:
            raise OarpyError(f"job {self._job_id} ended before its shell could start: {_why(progress)}")
        at, now = progress.predicted, time.time()
        if progress.state != JobState.RUNNING and at is not None and tells_more(at, self._shown, now):
            self._shown = at
            self._say(f"# [{local_date(now)}] Start prediction: {local_date(at)} ({progress.message})")
        return progress.state == JobState.RUNNING


def tells_more(at: float, shown: float | None, now: float) -> bool:
    """Tell whether a prediction differs enough from the shown one: by a minute, and by a tenth of the time left.

    >>> tells_more(90, None, 0), tells_more(90, 60, 0), tells_more(120, 60, 0), tells_more(7500, 7200, 0)
    (True, False, True, False)
    """
    if shown is None:
        return True
    return abs(at - shown) >= max(_LEAST_CHANGE, _LEAST_SHARE * (max(at, shown) - now))


def _why(progress: Progress | None) -> str:
    if progress is None:
        return "it is gone"
    failed = progress.state in (JobState.TO_ERROR, JobState.ERROR)
    return progress.message if failed else "it waited for that in vain (jobs.interactive_patience)"


@contextmanager
def _deleted_when_left(job_id: int, say: Say) -> Iterator[None]:
    """Delete the job if its user goes inside the block, however early: before the gateway has a process for it, too."""
    try:
        yield
    except (KeyboardInterrupt, BrokenPipeError) as left:
        with open_session("oarsub") as session:
            delete(session, JobSelection((job_id,)))  # or it has ended
        if isinstance(left, KeyboardInterrupt):
            say(f"# Interrupted: job {job_id} is deleted")
        raise
