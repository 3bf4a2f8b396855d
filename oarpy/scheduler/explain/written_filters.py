"""What of a job's filters its user wrote: the rest comes from the site, and no advice names it."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.scheduler.snapshot import WaitingJob, condition


@dataclass(frozen=True, slots=True)
class FilterParts:
    """A filter in two, joined by AND: what the user wrote, and the ``rest``; ``""`` for nothing."""

    written: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True)
class WrittenFilters:
    """The filter of a job, and those of the groups of each of its alternatives."""

    own: FilterParts
    groups: tuple[tuple[FilterParts, ...], ...]

    def conditions(self) -> set[str]:
        """Return the conditions that advice looks up: each without what the user wrote, and what was written alone."""
        found = set()
        for groups in self.groups:
            for group in groups:
                whole = condition(self.own.written, self.own.rest), condition(group.written, group.rest)
                found |= {condition(self.own.rest, whole[1]), condition(whole[0], group.rest), self.told(group)}
        return found - {""}

    def told(self, group: FilterParts) -> str:
        """Return the condition of a group as its user wrote it."""
        return condition(self.own.written, group.written)


def all_written(job: WaitingJob) -> WrittenFilters:
    """Return the filters of a job whose user wrote all of them."""
    return WrittenFilters(
        FilterParts(job.properties),
        tuple(tuple(FilterParts(group.filter) for group in way.groups) for way in job.alternatives),
    )
