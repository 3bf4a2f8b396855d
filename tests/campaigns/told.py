"""What users were told, and that it stays true: an oracle that is asked after each step of a virtual cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oarpy.model.job_types import read_types
from oarpy.model.states import ALLOWED, FINAL_STATES, JobState
from oarpy.store.analytics import recount
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import Check, Forget, Kill, Ping, TellGpus, TellLoad
from tests.campaigns.virtual_cluster import VirtualCluster, Wrong
from tests.harness.fake_transport import FakeJob
from tests.harness.virtual_time import SECOND

_JOBS = """
    SELECT job_id, state, attempt, exit_status, extract(epoch FROM started_at)::float8,
           extract(epoch FROM ended_at)::float8, types, accounted, message,
           floor(extract(epoch FROM walltime))::bigint
    FROM jobs ORDER BY job_id
"""
_HELD_ON = """
    SELECT a.resource_id FROM assigned_resources a JOIN resources r USING (resource_id)
    WHERE a.job_id = %s AND r.network_address = %s AND upper_inf(a.during)
"""
_HAS_ON = """
    SELECT FROM assigned_resources a JOIN resources r USING (resource_id)
    WHERE a.job_id = %s AND (upper_inf(a.during) OR a.suspended) AND r.network_address = ANY(%s)
"""
_UNMET = """
    SELECT required_job_id, state FROM job_dependencies d JOIN jobs r ON r.job_id = d.required_job_id
    WHERE d.job_id = %s AND (
        d.outcome = 'ok' AND (r.state <> 'Terminated' OR r.exit_status <> 0)
        OR r.state NOT IN ('Terminated', 'Error') AND NOT EXISTS (
            SELECT FROM kill_requests k WHERE k.job_id = r.job_id)
        OR d.outcome = 'notok' AND r.state = 'Terminated' AND coalesce(r.exit_status, 0) = 0)
"""
_WITHDRAWN = """
    SELECT a.job_id, r.network_address FROM assigned_resources a JOIN resources r USING (resource_id)
        JOIN jobs j USING (job_id)
    WHERE (upper_inf(a.during) OR a.suspended) AND r.state = 'Absent' AND j.state NOT IN ('Terminated', 'Error')
      AND j.state <> 'Finishing' AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = a.job_id)
"""
_STALE = """
    SELECT s.job_id, s.signal FROM signal_requests s JOIN jobs j USING (job_id)
    WHERE NOT s.done AND j.state IN ('Terminated', 'Error')
    UNION ALL SELECT w.job_id, NULL FROM walltime_changes w JOIN jobs j USING (job_id)
    WHERE NOT w.node_told AND j.state IN ('Terminated', 'Error') AND NOT EXISTS (
        SELECT FROM walltime_changes o JOIN jobs i USING (job_id)
        WHERE NOT o.node_told AND i.state NOT IN ('Terminated', 'Error'))
"""
_ON_LOST_NODES = """
    SELECT a.job_id, j.state, r.network_address FROM assigned_resources a JOIN resources r USING (resource_id)
        JOIN jobs j USING (job_id)
    WHERE (upper_inf(a.during) OR a.suspended) AND r.network_address = ANY(%s)
      AND j.state IN ('toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming')
"""
_NOT_SUSPECTED = (
    "SELECT resource_id, network_address FROM resources WHERE network_address = ANY(%s) AND state = 'Alive'"
)
_PATIENCE = 90 * SECOND
"""For how long a node may differ from what users are told, when all is calm."""
_CLEANING = 30 * SECOND
"""For how long the answer of a node is waited for that is to end what is left of a job."""
_UNDER_WAY = (JobState.FINISHING, JobState.LAUNCHING, JobState.TO_LAUNCH)
_SETTLING = 10
"""Seconds after its start for which the planned end of a job may be that of before."""
_ROUNDS = 4
"""After how many rounds of the launcher nothing is to be told any more of a job that is over."""
_ROUTINE = (Check, Forget, Ping, TellGpus, TellLoad)
"""What is sent to nodes without a reason."""
HEARS = ("metascheduler", "launcher", "canceller", "accounting")
"""Modules that are told of all they have to do."""
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
    "jobs that gave way and should not": """
        SELECT e.job_id, e.type, j.queue_name FROM event_logs e JOIN jobs j USING (job_id)
        WHERE e.type IN ('BESTEFFORT_KILL', 'GIVES_WAY') AND NOT 'besteffort' = ANY(j.types)
            AND NOT EXISTS (SELECT FROM giving_way(j))
            AND NOT EXISTS (SELECT FROM extensions x WHERE x.job_id = j.job_id)""",
    "jobs that gave way in another manner": """
        SELECT e.job_id, e.type, j.queue_name, j.project, g.manner FROM event_logs e JOIN jobs j USING (job_id)
            CROSS JOIN LATERAL giving_way(j) g
        WHERE e.type IN ('BESTEFFORT_KILL', 'GIVES_WAY') AND (e.type = 'GIVES_WAY') <> (g.manner = 'suspend')""",
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
    walltime: int | None


def _end_drifts(seen: Seen, now: float) -> bool:
    """Tell whether the planned end of a job moves with time, or may be known already.

    It moves once more when a job has begun: it counts from the start that its node tells.
    """
    if seen.state is JobState.RUNNING and seen.started is not None:
        return seen.started + (seen.walltime or 0) <= now or now - seen.started < _SETTLING
    return seen.state in _UNDER_WAY


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
    left: dict[str, str] = field(default_factory=lambda: {**_LEFT})
    """What must be left of nothing at the end, each with its query."""
    submitted: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    seen: dict[int, Seen] = field(default_factory=dict)
    changed: int = 0
    """When a job was seen to change last."""
    _rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """What ``seen`` was made from."""
    _odd: dict[tuple[JobKey, str], int] = field(default_factory=dict)
    """What on a node differs from what users are told, and since when."""
    _never: set[int] = field(default_factory=set)
    """Jobs that were over before any program of theirs began."""
    _finishing: dict[int, int] = field(default_factory=dict)
    """Since when jobs are Finishing."""
    _stale: dict[tuple[Any, ...], int] = field(default_factory=dict)
    """What is to be told of jobs that are over, and for how many rounds of the launcher."""
    _words: dict[str, str] = field(default_factory=dict)
    """What each module said last."""
    _kills: set[Kill] = field(default_factory=set)
    """What was sent already; the launcher sends it again by its own clock until the node has obeyed."""
    _places: dict[JobKey, tuple[str, frozenset[int]]] = field(default_factory=dict)
    """The first node of each program that began, and its resources there."""

    def starts(self, spec: JobSpec) -> None:
        """Check a program as it begins on a node. Raises :class:`Wrong` if it may not."""
        key, nodes = spec.key, self.cluster.nodes
        if self.cluster.began[key] > 1:
            raise Wrong(f"{key} begins a second time")
        if key.job in self._never:
            raise Wrong(f"{key} begins, though users were told that the job is over")
        if unmet := self.cluster.rows(_UNMET, key.job):
            raise Wrong(f"{key} begins, though it depends on {unmet}")
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
            _, state, attempt, status, started, ended, types, *rest = row
            now = Seen(JobState(state), attempt, status, started, ended, tuple(types), *rest)
            if (before := self.seen.get(job)) is not None:
                self._compare(job, before, now)
                if before.state is JobState.RUNNING and now.state is JobState.SUSPENDED:
                    self._require_stopped(JobKey(job, now.attempt))
            self.cluster.note(f"job {job} {now}")
            if now.state in FINAL_STATES and not any(key.job == job for key in self.cluster.began):
                self._never.add(job)
            if now.state is JobState.RUNNING and not self._is_idle(now) and now.attempt:
                self._require_begun(job, now)
            if now.state is JobState.FINISHING:
                self._finishing.setdefault(job, self.cluster.clock.now)
            elif now.state in FINAL_STATES and before is not None and before.state not in FINAL_STATES:
                self._require_clean(job)
            self.seen[job] = now
            self.changed = self.cluster.clock.now
        self._rows = rows

    def ran(self, module: str, word: str, *, unasked: bool = False) -> None:
        """Check what a module did; ``unasked``: it ran for its period alone. Raises :class:`Wrong`."""
        if module == "monitor" and word and (rows := self.cluster.rows(_WITHDRAWN)):
            raise Wrong(f"jobs stay on resources that were taken away: {rows[:5]}")
        if module == "launcher" and word:
            self._stale = {row: self._stale.get(row, 0) + 1 for row in self.cluster.rows(_STALE)}
            if rows := [row for row, rounds in self._stale.items() if rounds > _ROUNDS]:
                raise Wrong(f"nodes are to be told of jobs that are over: {rows[:5]}")
        before = self._words.get(module, "")
        repeated = word.startswith("nothing") and before.endswith(word.removeprefix("nothing"))  # victims still to go
        now = self.cluster.clock.time()
        if module == "metascheduler" and any(_end_drifts(seen, now) for seen in self.seen.values()):
            unasked = False  # it counts on ends of which it is told in a moment, or that come later by the moment
        if unasked and module in HEARS and word != "nothing" and not repeated:
            raise Wrong(f"{module} was not told of something: {word}")
        self._words[module] = word
        sent = [command for command in self.cluster.ordered if not isinstance(command, _ROUTINE)]
        if unasked and (new := [command for command in sent if command not in self._kills]):
            raise Wrong(f"{module} was not told of something: it sends {new[:3]}")
        self._kills |= {command for command in sent if isinstance(command, Kill)}

    def look_at_nodes(self) -> None:
        """Compare what runs with what users are told, when all is calm. Raises :class:`Wrong`."""
        odd: dict[tuple[JobKey, str], int] = {}
        away = [node.name for node in self.cluster.nodes._nodes.values() if node.unreachable]
        for node in self.cluster.nodes._nodes.values():
            for key, program in node.jobs.items():
                if program.started is None or key.job not in self.seen or node.unreachable:
                    continue
                why = _differs(key, self.seen[key.job], program)
                if why and not self.cluster.rows(_HAS_ON, key.job, away):  # all its nodes are to obey
                    since = odd[key, why] = self._odd.get((key, why), self.cluster.clock.now)
                    if self.cluster.clock.now - since > _PATIENCE:
                        raise Wrong(f"{key} {why} on {node.name}, and users are told {self.seen[key.job]}")
        for job, told in self.seen.items():
            key = JobKey(job, told.attempt)
            if told.state is not JobState.RUNNING or key not in self._places:
                continue
            node = self.cluster.nodes.node(self._places[key][0])
            if key not in node.jobs and not node.unreachable:
                since = odd[key, "is gone"] = self._odd.get((key, "is gone"), self.cluster.clock.now)
                if self.cluster.clock.now - since > _PATIENCE:
                    raise Wrong(f"{key} is gone from {node.name}, and users are told {told}")
        self._odd = odd

    def require_given_up(self, away: Sequence[str]) -> None:
        """Check that nodes which are away for long are given up. Raises :class:`Wrong`."""
        for what, query in {"jobs wait for nodes": _ON_LOST_NODES, "resources of nodes": _NOT_SUSPECTED}.items():
            if rows := self.cluster.rows(query, [*away]):
                raise Wrong(f"{what} that are away: {rows[:5]}")

    @staticmethod
    def _is_idle(job: Seen) -> bool:
        return read_types(job.types).runs_nothing

    def _require_begun(self, job: int, now: Seen) -> None:
        if not self.cluster.began[JobKey(job, now.attempt)]:
            raise Wrong(f"job {job} is Running, and no node has begun attempt {now.attempt}")

    def _require_clean(self, job: int) -> None:
        """Check that nodes which answer have ended what they had of a job that is over now."""
        since = self._finishing.get(job, self.cluster.clock.now)
        if self.cluster.clock.now - since > _CLEANING:
            return
        for node in self.cluster.nodes._nodes.values():
            if node.deaf or node.unreachable or self.cluster.troubled[node.name] >= since:
                continue
            if some := [key for key in self.cluster.left[node.name] - node.forgotten if key.job == job]:
                raise Wrong(f"job {job} is over, and {node.name} was not told to end what it may have of {some}")

    def _require_stopped(self, key: JobKey) -> None:
        if key not in self._places or key.job in self.cluster.disturbed:
            return
        program = self.cluster.nodes.node(self._places[key][0]).jobs.get(key)
        if program is not None and program.ended is None and program.suspended is None:
            raise Wrong(f"{key} goes on, though users were told that it is suspended")

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
        for what, query in self.left.items():
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
            for key in self.cluster.left[node.name] - node.forgotten:
                yield f"{key} may have left processes on {node.name}, which was not told to end them"
        killed = {job for (job,) in self.cluster.rows("SELECT job_id FROM kill_requests")}
        for key, status in self.cluster.ended.items():
            job = self.seen[key.job]
            if job.attempt != key.attempt or key.job in self.cluster.disturbed | killed:
                continue
            if job.exit_status != status and not job.message.startswith("node "):
                yield f"job {key.job} ended with {status}, and users were told {job}"
        for number, job in self.seen.items():
            began = [key for key in self._places if key.job == number]
            if job.state is JobState.TERMINATED and not began and not self._is_idle(job):
                yield f"job {number} is Terminated and never began"
            if "too often" in job.message and job.attempt < self.cluster.settings.jobs.launch_limit:
                yield f"job {number} was given up after {job.attempt} attempts"
        again = self.cluster.rows("SELECT resubmit_of FROM jobs WHERE resubmit_of = ANY(%s)", [*self.deleted])
        if again:
            yield f"jobs were deleted and submitted again: {again}"


def _differs(key: JobKey, told: Seen, program: FakeJob) -> str:
    """Say how a program that was started differs from what users are told of its job; "" if it does not."""
    if program.ended is not None:
        return "has ended" if told.state is JobState.RUNNING and told.attempt == key.attempt else ""
    if told.state in FINAL_STATES:
        return "still runs"
    if told.attempt != key.attempt:
        return "is of an earlier attempt"
    if (program.suspended is not None) != (told.state in (JobState.SUSPENDED, JobState.RESUMING)):
        return "is stopped" if program.suspended is not None else "goes on"
    if told.state is JobState.RUNNING and program.walltime != max(told.walltime or 0, 1):
        return f"has a walltime of {program.walltime}"
    return ""
