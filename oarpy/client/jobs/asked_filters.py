"""What of a waiting job's filters its user wrote, by the record of what was asked before the admission rules."""

from __future__ import annotations

from collections.abc import Collection

from oarpy.admission.filters.parts import parts_of, split
from oarpy.model.errors import OarpyError
from oarpy.model.request import ResourceRequest
from oarpy.model.submission import Submission
from oarpy.scheduler.explain.written_filters import FilterParts, WrittenFilters, all_written
from oarpy.scheduler.snapshot import Alternative, WaitingJob
from oarpy.store.database import Connection
from oarpy.store.passes.last_answer import asked


def written_filters(connection: Connection, job: WaitingJob) -> WrittenFilters:
    """Return the filters without what admission rules added to them.

    What was changed by hand later counts as written.
    """
    record, admitted = asked(connection, job.id)
    try:
        submission = Submission.from_record(record)
        typed = [submission.properties, *(group.filter for way in submission.alternatives for group in way.groups)]
        whole = admitted or [job.filter, *(group.filter for way in job.alternatives for group in way.groups)]
        added = parts_of(whole) - parts_of(typed)
        ways = submission.alternatives
        groups = tuple(
            _groups(way, ways[place] if place < len(ways) else ResourceRequest(()), added)
            for place, way in enumerate(job.alternatives)
        )
        return WrittenFilters(FilterParts(*split(job.filter, added, submission.properties)), groups)
    except OarpyError:  # written by hand: without a record, or with what is no filter
        return all_written(job)


def _groups(way: Alternative, request: ResourceRequest, added: Collection[str]) -> tuple[FilterParts, ...]:
    """Return the parts of the filters of one alternative."""
    typed = [group.filter for group in request.groups]
    typed += [""] * (len(way.groups) - len(typed))
    return tuple(FilterParts(*split(group.filter, added, text)) for group, text in zip(way.groups, typed, strict=False))
