"""Bags of tasks as their users submit and see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oarpy.model.submission import Submission
from oarpy.store.database import Connection
from oarpy.store.rows import read

_INSERT = """
    INSERT INTO bags (bag_id, user_name, tasks, deadline, strict)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::int[], %s::timestamptz[], %s::boolean[])
"""

_ANSWER = """
    SELECT extract(epoch FROM c.promise)::float8 AS promise, extract(epoch FROM c.expected)::float8 AS expected,
           extract(epoch FROM b.deadline)::float8 AS deadline,
           CASE c.kind WHEN 'REFUSED' THEN c.cause ELSE '' END AS reason
    FROM bags b JOIN bag_changes c USING (bag_id)
    WHERE bag_id = %s AND c.kind IN ('PROMISED', 'REFUSED') ORDER BY change_id LIMIT 1
"""

_COLUMNS = """
    b.bag_id AS bag, b.user_name AS user, b.tasks, b.strict,
    extract(epoch FROM b.deadline)::float8 AS deadline, extract(epoch FROM b.submitted_at)::float8 AS submitted,
    extract(epoch FROM b.promise)::float8 AS promise, extract(epoch FROM b.expected)::float8 AS expected,
    extract(epoch FROM b.ended)::float8 AS ended
"""
_BAG = f"SELECT {_COLUMNS} FROM bags b WHERE b.bag_id = %s"  # noqa: S608 - columns named above
_OF_TASKS = f"""
    SELECT {_COLUMNS}, j.job_id AS task FROM jobs j JOIN bags b ON b.bag_id = j.array_id
    WHERE j.job_id = ANY(%s) AND 'bag' = ANY(j.types)
"""  # noqa: S608
_CHANGES = """
    SELECT extract(epoch FROM at)::float8 AS at, kind, extract(epoch FROM promise)::float8 AS promise,
           extract(epoch FROM expected)::float8 AS expected, cause
    FROM bag_changes WHERE bag_id = %s ORDER BY change_id
"""
# A task that was run again has several jobs: the last one has its state. A job that repeats it by hand is no task.
_STATES = """
    SELECT state, exit_status IS DISTINCT FROM 0 AND state = 'Terminated' AS failed, count(*) AS tasks
    FROM (SELECT DISTINCT ON (array_index) state, exit_status
          FROM oar_all.jobs WHERE array_id = %s AND 'bag' = ANY(types)
          ORDER BY array_index, job_id DESC) AS last
    GROUP BY 1, 2 ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class BagAnswerRow:
    """The first answer to a bag; ``reason`` says why it was refused. Instants in epoch seconds."""

    promise: float | None
    expected: float | None
    deadline: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class BagRow:
    """A bag; instants in epoch seconds."""

    bag: int
    user: str
    tasks: int
    strict: bool
    deadline: float | None
    submitted: float
    promise: float | None
    expected: float | None
    ended: float | None


@dataclass(frozen=True, slots=True)
class BagOfTask(BagRow):
    """The bag of a ``task``, by the number of its job."""

    task: int


@dataclass(frozen=True, slots=True)
class BagChangeRow:
    """A change of the promise or the expected end of a bag, and its cause."""

    at: float
    kind: str
    promise: float | None
    expected: float | None
    cause: str


@dataclass(frozen=True, slots=True)
class StateRow:
    """The number of tasks in a state; ``failed`` tasks ended with another status than 0."""

    state: str
    failed: bool
    tasks: int


def insert(connection: Connection, new: Sequence[tuple[int, Submission]]) -> None:
    """Store new bags, by the first job of each."""
    if new:
        rows = [(bag, submission.user, submission.bag, submission.until, submission.strict) for bag, submission in new]
        connection.execute(_INSERT, [list(column) for column in zip(*rows, strict=True)])


def answer(connection: Connection, bag: int) -> BagAnswerRow | None:
    """Return the answer to a bag, None while there is none."""
    answers = read(connection, _ANSWER, BagAnswerRow, [bag])
    return answers[0] if answers else None


def bag(connection: Connection, number: int) -> BagRow | None:
    """Return a bag, None if there is none."""
    bags = read(connection, _BAG, BagRow, [number])
    return bags[0] if bags else None


def of_tasks(connection: Connection, jobs: Sequence[int]) -> dict[int, BagRow]:
    """Return the bags of the jobs that are tasks, by job."""
    return {row.task: row for row in read(connection, _OF_TASKS, BagOfTask, [list(jobs)])}


def changes(connection: Connection, number: int) -> list[BagChangeRow]:
    """Return the changes of the promise of a bag, the oldest first."""
    return read(connection, _CHANGES, BagChangeRow, [number])


def states(connection: Connection, number: int) -> Mapping[str, int]:
    """Return the number of a bag's tasks in each state; failed tasks are ``Failed``."""
    tasks: dict[str, int] = {}
    for row in read(connection, _STATES, StateRow, [number]):
        state = "Failed" if row.failed or row.state == "Error" else row.state
        tasks[state] = tasks.get(state, 0) + row.tasks
    return tasks
