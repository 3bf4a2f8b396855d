"""Translates a node's report of a job's end into the end that is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oarpy.configuration import JobSettings
from oarpy.model.job_types import read_types
from oarpy.model.states import JobState
from oarpy.store.database import Connection
from oarpy.store.jobs import resubmission
from oarpy.store.jobs.execution import End, LiveRow
from oarpy.store.jobs.kill_requests import GAVE_WAY, in_words
from oarpy.store.platform.nodes import Fault
from oarpy.wire.messages import APPLICATION_DONE, Cleaned, Ended, Refused

KILLED = "killed"
UNABLE = frozenset({"STATE_DIRECTORY", "SUPERVISOR"})
"""Faults of a node, which it can tell the end of: it cannot write its directory, or start a process. Nothing ran."""

NODE_LOST, REQUEUED = "NODE_LOST", "REQUEUED"
"""Types of events: a job was lost with its node, and a job waits again because a node could not begin it."""

_SAID = {
    "INCARNATION": ("START_UNKNOWN", "not known whether it started"),
    "FORGOTTEN": (NODE_LOST, "not started again"),
}
"""Event and words for refusals after which a job may have run. A job that may still run is not submitted again."""

LEFT = "CPUSET_CLEAN_ERROR"
"""Type of the event of processes that resist SIGKILL."""


STUCK = "SUPERVISOR_STUCK"
"""Type of the event of a job whose supervisor was stopped, or waits for a file system that does not answer."""

MEMORY = "OUT_OF_MEMORY"
"""Type of the event of a job that met the limit of its memory and ended by itself."""


def out_of_memory(kills: int) -> str:
    """Say that the kernel killed ``kills`` processes of a job for its limit of memory."""
    return f"{kills} of its processes killed by the kernel: it had no more of the memory it asked for"


def faults_of(node: str, report: Ended | Refused | Cleaned) -> list[Fault]:
    """Return the faults of the node in ``report``, without faults of the job, its user or the server.

    A program that cannot be executed, or a directory that is not there, may be the user's own doing: see ``strikes``.
    """
    job, faults = report.key.job, []
    if isinstance(report, Refused) and report.reason in UNABLE:
        faults.append(Fault(node, report.reason, job, (report.detail or report.reason)[:500], heals=True))
    if not isinstance(report, Refused) and report.left > 0:
        faults.append(Fault(node, LEFT, job, f"{report.left} processes of job {job} resist SIGKILL"))
    return faults


def end_of(report: Ended, kill_reason: str | None) -> End:
    """Return the end that ``report`` describes; ``kill_reason`` is why the job was to be killed, if it was.

    A program that ended by itself leads to Terminated, whatever its exit code. So does a program that was ended because
    its application is done: with the exit code 0. Anything else leads to Error.
    """
    key, status = report.key, report.status
    final, event, message = JobState.ERROR, report.reason, report.detail or report.reason
    done = report.reason == KILLED and kill_reason == APPLICATION_DONE and report.start is not None
    if report.reason == "exited" or done:
        status = 0 if done else status
        final, event, message = JobState.TERMINATED, "", ""
    elif report.reason == KILLED:
        event, message = "KILLED", f"killed: {in_words(kill_reason or 'asked on the node')}"
    elif report.reason == "walltime":
        event, message = "WALLTIME", "killed: its walltime was over"
    elif report.reason == "lost":
        event, message = "JOB_LOST", "lost: nobody saw it end (its supervisor or its node was killed)"
    if report.memory_kills:
        kills = out_of_memory(report.memory_kills)
        event, message = event or MEMORY, f"{message}; {kills}" if message else kills
    used = report.cpu_seconds, report.memory_peak
    return End(key.job, final, status, report.start, report.end, event, message[:500], *used)


def end_of_refusal(report: Refused, now: float, *, again: bool) -> End:
    """Return the end of a job that its node will not start; ``again``: it may wait for another try."""
    if report.reason in UNABLE:
        return end_of_unable(report.key.job, report.detail or report.reason, now, again=again)
    event, sentence = _SAID.get(report.reason, (report.reason, "not started"))
    return End(
        report.key.job, JobState.ERROR, None, None, now, event, f"{sentence}: {report.detail or report.reason}"[:500]
    )


def end_of_unable(job: int, detail: str, now: float, *, again: bool) -> End:
    """Return the end of an attempt that a node could not begin: the job waits ``again``, or did so too often."""
    if again:
        return End(job, JobState.WAITING, None, None, now, REQUEUED, f"waits again, not started: {detail}"[:500])
    return End(job, JobState.ERROR, None, None, now, NODE_LOST, f"not started, too often: {detail}"[:500])


def end_of_nothing(job: int, kill_reason: str | None, now: float) -> End:
    """Return the end of a job that has nothing on any node: its walltime is over, or it is killed."""
    if kill_reason in (None, APPLICATION_DONE):
        return End(job, JobState.TERMINATED, 0, None, now, "", "")
    return End(job, JobState.ERROR, None, None, now, "KILLED", f"killed: {in_words(kill_reason)}"[:500])


def lost(job: int, now: float) -> End:
    """Return the end of a job that ran on its node, where the node has no record of it now."""
    message = "lost: its node forgot it (restarted without its state)"
    return End(job, JobState.ERROR, None, None, now, "NODE_LOST", message)


def leaves_nothing(end: End, row: LiveRow) -> bool:
    """Tell whether a job needs no cleaning: a job that ended by itself on its only node left nothing there."""
    by_itself = end.final_state == JobState.TERMINATED and end.started is not None and not end.event
    return by_itself and len(row.nodes) == 1


def resubmit(connection: Connection, settings: JobSettings, closed: Sequence[int], rows: Iterable[LiveRow]) -> None:
    """Submit the idempotent jobs among the closed ones again, and those that gave way, if their queue says so."""
    repeatable = {row.id for row in rows if read_types(row.types).idempotent or row.kill_reason == GAVE_WAY}
    repeatable.intersection_update(closed)
    limits = {"losses": settings.resubmission_limit, "repetitions": settings.repetition_limit}
    resubmission.resubmit(connection, sorted(repeatable), **limits)
