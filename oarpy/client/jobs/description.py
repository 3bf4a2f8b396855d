"""One job in full: the ``key = value`` lines of ``oarstat -f`` and the JSON object of ``oarstat -J``."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NotRequired, TypedDict

from oarpy.client.rendering import local_date, one_line, whole_seconds
from oarpy.model.amounts import format_amount
from oarpy.model.durations import format_duration
from oarpy.model.file_names import file_name
from oarpy.model.reasons import ReasonDocument, reason_record, sentence
from oarpy.model.states import FINAL_STATES, ExtensionState, JobState
from oarpy.scheduler.forecast.start_intervals import FEWEST, LEVEL
from oarpy.store.events import Event
from oarpy.store.jobs.bags import BagRow
from oarpy.store.jobs.details import JobDetails, JobRow
from oarpy.store.jobs.extensions import ExtensionRow
from oarpy.store.jobs.kill_requests import GAVE_WAY
from oarpy.store.jobs.windows import JobWindow
from oarpy.store.passes.first_prediction import ToldStart

_CAUSES: Mapping[str, str] = {
    "WALLTIME": "walltime",
    "FRAG_JOB_REQUEST": "deleted",
    GAVE_WAY: "gave way",
    "NODE_LOST": "node lost",
    "JOB_LOST": "lost",
    "START_UNKNOWN": "not known whether it started",
    "OUT_OF_MEMORY": "out of memory",
    "PROLOGUE_ERROR": "prologue failed",
    "EPILOGUE_ERROR": "epilogue failed",
    "SERVER_PROLOGUE_LOST": "prologue failed",
    "WORKING_DIRECTORY": "no such directory",
    "OUTPUT_FILES": "output files cannot be written",
    "USER_SHELL": "no shell of the user",
    "DEADLINE_MISSED": "deadline missed",
    "DEPENDENCY_WINDOW_MISSED": "dependency missed",
}
"""Kinds of events that say why a job failed; any other kind stands for itself."""


class EventDocument(TypedDict):
    """An event of a job or of nodes; ``date`` in epoch seconds. Only what a pass decided has ``reason_data``."""

    event_id: int
    date: int
    type: str
    job_id: int | None
    hosts: Sequence[str]
    description: str
    reason_data: NotRequired[ReasonDocument]


class ExpectedStartDocument(TypedDict):
    """The expected interval of the start (epoch seconds); both ends are null if too few past starts are known."""

    earliest: float | None
    latest: float | None
    level: float
    learnt_from: int
    told_at: float
    planned: float


class ExtensionDocument(TypedDict):
    """Hosts that were asked for a running job; ``start`` is when they are foreseen while they are waited for."""

    kind: str
    hosts: Mapping[str, int]
    state: str
    start: int | None


class WindowDocument(TypedDict):
    """The window in which a reservation may move, in epoch seconds."""

    ready: int | None
    deadline: int
    state: str


class BagOfTaskDocument(TypedDict):
    """The bag of which a job is a task, in epoch seconds."""

    bag_id: int
    tasks: int
    deadline: int | None
    promise: int | None
    expected: int | None
    ended: int | None


class SeriesOfJobDocument(TypedDict):
    """The recurring job that a job came of, and the due time in epoch seconds."""

    recurring_id: int
    due: int


class SharedJobDocument(TypedDict):
    """The keys of a job that OAR's own interface has too: times in epoch seconds, durations in seconds."""

    array_id: int
    array_index: int
    name: str | None
    owner: str
    state: str
    assigned_amounts: Mapping[str, Mapping[str, int]]
    extensions: NotRequired[Sequence[ExtensionDocument]]
    queue: str
    command: str | None
    properties: str
    reservation: str
    window: NotRequired[WindowDocument]
    bag: NotRequired[BagOfTaskDocument]
    recurring: NotRequired[SeriesOfJobDocument]
    walltime: int | None
    message: str
    expected_start: ExpectedStartDocument | None
    resubmit_job_id: int | None
    events: Sequence[EventDocument]
    wanted_resources: str
    project: str
    cpuset_name: str
    types: Sequence[str]
    dependencies: Sequence[int]
    exit_code: int | None
    end_reason: str | None
    stdout_file: str
    stderr_file: str
    initial_request: str | None
    cpu_seconds: float | None
    memory_peak: int | None
    verdict: str | None
    reason: str | None
    environment: NotRequired[Mapping[str, str] | None]


class JobDocument(SharedJobDocument):
    """A job in full, by the keys of OAR 2.5 (times in epoch seconds, durations in seconds, null for none)."""

    Job_Id: int
    job_user: str
    assigned_resources: Sequence[int]
    assigned_network_address: Sequence[str]
    launchingDirectory: str
    jobType: str
    submissionTime: int
    startTime: int | None
    stopTime: int | None
    scheduledStart: int | None
    reserved_resources: Sequence[int]
    reason_data: ReasonDocument | None


class _Extra(TypedDict, total=False):
    extensions: Sequence[ExtensionDocument]
    window: WindowDocument
    bag: BagOfTaskDocument
    recurring: SeriesOfJobDocument
    environment: Mapping[str, str] | None


def as_json(job: JobDetails, *, private: bool, environment: Mapping[str, str] | None = None) -> JobDocument:
    """Return the keys of OAR 2.5 (times in epoch seconds, durations in seconds, null for none).

    ``private`` says that the reader may see the command and the typed words; ``environment`` is added when given.
    """
    row = job.row
    extensions: _Extra = (
        {"extensions": [_extension_json(extension) for extension in job.extensions]} if job.extensions else {}
    )
    document: JobDocument = {
        "Job_Id": row.job_id,
        "array_id": row.array_id,
        "array_index": row.array_index,
        "name": row.name or None,
        "owner": row.user,
        "job_user": row.user,
        "state": row.state,
        "assigned_resources": job.resource_ids,
        "assigned_network_address": job.hosts,
        "assigned_amounts": _amounts_json(job),
        **extensions,
        "queue": row.queue,
        "command": row.command if private else None,
        "launchingDirectory": row.directory,
        "jobType": row.kind,
        "properties": row.properties,
        "reservation": row.reservation,
        **_extras(job),
        "walltime": walltime(job),
        "submissionTime": int(row.submitted),
        "startTime": whole_seconds(start_time(row)),
        "stopTime": whole_seconds(row.ended),
        "message": row.message,
        "scheduledStart": whole_seconds(scheduled_start(row)),
        "expected_start": expected_record(job.told),
        "resubmit_job_id": row.resubmit_of,
        "events": [event_json(event) for event in job.events],
        "wanted_resources": wanted_resources(job),
        "project": row.project,
        "cpuset_name": f"{row.user}_{row.job_id}",
        "types": row.types,
        "dependencies": [dependency.job for dependency in job.dependencies],
        "exit_code": row.exit_status,
        "end_reason": _end_reason(job) or None,
        "stdout_file": _file_name(row, row.stdout),
        "stderr_file": _file_name(row, row.stderr),
        "initial_request": row.initial_request if private else None,
        "reserved_resources": job.reserved_ids,
        "cpu_seconds": row.cpu_seconds,
        "memory_peak": row.memory_peak,
        "verdict": row.verdict or None,
        "reason": sentence(row.why, local_date) or None,
        "reason_data": reason_record(row.why),
    }
    if environment is not None:
        document["environment"] = environment if private else None
    return document


def _extras(job: JobDetails) -> _Extra:
    """Return the keys that only jobs of some kinds have."""
    extras: _Extra = {}
    if job.window:
        extras["window"] = window_json(job.window)
    if job.bag:
        extras["bag"] = _bag_json(job.bag)
    if job.series:
        extras["recurring"] = {"recurring_id": job.series.number, "due": int(job.series.due)}
    return extras


def as_text(job: JobDetails, *, private: bool) -> str:
    """Return ``Job_Id: N`` and a ``key = value`` line, indented by four blanks, for each known fact.

    The user's own words come before ``state``: programs take the last ``state =`` they meet. So they read the right one
    even when a filter of the job says ``state = 'Alive'``.
    """
    row = job.row
    values = {
        "job_array_id": str(row.array_id),
        "job_array_index": str(row.array_index),
        "name": row.name,
        "project": row.project,
        "owner": row.user,
        "queue": row.queue,
        "jobType": row.kind,
        "types": ", ".join(row.types),
        "command": row.command if private else "",
        "launchingDirectory": row.directory,
        "stdout_file": _file_name(row, row.stdout),
        "stderr_file": _file_name(row, row.stderr),
        "properties": row.properties,
        "wanted_resources": wanted_resources(job),
        **({"initial_request": row.initial_request} if private else {}),
        "message": row.message,
        "reason": sentence(row.why, local_date),
        "events": ", ".join(event_line(event).rstrip() for event in job.events),
        "state": row.state,
        "dependencies": " ".join(map(str, job.dependencies)),
        "assigned_resources": "+".join(map(str, job.resource_ids)),
        "assigned_hostnames": "+".join(job.hosts),
        **({"assigned_amounts": amounts_text(job)} if job.amounts else {}),
        **({"extensions": ", ".join(map(_extension_text, job.extensions))} if job.extensions else {}),
        "reserved_resources": "+".join(map(str, job.reserved_ids)),
        "reservation": row.reservation,
        **({"window": _window_text(job.window)} if job.window else {}),
        **({"bag": _bag_text(job.bag)} if job.bag else {}),
        **({"recurring": f"{job.series.number}, due {local_date(job.series.due)}"} if job.series else {}),
        "walltime": _duration(walltime(job)),
        "submissionTime": local_date(row.submitted),
        "startTime": local_date(start_time(row)),
        "stopTime": local_date(row.ended),
        "scheduledStart": local_date(scheduled_start(row)),
        "expectedStart": _expected(job),
        "exit_code": _exit_code(row.exit_status),
        "end_reason": _end_reason(job),
        "cpu_seconds": "" if row.cpu_seconds is None else f"{row.cpu_seconds:.2f}",
        "memory_peak": "" if row.memory_peak is None else format_amount(row.memory_peak),
        "cpuset_name": f"{row.user}_{row.job_id}",
        "resubmit_job_id": str(row.resubmit_of or ""),
    }
    lines = [f"    {key} = {one_line(value)}".rstrip() for key, value in values.items()]
    return f"Job_Id: {row.job_id}\n" + "\n".join(lines) + "\n"


def exit_text(status: int | None) -> str:
    """Return how a command ended, of its ``wait`` status: an exit code, or the signal that killed it.

    >>> exit_text(256), exit_text(9), exit_text(None)
    ('1', 'KILL', '')
    """
    if status is None:
        return ""
    number = status & 127
    if not number:
        return str(status >> 8)
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return f"signal {number}"


def end_reason(state: str, exit_status: int | None, events: Sequence[str]) -> str:
    """Return why a job ended, from the kinds of its events and the ``wait`` status; empty for a live job.

    >>> end_reason("Error", None, ["WALLTIME"]), end_reason("Terminated", 256, []), end_reason("Running", None, [])
    ('walltime', 'exit code 1', '')
    """
    if state not in FINAL_STATES:
        return ""
    for kind in reversed(events if state == JobState.ERROR else ()):
        if kind in _CAUSES:
            return _CAUSES[kind]
    if exit_status is not None and (exit_status or state == JobState.TERMINATED):
        ended = exit_text(exit_status)
        return f"exit code {ended}" if ended.isdigit() else f"signal {ended}"
    return events[-1] if events else "unknown"


def _end_reason(job: JobDetails) -> str:
    return end_reason(job.row.state, job.row.exit_status, [event.type for event in job.events])


def event_json(event: Event) -> EventDocument:
    """Return an event as ``oarstat -J`` and ``oarstat -e -J`` show it."""
    document: EventDocument = {
        "event_id": event.event_id,
        "date": int(event.at),
        "type": event.type,
        "job_id": event.job_id,
        "hosts": event.hosts,
        "description": event.description,
    }
    if event.reason_data is not None:
        document["reason_data"] = event.reason_data
    return document


def event_line(event: Event) -> str:
    """Return ``date> TYPE: text`` as a line."""
    return f"{local_date(event.at)}> {event.type}: {one_line(event.description)}\n"


def walltime(job: JobDetails) -> int | None:
    """Return the seconds granted, or asked by the only alternative; None while several are open."""
    if job.row.walltime is not None:
        return job.row.walltime
    return job.requests[0].walltime if len(job.requests) == 1 else None


def wanted_resources(job: JobDetails) -> str:
    """Return the request as ``oarsub`` options: ``-l "/nodes=1,walltime=1:0:0"`` for each alternative."""
    return " ".join(f'-l "{request},walltime={format_duration(request.walltime or 0)}"' for request in job.requests)


def amounts_text(job: JobDetails) -> str:
    """Return the amounts that the job holds or held: ``memory=16G on n1, memory=16G on n2``."""
    return ", ".join(f"{amount.consumable}={format_amount(amount.amount)} on {amount.block}" for amount in job.amounts)


def _amounts_json(job: JobDetails) -> dict[str, dict[str, int]]:
    amounts: dict[str, dict[str, int]] = {}
    for amount in job.amounts:
        amounts.setdefault(amount.consumable, {})[amount.block] = amount.amount
    return amounts


def _extension_json(row: ExtensionRow) -> ExtensionDocument:
    start = row.told["start"] if row.told and row.state == ExtensionState.WAITING else None
    return {"kind": row.kind, "hosts": dict(row.hosts), "state": row.state, "start": whole_seconds(start)}


def _extension_text(row: ExtensionRow) -> str:
    hosts = "+".join(f"{count}@{cluster}" if cluster else str(count) for cluster, count in row.hosts.items())
    return f"+{hosts} {row.kind} {row.state}"


def window_json(window: JobWindow) -> WindowDocument:
    """Return where a reservation may move, or might."""
    return {"ready": whole_seconds(window.ready), "deadline": int(window.deadline), "state": window.state}


def _bag_json(bag: BagRow) -> BagOfTaskDocument:
    return {
        "bag_id": bag.bag,
        "tasks": bag.tasks,
        "deadline": whole_seconds(bag.deadline),
        "promise": whole_seconds(bag.promise),
        "expected": whole_seconds(bag.expected),
        "ended": whole_seconds(bag.ended),
    }


def _bag_text(bag: BagRow) -> str:
    promise = f"promised {local_date(bag.promise)}" if bag.promise is not None else "not promised"
    return f"{bag.bag}, {bag.tasks} tasks, {promise}"


def _window_text(window: JobWindow) -> str:
    ready = local_date(window.ready) or "at once"
    return f"{ready} to {local_date(window.deadline)}, {window.state}"


def start_time(row: JobRow) -> float | None:
    """Return when a job started; before that the date of a reservation that is accepted, as OAR has it."""
    accepted = row.reservation == "Scheduled" and row.ended is None
    return row.reservation_start if row.started is None and accepted else row.started


def scheduled_start(row: JobRow) -> float | None:
    """Return when a waiting job should start: the date of its reservation or the last prediction."""
    if row.started is not None or row.ended is not None:
        return None
    return row.predicted if row.predicted is not None else row.reservation_start


def output_file(row: JobRow, stream: str) -> str:
    """Return the path of ``stdout`` or ``stderr``, below the job's directory unless it is absolute; empty for none."""
    path = row.stdout if stream == "stdout" else row.stderr
    return os.path.join(row.directory, _file_name(row, path)) if path else ""


def start_interval(earliest: float, latest: float, now: float) -> str:
    """Return an interval of starts in local time, with a date unless both are today: ``14:05 to 15:10, 90 %``."""
    first, last, today = map(datetime.fromtimestamp, (int(earliest), int(latest), int(now)))
    begin = first.strftime("%H:%M" if first.date() == last.date() == today.date() else "%Y-%m-%d %H:%M")
    end = last.strftime("%H:%M" if first.date() == last.date() else "%Y-%m-%d %H:%M")
    return f"{begin} to {end}, {LEVEL * 100:.0f} %"


def expected_record(prediction: ToldStart | None) -> ExpectedStartDocument | None:
    """Return the JSON object ``expected_start``, None for a job without a first prediction."""
    if prediction is None:
        return None
    return {
        "earliest": prediction.earliest,
        "latest": prediction.latest,
        "level": LEVEL,
        "learnt_from": prediction.starts,
        "told_at": prediction.made,
        "planned": prediction.planned,
    }


def expected_sentence(prediction: ToldStart, now: float) -> str:
    """Return the first prediction of the job, and its basis."""
    if prediction.earliest is None or prediction.latest is None:
        return few_starts(prediction.starts)
    text = start_interval(prediction.earliest, prediction.latest, now)
    if prediction.latest < now:
        return f"It was expected {text}, and is late."
    return (
        f"Expected start: {text} (of {prediction.starts} past starts like it, told at {local_date(prediction.made)})."
    )


def few_starts(starts: int) -> str:
    """Say that there is no interval yet, and name the bound that holds instead."""
    return (
        f"No interval is told yet: {starts} of {FEWEST} past starts are known."
        " By walltimes it starts at the predicted date at the latest, unless plans change."
    )


def _expected(job: JobDetails) -> str:
    """Return the predicted interval of a waiting job."""
    prediction = job.told
    if (
        prediction is None
        or prediction.earliest is None
        or prediction.latest is None
        or scheduled_start(job.row) is None
    ):
        return ""
    return start_interval(prediction.earliest, prediction.latest, prediction.made)


def _file_name(row: JobRow, path: str) -> str:
    return file_name(path, job=row.job_id, name=row.name, array=row.array_id, index=row.array_index)


def _exit_code(status: int | None) -> str:
    """Return ``raw (code,signal,core)``, as ``wait`` encodes them."""
    return "" if status is None else f"{status} ({status >> 8},{status & 127},{1 if status & 128 else 0})"


def _duration(seconds: int | None) -> str:
    return "" if seconds is None else format_duration(seconds)
