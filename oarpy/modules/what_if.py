"""The snapshot of a pass, changed by what somebody asks about; nothing is written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from oarpy.modules.snapshot_reader import Reading, SnapshotReader
from oarpy.scheduler.snapshot import Snapshot, WaitingJob, conditions
from oarpy.store.database import Connection
from oarpy.store.outcomes import outcomes


def read_only(connection: Connection, reader: SnapshotReader) -> Reading:
    """Read what placing jobs takes now, in the caller's transaction, which can write nothing from here on."""
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    return reader.read(connection, int(time.time()), only_places=True)


def with_jobs(
    connection: Connection, reader: SnapshotReader, snapshot: Snapshot, jobs: Sequence[WaitingJob]
) -> Snapshot:
    """Return ``snapshot`` with ``jobs`` waiting too, their conditions and what they depend on looked up."""
    reader.resolve(connection, conditions(jobs))
    ended = outcomes(connection, {dependency.job for job in jobs for dependency in job.depends_on})
    return replace(
        snapshot,
        waiting=(*snapshot.waiting, *jobs),
        outcomes={**snapshot.outcomes, **{job: one.outcome for job, one in ended.items()}},
        spans={**snapshot.spans, **{job: one.span for job, one in ended.items()}},
    )
