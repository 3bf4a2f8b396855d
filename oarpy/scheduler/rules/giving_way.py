"""Giving way: the jobs on lower levels that are cancelled so that another job can begin.

Which queues are on which level is in :mod:`~oarpy.scheduler.precedence`; best-effort jobs are on the lowest.

- A job gives way only to a job on a higher level, and only if idle resources do not suffice. A job that would begin now
  is first tried beside all resources of jobs that might have to go. Only if that fails, it is tried with those of the
  lowest level too, then of the next.
- A job is in the way if it holds a resource that the other job gets, and does not share it with that job.
- Some jobs merely hold too much of a consumable. Among these, jobs that are cancelled anyway go first, then the lowest
  level, then the last that began. A job that is suspended when it gives way keeps what the site does not have freed.
- No job goes before its minimum life is over. For an accepted reservation it goes a lead earlier than the date, and
  earlier still by the time of its checkpoint, or the grace of its queue. Any other job that makes it go begins then::

    3 3 3 3 3 3 3 c c c . . 5 5 5 5        job 3, its checkpoint, then reservation 5
                  |     |   |
          leaves_at     |   date
                        date - lead
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from oarpy.scheduler.gantt.exclusive_levels import AskedLevel, Blocks
from oarpy.scheduler.gantt.gantt import Kept, bits_consumed_from, bits_held
from oarpy.scheduler.job_roles import Profile, roles_of
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.consumables import Capacities, Consumer
from oarpy.scheduler.snapshot import HoldingJob, Snapshot, WaitingJob

Part = tuple[str, str]
"""A consumable, and one of its blocks."""


def may_go(snapshot: Snapshot, jobs: Iterable[HoldingJob]) -> list[HoldingJob]:
    """Return those of ``jobs`` that run, give way to others, and have had their minimum life."""
    depth, now, life = Precedence.of(snapshot).depth, snapshot.now, snapshot.besteffort_minimum_life
    return [job for job in jobs if depth(job) and job.start + life <= now < job.end]


def leaves_at(snapshot: Snapshot, job: HoldingJob, date: float, lead: float) -> float:
    """Return when to cancel ``job`` so that it is gone ``lead`` seconds before ``date``, after its minimum life."""
    return max(date - lead - job.checkpoint, job.start + snapshot.besteffort_minimum_life)


class Yielding:
    """The jobs of ``jobs`` that may have to go, for jobs on higher levels."""

    def __init__(self, snapshot: Snapshot, capacities: Capacities, blocks: Blocks, jobs: Iterable[HoldingJob]) -> None:
        self._snapshot, self._capacities, self._blocks = snapshot, capacities, blocks
        self._precedence = Precedence.of(snapshot)
        held = [(job, self._precedence.depth(job)) for job in jobs]
        self._held = [(job, bits_held(snapshot.platform, job), depth) for job, depth in held if depth]
        self._deepest = max((depth for _, _, depth in self._held), default=0)
        self._kept: dict[tuple[Profile, int], list[Kept]] = {}

    def anybody_for(self, other: WaitingJob | HoldingJob) -> bool:
        """Tell whether there is a job that may have to go for ``other``."""
        return self._deepest > 0 and self._deepest > self._precedence.depth(other)

    def gone_at(self) -> dict[int, float]:
        """Return when each job that takes its time to leave, told now, has left or is over anyhow."""
        now, security = self._snapshot.now, self._snapshot.security_time
        return {job.id: min(now + job.checkpoint, job.end + security) for job, _, _ in self._held if job.checkpoint}

    def kept_from(self, other: WaitingJob, security: float) -> list[Kept]:
        """Return the resources that ``other`` must not use if no job is to go for it; sharing jobs are left out.

        What comes next leaves out the jobs of the lowest level, then those of the next. Amounts are kept for the
        ``security`` time after the end of a job, too.
        """
        key = roles_of(other).profile, self._precedence.depth(other)
        if key not in self._kept:
            lower = [held for held in self._held if held[2] > key[1]]
            levels = sorted({depth for _, _, depth in lower}, reverse=True)
            self._kept[key] = [self._resources(lower, limit, key[0], security) for limit in levels]
        return self._kept[key]

    def _resources(
        self, jobs: Iterable[tuple[HoldingJob, int, int]], limit: int, profile: Profile, security: float
    ) -> Kept:
        """Return what jobs down to the level ``limit`` have that do not share with ``profile``."""
        bits, levels, amounts = 0, dict[AskedLevel, int](), []
        for job, held, depth in jobs:
            if depth > limit:
                continue
            if released := job.released_amounts:
                amounts.append((job.end + security, bits_consumed_from(self._snapshot.platform, job), released))
            if not roles_of(job).profile.shares(profile):
                bits |= held
                for level in self._blocks.of_holder(job):
                    levels[level] = levels.get(level, 0) | self._blocks.touched(level.name, held)
        return Kept(bits, tuple(amounts), tuple(levels.items()))

    def on(self, bits: int, other: WaitingJob | HoldingJob, levels: Collection[AskedLevel] = ()) -> list[int]:
        """Return the jobs in the way of ``other`` on the resources ``bits``; it asks for the exclusive ``levels``."""
        profile, above = roles_of(other).profile, self._precedence.depth(other)
        return [
            job.id
            for job, held, depth in self._held
            if depth > above
            and (held & bits or self._blocks.common(levels, bits, self._blocks.of_holder(job), held))
            and not roles_of(job).profile.shares(profile)
        ]

    def firm_amounts(self, other: WaitingJob | HoldingJob, jobs: Iterable[HoldingJob]) -> list[Consumer]:
        """Return what those of ``jobs`` consume that stay beside ``other``, with what the others keep as they go."""
        return [
            (
                bits_consumed_from(self._snapshot.platform, job),
                job.kept_amounts if self._precedence.yields(job, other) else job.consumes,
            )
            for job in jobs
        ]

    def for_amounts(
        self, other: WaitingJob | HoldingJob, lacking: Mapping[Part, int], dying: Collection[int]
    ) -> list[int]:
        """Return the jobs that go for amounts of ``other``; ``lacking`` is the excess left if all jobs went.

        The jobs in ``dying`` go anyway.
        """
        above = self._precedence.depth(other)
        lower = [(job, depth) for job, _, depth in self._held if depth > above]
        order = sorted(lower, key=lambda one: (one[0].id in dying, one[1], one[0].start, one[0].id), reverse=True)
        parts = {job.id: self._parts(job) for job, _ in order if job.released_amounts}
        excess = dict(lacking)
        for taken in parts.values():
            for part in taken.keys() & excess.keys():
                excess[part] += taken[part]
        chosen = []
        for number, taken in parts.items():
            shared = taken.keys() & excess.keys()
            if any(excess[part] > 0 for part in shared):
                chosen.append(number)
                for part in shared:
                    excess[part] -= taken[part]
        return chosen

    def _parts(self, job: HoldingJob) -> dict[Part, int]:
        """Return the amount that a job that gives way releases in each block of each consumable."""
        return self._capacities.parts(bits_consumed_from(self._snapshot.platform, job), job.released_amounts)
