"""Bags of tasks over clusters: their requests, the promises of clusters, and the fates of their tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from psycopg.types.json import Jsonb

from oarpy.store.database import Connection
from oarpy.store.rows import read

BagPolicy = Literal["plb", "dplb", "dplbv2", "nolb", "slots"]
TaskState = Literal["Asked", "Live", "Over", "Failed", "Lost", "Gone"]


@dataclass(frozen=True, slots=True)
class NewGridBag:
    """The request for a bag; ``deadline`` in epoch seconds."""

    tasks: int
    policy: BagPolicy
    deadline: float | None = None
    strict: bool = False
    profile: str = ""
    """The script that tells the seconds of a task; empty: none."""


@dataclass(frozen=True, slots=True)
class GridBagRow:
    """A bag; instants in epoch seconds. ``told`` has the offer of each cluster, or why it was left out.

    ``expected`` is when its last task is done as clusters plan now, and ``version`` how often that changed.
    """

    job: int
    tasks: int
    deadline: float | None
    strict: bool
    policy: BagPolicy
    used_policy: str
    rounds: int
    told: Mapping[str, str]
    promise: float | None
    expected: float | None
    version: int
    profile: str = ""
    profiled: Mapping[str, Any] | None = None
    """``seconds`` of a task by cluster and type of nodes, and why some are ``missing``; None: not told yet."""

    @property
    def seconds(self) -> Mapping[str, Mapping[str, float]]:
        """The seconds of a task by cluster and type of nodes, as far as they are known."""
        return self.profiled["seconds"] if self.profiled else {}

    @property
    def missing(self) -> Sequence[str]:
        """Where tasks count with their walltime, and why."""
        return self.profiled["missing"] if self.profiled else ()

    @property
    def meets(self) -> bool | None:
        """Whether the deadline is met; None without one, or without a promise."""
        return None if self.deadline is None or self.promise is None else self.promise <= self.deadline


@dataclass(frozen=True, slots=True)
class GridBagPartRow:
    """A part of a bag; instants in epoch seconds. ``asked``, ``live`` and ``settled`` count its tasks.

    ``told`` is the version of the whole completion that its cluster knows.
    """

    part: str
    job: int
    promised: float | None
    completion: float | None
    told: int
    asked: int
    live: int
    settled: int

    @property
    def done_by(self) -> float | None:
        """When its last task is done, by the last message of its cluster."""
        return self.promised if self.completion is None else self.completion


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task by the copy of it that counts; it is none of its clusters' that are ``Gone``."""

    task: int
    state: TaskState
    exit_status: int | None
    message: str


_ADD = """
    INSERT INTO grid_bags (job, tasks, policy, deadline, strict, profile) VALUES (%s, %s, %s, to_timestamp(%s), %s, %s)
"""
_OF_JOBS = """
    SELECT job, tasks, extract(epoch FROM deadline)::float8 AS deadline, strict, policy, used_policy, rounds, told,
           extract(epoch FROM promise)::float8 AS promise, extract(epoch FROM expected)::float8 AS expected, version,
           profile, profiled
    FROM grid_bags WHERE job = ANY(%s)
"""
_PARTS = """
    SELECT b.part, b.job, extract(epoch FROM b.promised)::float8 AS promised,
           extract(epoch FROM b.completion)::float8 AS completion, b.told,
           count(*) FILTER (WHERE t.state = 'Asked')::int AS asked,
           count(*) FILTER (WHERE t.state = 'Live')::int AS live,
           count(*) FILTER (WHERE t.state IN ('Over', 'Failed'))::int AS settled
    FROM grid_bag_parts b JOIN grid_bag_tasks t USING (part) WHERE b.job = ANY(%s)
    GROUP BY b.part ORDER BY b.part
"""
_OPEN = """
    SELECT n FROM generate_series(1, %(tasks)s) AS n
    WHERE NOT EXISTS (SELECT FROM grid_bag_tasks t
                      WHERE t.job = %(job)s AND t.task = n AND t.state <> 'Gone')
    ORDER BY n
"""
_TASKS = """
    SELECT DISTINCT ON (task) task, state, exit_status, message FROM grid_bag_tasks
    WHERE job = %s AND state <> 'Gone'
    ORDER BY task, array_position(ARRAY['Over', 'Live', 'Failed', 'Asked', 'Lost'], state)
"""
_ALL_ENDED = """
    SELECT count(DISTINCT t.task) = b.tasks FROM grid_bags b JOIN grid_bag_tasks t USING (job)
    WHERE b.job = %s AND t.state IN ('Over', 'Failed') GROUP BY b.job
"""
_COMPOSING = "SELECT EXISTS (SELECT FROM grid_bags b JOIN grid_jobs j ON j.id = b.job WHERE j.state = 'Submitted')"
_LOOKED = "UPDATE grid_bags SET used_policy = %s, told = %s WHERE job = %s"
_PROFILED = "UPDATE grid_bags SET profiled = %s WHERE job = %s"
_ROUND = "UPDATE grid_bags SET rounds = rounds + 1 WHERE job = %s"
_ROOM = """
    INSERT INTO grid_components (job, number, resources, procs, properties, types)
    SELECT c.job, s.number, c.resources, c.procs, c.properties, c.types
    FROM grid_components c, generate_series(1, %s) AS s(number) WHERE (c.job, c.number) = (%s, 0)
    ON CONFLICT (job, number) DO NOTHING
"""
_COUNT = "UPDATE grid_jobs SET components = %s WHERE id = %s"
_ADD_PART = "INSERT INTO grid_bag_parts (part, job) VALUES (%s, %s)"
_ADD_TASKS = "INSERT INTO grid_bag_tasks (part, job, task) SELECT %s, %s, unnest(%s::int[])"
_PROMISED = "UPDATE grid_bag_parts SET promised = to_timestamp(%s) WHERE part = %s"
_PROMISE = "UPDATE grid_bags SET promise = to_timestamp(%s) WHERE job = %s"
_EXPECTED = "UPDATE grid_bags SET expected = to_timestamp(%s), version = version + 1 WHERE job = %s"
_COMPLETION = "UPDATE grid_bag_parts SET completion = to_timestamp(%s) WHERE part = %s"
_TOLD = "UPDATE grid_bag_parts SET told = greatest(told, %s) WHERE part = %s"
_MOVE = """
    UPDATE grid_bag_tasks SET state = %s, message = %s WHERE part = ANY(%s) AND state = ANY(%s) RETURNING task
"""
# A task that was given up with its cluster may be heard to have succeeded all the same; it stays lost if it was ended
# there, which is what the broker asked for. A task that goes on elsewhere is that one.
_TASK_OVER = """
    UPDATE grid_bag_tasks SET state = %(state)s, exit_status = %(status)s, message = %(message)s
    WHERE (part, task) = (%(part)s, %(task)s) AND (state = 'Live' OR (state = 'Lost' AND %(state)s = 'Over'))
"""


def add(connection: Connection, job: int, bag: NewGridBag) -> None:
    """Store the bag that a job asks for."""
    connection.execute(_ADD, [job, bag.tasks, bag.policy, bag.deadline, bag.strict, bag.profile])


def of_jobs(connection: Connection, jobs: Sequence[int]) -> dict[int, GridBagRow]:
    """Return those of jobs that are bags."""
    return {row.job: row for row in read(connection, _OF_JOBS, GridBagRow, [list(jobs)])}


def of_job(connection: Connection, job: int) -> GridBagRow:
    """Return the request of a bag, and its promise."""
    return of_jobs(connection, [job])[job]


def parts_of(connection: Connection, jobs: Sequence[int]) -> list[GridBagPartRow]:
    """Return all parts that bags ever had, by name."""
    return read(connection, _PARTS, GridBagPartRow, [list(jobs)])


def tasks_of(connection: Connection, job: int) -> list[TaskRow]:
    """Return the tasks of a bag that clusters have or had, by number."""
    return read(connection, _TASKS, TaskRow, [job])


def open_tasks(connection: Connection, bag: GridBagRow) -> list[int]:
    """Return the tasks that no cluster has, had, or is requested to take."""
    return [task for (task,) in connection.execute(_OPEN, {"job": bag.job, "tasks": bag.tasks})]


def are_composed(connection: Connection) -> bool:
    """Tell whether a bag waits for its clusters: offers for it may be open."""
    row = connection.execute(_COMPOSING).fetchone()
    return row is not None and bool(row[0])


def note_look(connection: Connection, job: int, policy: str, offers: Mapping[str, str]) -> None:
    """Note the offer of each cluster for a bag, and the policy that shared out its tasks."""
    connection.execute(_LOOKED, [policy, Jsonb(dict(offers)), job])


def note_profiled(
    connection: Connection, job: int, seconds: Mapping[str, Mapping[str, float]], missing: Sequence[str]
) -> None:
    """Note the seconds of a task by cluster and type of nodes, and why some are not known."""
    connection.execute(_PROFILED, [Jsonb({"seconds": seconds, "missing": list(missing)}), job])


def note_round(connection: Connection, job: int) -> None:
    """Note that clusters did not keep their offers."""
    connection.execute(_ROUND, [job])


def make_room(connection: Connection, job: int, components: int) -> None:
    """Let a bag have so many components: each stands for a part."""
    connection.execute(_ROOM, [components - 1, job])
    connection.execute(_COUNT, [components, job])


def begin_parts(connection: Connection, job: int, parts: Mapping[str, Sequence[int]]) -> None:
    """Note the tasks that clusters are requested to take, by the names of parts."""
    for part, tasks in parts.items():
        connection.execute(_ADD_PART, [part, job])
        connection.execute(_ADD_TASKS, [part, job, list(tasks)])


def note_promised(connection: Connection, part: str, end: float) -> None:
    """Note by when the tasks of a part are done (epoch seconds), as its cluster promised."""
    connection.execute(_PROMISED, [end, part])


def promise(connection: Connection, job: int, end: float) -> None:
    """Note by when a bag is done (epoch seconds)."""
    connection.execute(_PROMISE, [end, job])


def expect(connection: Connection, job: int, end: float) -> None:
    """Note when a bag is done as clusters plan now (epoch seconds): a new version of that."""
    connection.execute(_EXPECTED, [end, job])


def note_completion(connection: Connection, part: str, completion: float) -> None:
    """Note when the last task of a part is done (epoch seconds), by the message of its cluster."""
    connection.execute(_COMPLETION, [completion, part])


def note_told(connection: Connection, part: str, version: int) -> None:
    """Note that the cluster of a part knows a version of the whole completion."""
    connection.execute(_TOLD, [version, part])


def move(
    connection: Connection, parts: Collection[str], sources: Collection[TaskState], target: TaskState, message: str = ""
) -> list[int]:
    """Bring the tasks of parts that are in one of some states to another one; return their numbers."""
    values = [target, message[:1000], list(parts), list(sources)]
    return sorted(task for (task,) in connection.execute(_MOVE, values))


def all_ended(connection: Connection, job: int) -> bool:
    """Tell whether each task of a bag is known to have ended by itself."""
    row = connection.execute(_ALL_ENDED, [job]).fetchone()
    return row is not None and bool(row[0])


def task_over(connection: Connection, part: str, task: int, status: int | None, message: str) -> None:
    """Note that a task is over."""
    state = "Over" if status == 0 else "Failed"
    values = {"state": state, "status": status, "message": message[:1000], "part": part, "task": task}
    connection.execute(_TASK_OVER, values)
