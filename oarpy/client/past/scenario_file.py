"""``oarpy simulate --from-database --write``: the site's own past as a scenario of ``oarpy grid simulate``.

The site is one cluster, and a job has as many processors as it held. The rest of a request is not in the scenario:
names of resources, quotas, dependencies, queues. So starts may differ from the recorded ones, which stand beside them.
Where reservations had windows the system is ``windows``: reservations may move in them, and every other job is reserved
at its recorded place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf, nextafter
from pathlib import Path
from typing import Any

from oarpy.client.past.workload import EndedJob
from oarpy.client.session import Session
from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.cluster_state.what_if import read_only
from oarpy.model.errors import UsageError
from oarpy.scheduler.resources.bit_sets import positions
from oarpy.simulation.reports.output_files import writing
from oarpy.store.jobs import history
from oarpy.store.jobs.history import RecordedWindow
from oarpy.store.past.reading import with_past

_SITE = "site"
_POLICIES = ("fcfs", "conservative", "easy")
"""Policies that queues of scenarios have."""


@dataclass(frozen=True, slots=True)
class RecordedPast:
    """The record of a period in the database: jobs that ran, the processors that each held, and windows, by job."""

    procs: int
    policy: str
    jobs: Sequence[EndedJob]
    held: Mapping[int, int]
    windows: Mapping[int, RecordedWindow]


def write_past(session: Session, since: datetime | None, until: datetime | None, file: Path, *, names: bool) -> str:
    """Write the jobs that ran between two dates to a file; return a sentence about them.

    Ids are the numbers of jobs; with ``names``, the names of their users follow. Raises :class:`UsageError` for a
    period in which no job ran, and :class:`OarpyError` when the file cannot be written.
    """
    if since is not None and until is not None and since >= until:
        raise UsageError("the period is empty", hint="--since is before --until")
    past = read_recorded(session, since, until)
    if not past.jobs:
        raise UsageError("no job of that period has run and ended", hint="oarstat --gantt shows when jobs ran")
    first = min(job.submitted for job in past.jobs)
    begin = first if since is None else since.timestamp()
    document = scenario(past, begin, names=names)
    with writing(file):
        file.write_text(_lines(document), encoding="utf-8")
    return f"{len(past.jobs)} jobs on {past.procs} processors, system {document['system']}"


def read_recorded(session: Session, since: datetime | None, until: datetime | None) -> RecordedPast:
    """Read the jobs that were in the system between two dates, and held processors."""
    connection = session.connection
    with connection.transaction():
        platform = read_only(connection, SnapshotReader(session.configuration)).snapshot.platform
        with with_past(connection):
            rows = history.ended(connection, since, until, EndedJob)
            numbers = [row.id for row in rows]
            held, windows = history.held(connection, numbers), history.windows(connection, numbers)
    whole = {platform.ids[place] for place in positions(platform.default_type)}
    counts = {job: len(whole.intersection(ids)) for job, ids in held.items()}
    ran = [row for row in rows if row.started is not None and row.walltime and counts.get(row.id)]
    return RecordedPast(len(whole), session.configuration.scheduler.policy, ran, counts, windows)


def scenario(past: RecordedPast, begin: float, *, names: bool) -> dict[str, Any]:
    """Return a scenario; its seconds are counted from ``begin``."""
    system = "windows" if past.windows else "queues"
    cluster: dict[str, Any] = {"name": _SITE, "procs": past.procs}
    if system == "queues":
        cluster["policy"] = past.policy if past.policy in _POLICIES else "conservative"
    jobs = [_entry(past, job, begin, names=names) for job in past.jobs]
    # a job that ran already when the period began comes first
    jobs.sort(key=lambda job: (job["submit"], job["recorded"] >= 0))
    return {"system": system, "clusters": [cluster], "jobs": jobs}


def _entry(past: RecordedPast, job: EndedJob, begin: float, *, names: bool) -> dict[str, Any]:
    """Return a job. If it ran already when the period began, return the rest of it."""
    assert job.started is not None
    assert job.walltime is not None
    start = max(job.started, begin)
    gone = start - job.started
    run = max(job.ended - start, 0.001)
    entry: dict[str, Any] = {
        "id": f"{job.id} {job.user}" if names else job.id,
        "procs": past.held[job.id],
        "submit": round(max(job.submitted, begin) - begin, 3),
        "run": round(run, 3),
        "walltime": round(max(job.walltime - gone, run), 3),
        "cluster": _SITE,
        "recorded": round(job.started - begin, 3),
    }
    if not past.windows:
        return entry
    window = past.windows.get(job.id)
    if window is None:
        fixed = start - begin
        return _reserved(entry | {"ready": round(fixed, 3)}, fixed + entry["walltime"])
    ready = {} if window.ready is None else {"ready": round(window.ready - begin, 3)}
    last = max(window.deadline, start + entry["walltime"])
    return _reserved(entry | ready, last - begin)


def _reserved(entry: dict[str, Any], deadline: float) -> dict[str, Any]:
    """Return a job with a deadline that leaves it a start: differences of decimals may be rounded down."""
    first = max(entry["submit"], entry.get("ready", entry["submit"]))
    deadline = max(round(deadline, 3), round(first + entry["walltime"], 3))
    while deadline - entry["walltime"] < first:
        deadline = nextafter(deadline, inf)
    return entry | {"deadline": deadline}


def _lines(document: Mapping[str, Any]) -> str:
    """Return a scenario as text, a job a line."""
    jobs = ",\n  ".join(json.dumps(job) for job in document["jobs"])
    head = json.dumps({key: value for key, value in document.items() if key != "jobs"})
    return f'{head[:-1]}, "jobs": [\n  {jobs}\n]}}\n'
