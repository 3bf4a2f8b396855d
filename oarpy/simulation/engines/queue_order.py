"""Orders of the waiting queue: the order of jobs, given the workload in submission order.

An order is a name, or ``NAME/SECONDS``. Then windows of submission time of that length are served one after the other,
and the name orders the jobs within a window. So no job starves, whatever the name. The jobs ahead of a job are fixed
when its window ends. Each of them starts at most the longest walltime after it became the head of the queue: the head's
reservation never moves back, and it comes at the latest when all jobs that ran at that moment have ended. So a job
starts at most (jobs ahead + 1) * longest walltime after the end of its window, under every policy here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from oarpy.model.errors import UsageError
from oarpy.simulation.traces.trace import TraceJob

_WHOLE = re.compile(r"[0-9]{1,12}")

Rank = tuple[float, ...]
_KEYS: dict[str, Callable[[TraceJob], Rank]] = {
    "fifo": lambda job: (),
    "smallest": lambda job: (job.procs,),
    "largest": lambda job: (-job.procs,),
    "shortest": lambda job: (job.estimate,),
    "longest": lambda job: (-job.estimate,),
    "widest": lambda job: (-job.procs, -job.estimate),
}
ORDERS = tuple(_KEYS)


def is_fixed(order: str) -> bool:
    """Tell whether ``order`` looks at the jobs alone: then each has its rank once and for all.

    >>> is_fixed("longest/3600"), is_fixed("fairshare")
    (True, False)
    """
    return order.partition("/")[0] in _KEYS


def ranks(order: str, jobs: Sequence[TraceJob]) -> list[Rank]:
    """Return one key a job, smaller is served first; ties go to the earlier submission.

    ``smallest`` and ``largest`` compare sizes, ``shortest`` and ``longest`` estimates, ``widest`` is largest first and,
    among equal sizes, longest first.

    >>> two = (TraceJob(1, 0, 5, 5, 4), TraceJob(2, 90, 5, 5, 1))
    >>> ranks("smallest", two)
    [(4, 0), (1, 1)]
    >>> ranks("smallest/60", two)
    [(0, 4, 0), (1, 1, 1)]
    """
    name, slash, seconds = order.partition("/")
    key = _KEYS.get(name)
    if key is None:
        raise UsageError(f"unknown order '{order}'", hint="use one of " + ", ".join(ORDERS) + ", or NAME/SECONDS")
    if not slash:
        return [(*key(job), index) for index, job in enumerate(jobs)]
    window = _window(seconds)
    return [(job.submit // window, *key(job), index) for index, job in enumerate(jobs)]


def _window(seconds: str) -> int:
    """Return the length of a window in seconds. Raises :class:`UsageError` for an invalid text."""
    if not _WHOLE.fullmatch(seconds) or int(seconds) == 0:
        raise UsageError(f"'{seconds[:40]}' is not a window of submission time", hint="for example longest/3600")
    return int(seconds)
