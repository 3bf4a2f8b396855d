"""What became of bags over clusters: tasks that ran, the broker's table, and what clusters have, held together."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import psycopg

from oarpy.grid.local.local_grid import LocalGrid

_BAGS = """
    SELECT j.id, j.state, j.message, b.tasks, 'idempotent' = ANY(c.types), b.promise IS NOT NULL
    FROM grid_jobs j JOIN grid_bags b ON b.job = j.id JOIN grid_components c ON c.job = j.id AND c.number = 0
    ORDER BY j.id
"""
_TASKS = "SELECT part, task, job, state FROM grid_bag_tasks"
_THERE = """
    SELECT p.part, p.tasks[j.array_index], j.state = 'Terminated' AND j.exit_status = 0
    FROM door_parts p JOIN jobs j ON j.array_id = p.job_id AND 'bag' = ANY(j.types)
    WHERE p.kind = 'bag' AND p.state = 'Committed' AND NOT EXISTS (SELECT FROM jobs r WHERE r.resubmit_of = j.job_id)
"""
_ELSEWHERE = """
    SELECT count(DISTINCT (job, task)) FROM grid_bag_tasks WHERE state = 'Gone' AND right(message, 8) = ' is lost'
"""
_MOST = 5
"""Cases that are shown of one kind."""


@dataclass(slots=True)
class BagBooks:
    """Bags by state, tasks by what became of them, and what is wrong."""

    bags: Counter[str] = field(default_factory=Counter)
    tasks: Counter[str] = field(default_factory=Counter)
    elsewhere: int = 0
    """Tasks that were given to another cluster because theirs was lost."""
    wrong: list[str] = field(default_factory=list)


def books_of_bags(grid: LocalGrid) -> BagBooks:
    """Hold what tasks wrote against what the broker says of them, and that against what clusters say."""
    found = BagBooks()
    lines = (grid.home / "tasks").read_text().splitlines()
    ran = Counter(tuple(map(int, line.split())) for line in lines)
    copies = {(part, task): (job, state) for part, task, job, state in grid.sql(_TASKS)}
    states = defaultdict[tuple[int, int], set[str]](set)
    for (_, task), (job, state) in copies.items():
        states[job, task].add(state)
    for bag in grid.sql(_BAGS):
        _check_bag(found, ran, states, *bag)
    _check_clusters(grid, found, copies)
    ((found.elsewhere,),) = grid.sql(_ELSEWHERE)
    return found


def _check_bag(
    found: BagBooks,
    ran: Counter[tuple[int, ...]],
    states: dict[tuple[int, int], set[str]],
    job: int,
    state: str,
    message: str,
    tasks: int,
    idempotent: bool,
    promised: bool,
) -> None:
    """Check a bag: each task ended once or is told lost, and ran as often as it may."""
    found.bags[f"{'idempotent ' if idempotent else ''}{state}{'' if promised else ' without a promise'}"] += 1
    lost, wrong = 0, Counter[str]()
    for task in range(1, tasks + 1):
        told = states[job, task] - {"Gone"} if (job, task) in states else set()
        times = ran[job, task]
        found.tasks["run twice" if times > 1 else "run once" if times else "not run"] += 1
        found.tasks.update(f"told {one}" for one in told)
        lost += told == {"Lost"}
        if promised and not (told and told <= {"Over", "Lost"}):
            wrong[f"is told {sorted(told)}"] += 1
        if "Over" in told and not times:
            wrong["is over and did not run"] += 1
        if times > 1 and not idempotent:
            wrong[f"ran {times} times"] += 1
        if "Lost" in told and idempotent:
            wrong["is lost, and may run again"] += 1
        if not promised and times:
            wrong["ran without a promise"] += 1
    if promised and (state == "Error") != (lost > 0 or "heard late" in message):
        wrong[f"lost {lost}, and the bag is told {state}"] += 1
    if state == "Error" and not message:
        wrong["nothing is told"] += 1
    found.wrong += [f"bag {job} ({state}, {message!r}): {count} times a task {what}" for what, count in wrong.items()]


def _check_clusters(grid: LocalGrid, found: BagBooks, copies: dict[tuple[Any, Any], tuple[int, str]]) -> None:
    """Check that the broker's table is what clusters say, but for copies that are given up."""
    for name, there in grid.clusters.items():
        with psycopg.connect(there.dsn(), autocommit=True) as connection:
            rows = connection.execute(_THERE).fetchall()
        differ = [
            (part, task, good, copies.get((part, task), (0, "unknown"))[1])
            for part, task, good in rows
            if copies.get((part, task), (0, "unknown"))[1] not in (("Over", "Gone") if good else ("Lost", "Gone"))
        ]
        if differ:
            found.wrong.append(f"{len(differ)} tasks of {name} are otherwise at the broker, such as {differ[:_MOST]}")
