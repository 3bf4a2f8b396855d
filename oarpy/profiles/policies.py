"""Starts by counts alone: when the head of a queue can start, and the jobs that start beside it under EASY."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, Protocol


class Sized(Protocol):
    """A job that waits: its number, the processors that it needs, and for how many seconds."""

    @property
    def number(self) -> int: ...

    @property
    def procs(self) -> int: ...

    @property
    def walltime(self) -> float: ...


def shadow(procs: int, free: int, held: Iterable[tuple[Any, ...]]) -> tuple[float, int]:
    """Return the predicted end by which ``procs`` processors are free, and how many more are free then.

    ``held`` are tuples in the order of their predicted ends. The first entry of a tuple is the end, the last the number
    of processors held until then.
    """
    instant = -inf
    for entry in held:
        if free >= procs and entry[0] > instant:
            break
        instant, free = entry[0], free + entry[-1]
    return instant, free - procs


def easy_starts(waiting: Sequence[Sized], held: Sequence[tuple[float, int]], idle: int, now: float) -> list[int]:
    """Return the jobs that start at ``now`` under EASY; ``held`` are (predicted end, processors held until then).

    After D. Lifka, "The ANL/IBM SP scheduling system" (JSSPP 1995): a job behind the head starts if it ends by the
    *shadow*, when the head can start, or if it leaves the head its processors (*extra*).
    """
    started: list[int] = []
    running = list(held)
    for job in waiting:
        if job.procs > idle:
            break
        idle -= job.procs
        running.append((now + job.walltime, job.procs))
        started.append(job.number)
    if len(started) == len(waiting):
        return started
    head_starts, extra = shadow(waiting[len(started)].procs, idle, sorted(running))
    for job in waiting[len(started) + 1 :]:
        if idle <= 0:
            break
        if job.procs > idle:
            continue
        if now + job.walltime > head_starts:
            if job.procs > extra:
                continue
            extra -= job.procs
        idle -= job.procs
        started.append(job.number)
    return started
