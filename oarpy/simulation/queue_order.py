"""Orders of the waiting queue: which job comes first, given the jobs of the workload in submission order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oarpy.model.errors import UsageError
from oarpy.simulation.trace import TraceJob

Rank = tuple[int, int]
_KEYS: dict[str, Callable[[TraceJob], int]] = {
    "fifo": lambda job: 0,
    "smallest": lambda job: job.procs,
    "largest": lambda job: -job.procs,
}
ORDERS = tuple(_KEYS)


def ranks(order: str, jobs: Sequence[TraceJob]) -> list[Rank]:
    """Return one key a job, smaller is served first; ties go to the earlier submission.

    >>> two = (TraceJob(1, 0, 5, 5, 4), TraceJob(2, 0, 5, 5, 1))
    >>> ranks("smallest", two)
    [(4, 0), (1, 1)]
    """
    key = _KEYS.get(order)
    if key is None:
        raise UsageError(f"unknown order '{order}'", hint="use one of " + ", ".join(ORDERS))
    return [(key(job), index) for index, job in enumerate(jobs)]
