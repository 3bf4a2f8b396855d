"""Who gives way to whom: queues have levels, and best-effort jobs are on the lowest.

A queue may name others that its jobs give way to; it is below each of them then. Queues that name none are on the top
level, 0. A job may take the resources of running jobs on deeper levels, and never those of its own level or a higher
one::

    0  default, night      give way to nobody
    1  guests              gives way to default
    2  spare               gives way to guests
    .  best-effort jobs    give way to all others
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from oarpy.scheduler.snapshot import HoldingJob, Queue, WaitingJob

Job = WaitingJob | HoldingJob
LOWEST: Final = 1_000_000
"""The level of best-effort jobs."""


class Precedence:
    """The levels of some queues."""

    def __init__(self, queues: Sequence[Queue]) -> None:
        self._depths = depths({queue.name: queue.gives_way_to for queue in queues if queue.gives_way_to})

    @staticmethod
    @lru_cache(maxsize=64)
    def of(queues: tuple[Queue, ...]) -> Precedence:
        """Return the levels of ``queues``."""
        return Precedence(queues)

    def depth(self, job: Job) -> int:
        """Return the level of a job: 0 if it gives way to nobody, :data:`LOWEST` if it is best-effort."""
        return LOWEST if job.besteffort else self._depths.get(job.queue, 0)

    def yields(self, holder: Job, other: Job) -> bool:
        """Tell whether ``holder`` gives way to ``other``."""
        return self.depth(holder) > self.depth(other)


def depths(gives_way_to: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the level of each queue that gives way to others. Queues of a circle give way to nobody."""
    found: dict[str, int] = {}
    left = dict(gives_way_to)
    while ready := {name: named for name, named in left.items() if not left.keys() & set(named)}:
        for name, named in ready.items():
            found[name] = 1 + max((found.get(other, 0) for other in named), default=0)
        left = {name: named for name, named in left.items() if name not in ready}
    return found
