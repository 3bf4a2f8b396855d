"""The plan that a simulated queue keeps is the one that is made from nothing, whatever has happened since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from oarpy.grid.simulation.named_queue import NamedQueue, PlannedNamedQueue
from oarpy.grid.simulation.queues import QueuedJob
from oarpy.grid.simulation.scenario import QueuePolicy

PROCS = 6


@dataclass(frozen=True)
class Happening:
    """One thing that happens ``after`` seconds; ``which`` chooses among the jobs that it may happen to."""

    kind: Literal["join", "end", "leave", "claim", "wait"]
    after: int
    which: int
    procs: int
    walltime: int


HAPPENINGS = st.lists(
    st.builds(
        Happening,
        st.sampled_from(["join", "join", "join", "end", "end", "leave", "claim", "wait"]),
        st.integers(0, 4),
        st.integers(0, 20),
        st.integers(1, PROCS),
        st.integers(1, 9),
    ),
    max_size=30,
)


@given(policy=st.sampled_from(["fcfs", "conservative"]), happenings=HAPPENINGS)
def test_a_plan_that_is_kept_is_the_one_made_from_nothing(policy: QueuePolicy, happenings: list[Happening]) -> None:
    kept, plain = PlannedNamedQueue(PROCS, policy), NamedQueue(PROCS, policy)
    waiting: dict[int, QueuedJob] = {}
    held: set[int] = set()
    now = 0.0
    for number, one in enumerate(happenings):
        now += one.after
        job = QueuedJob(number, one.procs, float(one.walltime))
        _let_happen(one, job, (kept, plain), waiting, held, now)
        _starts_are_equal((kept, plain), waiting, held, now)
        asked = [*waiting.values(), QueuedJob(1000 + number, one.procs, float(one.walltime)), job]
        asked = list({job.number: job for job in asked if job.number not in held}.values())
        assert kept.completions(asked, now) == plain.completions(asked, now)
        _starts_are_equal((kept, plain), waiting, held, now)


def _let_happen(
    one: Happening,
    job: QueuedJob,
    queues: tuple[NamedQueue, ...],
    waiting: dict[int, QueuedJob],
    held: set[int],
    now: float,
) -> None:
    """Let one thing happen to both queues, if it can."""
    among = sorted(held if one.kind == "end" else waiting)
    chosen = among[one.which % len(among)] if among else None
    fits = queues[0].idle >= job.procs
    for queue in queues:
        if one.kind == "join":
            queue.join(job, now)
        elif one.kind == "claim" and fits:
            queue.hold(job.number, job.procs, now + job.walltime, now)
        elif one.kind == "end" and chosen is not None:
            queue.free(chosen, now)
        elif one.kind == "leave" and chosen is not None:
            queue.leave(chosen)
    if one.kind == "join":
        waiting[job.number] = job
    elif one.kind == "claim" and fits:
        held.add(job.number)
    elif one.kind == "end" and chosen is not None:
        held.remove(chosen)
    elif one.kind == "leave" and chosen is not None:
        del waiting[chosen]


def _starts_are_equal(
    queues: tuple[NamedQueue, ...], waiting: dict[int, QueuedJob], held: set[int], now: float
) -> None:
    """Let both queues start who is due: the same jobs, on the same processors."""
    first, second = (list(queue.plan(now)) for queue in queues)
    assert first == second
    assert queues[0].due == queues[1].due
    assert queues[0].idle_bits == queues[1].idle_bits
    for number in first:
        del waiting[number]
        held.add(number)
