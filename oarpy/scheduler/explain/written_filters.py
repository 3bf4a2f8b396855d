"""The parts of a job's filters that its user wrote. The rest comes from the site, and no advice names it."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.scheduler.snapshot import WaitingJob, condition


@dataclass(frozen=True, slots=True)
class FilterParts:
    """The two parts of a filter, joined by AND: the user's text and the ``rest``; ``""`` if a part is empty."""

    written: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True)
class WrittenFilters:
    """The filter of a job, and those of the groups of each of its alternatives."""

    own: FilterParts
    groups: tuple[tuple[FilterParts, ...], ...]

    def conditions(self) -> set[str]:
        """Return the conditions that advice looks up: each without the user's part, and the user's part alone."""
        conditions = set()
        for groups in self.groups:
            for group in groups:
                whole = condition(self.own.written, self.own.rest), condition(group.written, group.rest)
                conditions |= {condition(self.own.rest, whole[1]), condition(whole[0], group.rest), self.told(group)}
        return conditions - {""}

    def told(self, group: FilterParts) -> str:
        """Return the condition of a group as its user wrote it."""
        return condition(self.own.written, group.written)


def all_written(job: WaitingJob) -> WrittenFilters:
    """Return the filters of a job as if its user wrote all of them."""
    return WrittenFilters(
        FilterParts(job.properties),
        tuple(tuple(FilterParts(group.filter) for group in way.groups) for way in job.alternatives),
    )
