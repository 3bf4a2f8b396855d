"""Giving way: the best-effort jobs that are cancelled so that another job can begin.

- A best-effort job gives way only to a job that is not best-effort itself, and only if idle resources do not suffice. A
  job that would begin now is first tried beside all resources of best-effort jobs. Only if that fails, it is tried with
  them.
- A best-effort job is in the way if it holds a resource that the other job gets, and does not share it with that job.
- Some best-effort jobs merely hold too much of a consumable. Among these, jobs that are cancelled anyway go first, then
  the last that began.
- No job goes before its minimum life is over. For an accepted reservation it goes a lead earlier than the date, and
  earlier still by the time of its checkpoint. Any other job that makes it go begins when the checkpoint is written::

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
from oarpy.scheduler.resources.consumables import Capacities
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import HoldingJob, WaitingJob

Part = tuple[str, str]
"""A consumable, and one of its blocks."""


def may_go(job: HoldingJob, now: float, minimum_life: float) -> bool:
    """Tell whether ``job`` is a running best-effort job that has had its ``minimum_life`` (seconds)."""
    return job.besteffort and job.start + minimum_life <= now < job.end


def leaves_at(job: HoldingJob, date: float, lead: float, minimum_life: float) -> float:
    """Return when to cancel ``job`` so that it is gone ``lead`` seconds before ``date``, after its minimum life."""
    return max(date - lead - job.checkpoint, job.start + minimum_life)


def gone_at(job: HoldingJob, now: float, security: float) -> float:
    """Return when ``job``, cancelled ``now``, has written its checkpoint, or is over anyhow."""
    return min(now + job.checkpoint, job.end + security)


class Yielding:
    """The best-effort jobs of ``jobs``, which may have to go."""

    def __init__(self, platform: Platform, capacities: Capacities, blocks: Blocks, jobs: Iterable[HoldingJob]) -> None:
        self._platform, self._capacities, self._blocks = platform, capacities, blocks
        self._held = [(job, bits_held(platform, job)) for job in jobs if job.besteffort]
        self._kept: dict[Profile, Kept] = {}

    @property
    def anybody(self) -> bool:
        """True when there is a job that may have to go."""
        return bool(self._held)

    def kept_from(self, other: WaitingJob, security: float) -> Kept:
        """Return the resources that ``other`` must not use if no job is to go for it; sharing jobs are left out.

        Amounts are kept for the ``security`` time after the end of a job, too.
        """
        profile = roles_of(other).profile
        if profile not in self._kept:
            bits, levels = 0, dict[AskedLevel, int]()
            for job, held in self._held:
                if not roles_of(job).profile.shares(profile):
                    bits |= held
                    for level in self._blocks.of_holder(job):
                        levels[level] = levels.get(level, 0) | self._blocks.touched(level.name, held)
            amounts = tuple(
                (job.end + security, bits_consumed_from(self._platform, job), job.consumes)
                for job, _ in self._held
                if job.consumes
            )
            self._kept[profile] = Kept(bits, amounts, tuple(levels.items()))
        return self._kept[profile]

    def on(self, bits: int, other: WaitingJob | HoldingJob, levels: Collection[AskedLevel] = ()) -> list[int]:
        """Return the jobs in the way of ``other`` on the resources ``bits``; it asks for the exclusive ``levels``."""
        if other.besteffort:
            return []
        profile = roles_of(other).profile
        return [
            job.id
            for job, held in self._held
            if (held & bits or self._blocks.common(levels, bits, self._blocks.of_holder(job), held))
            and not roles_of(job).profile.shares(profile)
        ]

    def for_amounts(self, lacking: Mapping[Part, int], dying: Collection[int]) -> list[int]:
        """Return the jobs that must go for amounts; ``lacking`` is the excess that would be left if all jobs went.

        The jobs in ``dying`` go anyway.
        """
        order = sorted(self._held, key=lambda held: (held[0].id in dying, held[0].start, held[0].id), reverse=True)
        parts = {job.id: self._parts(job) for job, _ in order if job.consumes}
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
        """Return the amount that a job takes from each block of each consumable."""
        return self._capacities.parts(bits_consumed_from(self._platform, job), job.consumes)
