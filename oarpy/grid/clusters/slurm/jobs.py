"""Jobs of Slurm as ``squeue`` prints them, and their meaning for a broker."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

from ClusterShell.NodeSet import NodeSet

from oarpy.grid.calls.parts import PART_EVENTS, PartEvent, PartEventKind, PartStarted
from oarpy.grid.clusters.slurm.marks import PartMark
from oarpy.grid.clusters.virtual.machine import MachineJob, QueuePlan

_FIELDS = (
    *("JobID", "State", "exit_code", "Reason", "SubmitTime", "StartTime", "EndTime"),
    *("TimeLimit", "NumCPUs", "PriorityLong", "NodeList", "Comment"),
)
COLUMNS = ",".join(f"{field}:|" for field in _FIELDS) + "."
"""For ``squeue -O``, with times as epoch seconds (``SLURM_TIME_FORMAT=%s``)."""

_RUNNING = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "RESIZING")
_ENDS: Mapping[str, PartEventKind] = {
    "COMPLETED": "ended",
    "FAILED": "ended",
    "NODE_FAIL": "lost",
    "BOOT_FAIL": "lost",
    "PREEMPTED": "evicted",
}
_KINDS_AND_JOBS = 20
"""Bits of an event's number below its instant."""
_SETTLED = 2
"""Seconds after which all earlier events are known: Slurm's times are whole seconds."""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job. While it waits, ``start`` is the start that Slurm expects; infinite: not known."""

    id: int
    state: str
    exit_code: int
    reason: str
    submitted: float
    start: float
    end: float
    walltime: float
    procs: int
    priority: int
    nodes: str
    mark: PartMark | None

    @property
    def pending(self) -> bool:
        """Whether it waits or is held."""
        return self.state == "PENDING"

    @property
    def over(self) -> bool:
        """Whether it ended, or never ran and will not."""
        return not self.pending and self.state not in _RUNNING

    @property
    def hosts(self) -> tuple[str, ...]:
        """A host for each processor, spread evenly over its nodes: Slurm forgets how many it had on each."""
        names = [str(name) for name in NodeSet(self.nodes)] if self.nodes else []
        return tuple(sorted(names[number % len(names)] for number in range(self.procs))) if names else ()


def read_jobs(text: str) -> list[SlurmJob]:
    """Read the output of ``squeue``. A record ends with ``|.``, because its texts may have several lines."""
    jobs = []
    for line in re.split(r"\|\.(?:\n|$)", text):
        if line.count("|") < len(_FIELDS) - 1:
            continue
        job, state, code, reason, submitted, start, end, limit, procs, priority, nodes, comment = line.split(
            "|", len(_FIELDS) - 1
        )
        times = (_instant(submitted), _instant(start), _instant(end))
        walltime, mark = _duration(limit), PartMark.read(comment)
        jobs.append(
            SlurmJob(int(job), state, int(code), reason, *times, walltime, int(procs), int(priority or 0), nodes, mark)
        )
    return sorted(jobs, key=lambda job: job.id)


def _instant(text: str) -> float:
    return float(text) if text.isdigit() else inf


def _duration(text: str) -> float:
    """Read ``[DAYS-[HOURS:]]MINUTES:SECONDS``; a text that is no limit is infinite."""
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in parts):
        return inf
    seconds = 0
    for part in parts:
        seconds = seconds * 60 + int(part)
    return seconds + 86400 * int(days or 0)


def queue_plan(jobs: Iterable[SlurmJob], procs: int, now: float) -> QueuePlan:
    """Plan a queue by counting its processors: the running jobs, then the waiting jobs by priority."""
    running, waiting = [], []
    for job in jobs:
        if job.state in _RUNNING:
            length = job.walltime if job.end == inf else job.end - job.start
            running.append(_counted(job, length))
            running[-1].state, running[-1].started = "running", job.start
        elif job.pending and job.priority and job.reason not in ("BeginTime", "Dependency") and job.procs <= procs:
            waiting.append((-job.priority, _counted(job, job.walltime)))
    ranked = [job for _, job in sorted(waiting, key=lambda entry: (entry[0], entry[1].number))]
    return QueuePlan(procs, "conservative", running, ranked, now)


def _counted(job: SlurmJob, length: float) -> MachineJob:
    length = min(length, _ENDLESS)
    return MachineJob(job.id, str(job.id), job.procs, length, length, job.submitted)


_ENDLESS = 3650 * 86400.0
"""Seconds that count for a job without a limit."""


def part_events(jobs: Iterable[SlurmJob], now: float, after: int) -> list[PartEvent]:
    """Return the events of parts in the order of their numbers, which hold the instant, the job and the kind.

    Only events that are some seconds old are returned, so that no later event has a lower number. An ``after`` in the
    future was never sent: all events are returned again.
    """
    if after >= int(now + 1) << _KINDS_AND_JOBS:
        after = 0
    jobs = list(jobs)
    settled_until = min((job.end for job in jobs if job.state == "COMPLETING"), default=inf)
    settled_until = min(settled_until, now - _SETTLED)
    events = [event for job in jobs for event in _events(job) if event.number > after and event.at < settled_until]
    return sorted(events, key=lambda event: event.number)


def _events(job: SlurmJob) -> Iterator[PartEvent]:
    mark = job.mark
    if mark is None or mark.state in ("aborted", "withdrawn"):
        return
    if mark.kind == "claim":
        started = mark.at if mark.state in ("begun", "ended", "stopped") else None
    else:
        started = None if job.pending or not job.nodes else job.start
    if started is not None:
        yield PartStarted(_number(job, started, 0), started, mark.part, str(job.id), job.hosts)
    if job.over:
        kind, status, reason = _end(job, mark)
        yield PART_EVENTS[kind](_number(job, job.end, 1), job.end, mark.part, str(job.id), (), status, reason)


def _end(job: SlurmJob, mark: PartMark) -> tuple[PartEventKind, int | None, str]:
    if mark.state == "prepared":
        return "lapsed", None, "not committed in time"
    if mark.state in ("cancelled", "stopped"):
        return "failed", None, mark.note
    if mark.state == "ended":
        return "ended", int(mark.note or 1), ""
    kind = "failed" if mark.kind == "claim" else _ENDS.get(job.state, "failed")
    if kind == "ended":
        return kind, job.exit_code >> 8 or (128 + job.exit_code if job.exit_code else 0), ""
    return kind, None, f"Slurm says {job.state}"


def _number(job: SlurmJob, at: float, kind: int) -> int:
    return int(at) << _KINDS_AND_JOBS | job.id % (1 << _KINDS_AND_JOBS - 1) << 1 | kind
