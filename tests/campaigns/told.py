"""What users were told, and that it stays true: an oracle that is asked after each step of a virtual cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from oarpy.model.job_types import read_types
from oarpy.model.states import ALLOWED, FINAL_STATES, JobState
from oarpy.store.analytics import recount
from oarpy.wire.jobs import JobKey, JobSpec
from tests.campaigns.virtual_cluster import VirtualCluster, Wrong

_JOBS = """
    SELECT job_id, state, attempt, exit_status, extract(epoch FROM started_at)::float8,
           extract(epoch FROM ended_at)::float8, types, accounted, message
    FROM jobs ORDER BY job_id
"""
_HELD_ON = """
    SELECT a.resource_id FROM assigned_resources a JOIN resources r USING (resource_id)
    WHERE a.job_id = %s AND r.network_address = %s AND upper_inf(a.during)
"""
_LEFT = {
    "jobs that are not over": "SELECT job_id, state FROM jobs WHERE state NOT IN ('Terminated', 'Error')",
    "jobs that are not accounted": "SELECT job_id FROM jobs WHERE NOT accounted",
    "resources held": "SELECT job_id, resource_id FROM assigned_resources WHERE upper_inf(during) OR suspended",
    "amounts held": "SELECT job_id, block FROM assigned_amounts WHERE upper_inf(during)",
    "kills that are not done": "SELECT job_id, state FROM kill_requests WHERE state <> 'done'",
    "signals that are not done": "SELECT job_id, signal FROM signal_requests WHERE NOT done",
    "suspensions that are asked": "SELECT * FROM suspend_requests",
    "resizes that are not done": "SELECT job_id, kind FROM resizes WHERE done_at IS NULL",
    "extensions that are not over": "SELECT job_id, state FROM extensions WHERE state NOT IN ('Over', 'Withdrawn')",
    "walltimes that wait": "SELECT job_id, pending FROM walltime_changes WHERE pending <> interval '0'",
    "walltimes that are not told": "SELECT job_id FROM walltime_changes WHERE NOT node_told",
    "predictions that are left": "SELECT job_id, verdict FROM gantt_predictions",
    "gates that are left": "SELECT job_id FROM launch_gates g JOIN jobs j USING (job_id) WHERE j.state = 'toLaunch'",
    "resources that are not Alive": "SELECT resource_id, state FROM resources WHERE state <> 'Alive'",
    "resources held twice": """
        SELECT a.resource_id, a.job_id, b.job_id FROM assigned_resources a JOIN assigned_resources b
            ON a.resource_id = b.resource_id AND a.job_id < b.job_id AND a.during && b.during""",
    "jobs with more than one end": """
        SELECT job_id, count(*) FROM job_state_logs WHERE state IN ('Terminated', 'Error') GROUP BY job_id
        HAVING count(*) > 1""",
    "jobs resubmitted twice": """
        SELECT resubmit_of, count(*) FROM jobs WHERE resubmit_of IS NOT NULL GROUP BY 1 HAVING count(*) > 1""",
    "jobs set aside": "SELECT job_id, description FROM event_logs WHERE type = 'SET_ASIDE'",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A job as it was last seen."""

    state: JobState
    attempt: int
    exit_status: int | None
    started: float | None
    ended: float | None
    types: tuple[str, ...]
    accounted: bool
    message: str


def _reachable() -> Mapping[JobState, frozenset[JobState]]:
    ways = {state: {state} for state in JobState}
    for _ in JobState:
        for source, target in ALLOWED:
            for found in ways.values():
                if source in found:
                    found.add(target)
    return {state: frozenset(found) for state, found in ways.items()}


_REACHABLE = _reachable()


@dataclass(slots=True)
class Oracle:
    """Remembers what users were told. ``submitted`` are the answers of submissions, ``deleted`` those of ``oardel``."""

    cluster: VirtualCluster
    submitted: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    seen: dict[int, Seen] = field(default_factory=dict)
    _rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """What ``seen`` was made from."""
    _never: set[int] = field(default_factory=set)
    """Jobs that were over before any program of theirs began."""
    _places: dict[JobKey, tuple[str, frozenset[int]]] = field(default_factory=dict)
    """The first node of each program that began, and its resources there."""

    def starts(self, spec: JobSpec) -> None:
        """Check a program as it begins on a node. Raises :class:`Wrong` if it may not."""
        key, nodes = spec.key, self.cluster.nodes
        if self.cluster.began[key] > 1 and key.job not in self.cluster.disturbed:
            raise Wrong(f"{key} begins a second time")
        if key.job in self._never:
            raise Wrong(f"{key} begins, though users were told that the job is over")
        earlier = [one for one in self._places if one.job == key.job and one.attempt < key.attempt]
        if earlier and key.job not in self.cluster.disturbed:
            raise Wrong(f"{key} begins after {earlier} did")
        node = next(one for one in nodes._nodes.values() if spec in one.starts)
        held = frozenset(row[0] for row in self.cluster.rows(_HELD_ON, key.job, node.name))
        for other, job in node.jobs.items():
            if job.started is None or job.ended is not None or job.suspended is not None or other == key:
                continue
            if other in self._places and (both := self._places[other][1] & held):
                raise Wrong(f"{key} begins on resources {sorted(both)}, where {other} runs")
        self._places[key] = (node.name, held)

    def look(self) -> None:
        """Look at all jobs as users do. Raises :class:`Wrong` if that contradicts what they were told."""
        rows = {row[0]: row for row in self.cluster.rows(_JOBS)}
        if missing := (self.submitted | self.seen.keys()) - rows.keys():
            raise Wrong(f"jobs {sorted(missing)} are gone")
        for job, row in rows.items():
            if self._rows.get(job) == row:
                continue
            _, state, attempt, status, started, ended, types, accounted, message = row
            now = Seen(JobState(state), attempt, status, started, ended, tuple(types), accounted, message)
            if (before := self.seen.get(job)) is not None:
                self._compare(job, before, now)
            self.cluster.note(f"job {job} {now}")
            if now.state in FINAL_STATES and not any(key.job == job for key in self.cluster.began):
                self._never.add(job)
            if now.state is JobState.RUNNING and not self._is_idle(now) and now.attempt:
                self._require_begun(job, now)
            self.seen[job] = now
        self._rows = rows

    @staticmethod
    def _is_idle(job: Seen) -> bool:
        return read_types(job.types).runs_nothing

    def _require_begun(self, job: int, now: Seen) -> None:
        if not self.cluster.began[JobKey(job, now.attempt)]:
            raise Wrong(f"job {job} is Running, and no node has begun attempt {now.attempt}")

    def _compare(self, job: int, before: Seen, now: Seen) -> None:
        if now.state not in _REACHABLE[before.state]:
            raise Wrong(f"job {job} went from {before.state} to {now.state}")
        told = (before.state, before.exit_status, before.started, before.ended)
        if before.state in FINAL_STATES and told != (now.state, now.exit_status, now.started, now.ended):
            raise Wrong(f"job {job} was told to be {told}, and is {now}")
        if before.started is not None and now.started != before.started:
            raise Wrong(f"job {job} started at {before.started}, then at {now.started}")
        if now.attempt < before.attempt or (before.accounted and not now.accounted):
            raise Wrong(f"job {job} was {before} and is {now}")

    # At the end

    def all_over(self) -> bool:
        """Tell whether all jobs are over and counted."""
        return all(job.accounted for job in self.seen.values())

    def settled(self) -> Iterator[str]:
        """Say what is left that should not be, when nothing goes on."""
        for what, query in _LEFT.items():
            if rows := self.cluster.rows(query):
                yield f"{what}: {rows[:5]}"
        yield from self._programs()
        for one in recount.differences(self.cluster.control, self.cluster.settings.modules.accounting_window):
            yield f"accounting: {one}"
        for day in recount.day_differences(self.cluster.control):
            yield f"accounting of days: {day}"

    def _programs(self) -> Iterator[str]:
        nodes = self.cluster.nodes
        for node in nodes._nodes.values():
            for key, program in node.jobs.items():
                yield f"{key} is {program.state} on {node.name}, which was not told to forget it"
        for key, status in self.cluster.ended.items():
            job = self.seen[key.job]
            if job.attempt != key.attempt or key.job in self.cluster.disturbed:
                continue
            if job.state is JobState.TERMINATED and job.exit_status != status:
                yield f"job {key.job} ended with {status}, and users were told {job.exit_status}"
        for number, job in self.seen.items():
            began = [key for key in self._places if key.job == number]
            if job.state is JobState.TERMINATED and not began and not self._is_idle(job):
                yield f"job {number} is Terminated and never began"
