"""The snapshot of a pass, changed by the question of a user; nothing is written."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from oarpy.cluster_state.snapshot_reader import Reading, SnapshotReader
from oarpy.scheduler.gantt.gantt import Claim
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import Snapshot, WaitingJob, conditions
from oarpy.store.database import Connection
from oarpy.store.passes.last_answer import PlaceRow, places
from oarpy.store.passes.snapshot_rows import outcomes

_AT_ONCE = 1000
"""The number of jobs whose sets are made together; this takes one byte a resource and job."""
_NO_DIGITS = str.maketrans(dict.fromkeys("{}[](),", " "))


def foreseen(connection: Connection, platform: Platform) -> dict[int, Claim]:
    """Return where the last pass placed each waiting job; resources that ``platform`` does not have are left out."""
    rows = places(connection)
    claims = {}
    for first in range(0, len(rows), _AT_ONCE):
        some = rows[first : first + _AT_ONCE]
        for row, bits in zip(some, _sets(some, platform), strict=True):
            claims[row.job] = Claim(_whole(row.start), _whole(row.end - row.start), bits)
    return claims


def _sets(rows: Sequence[PlaceRow], platform: Platform) -> Iterator[int]:
    """Read the ranges of all rows at once, ``{[1,5),[7,8)}`` each, and mark their ids in one table."""
    bounds = np.fromstring(" ".join(row.ranges for row in rows).translate(_NO_DIGITS), dtype=np.int64, sep=" ")
    lows, lengths = bounds[0::2], bounds[1::2] - bounds[0::2]
    owners = np.repeat(np.arange(len(rows)), [row.ranges.count("[") for row in rows])
    ends = np.cumsum(lengths)
    ids = np.repeat(lows - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)
    known = np.full(max(int(ids.max(initial=0)), *platform.ids, 0) + 1, -1, dtype=np.int64)
    known[list(platform.ids)] = np.arange(len(platform.ids))
    positions, jobs = known[ids], np.repeat(owners, lengths)
    table = np.zeros((len(rows), len(platform.ids)), dtype=np.uint8)
    table[jobs[positions >= 0], positions[positions >= 0]] = 1
    for packed in np.packbits(table, axis=1, bitorder="little"):
        yield int.from_bytes(packed.tobytes(), "little")


def _whole(seconds: float) -> float:
    """Return whole seconds exactly, as passes count them."""
    return int(seconds) if seconds == int(seconds) else seconds


def read_only(connection: Connection, reader: SnapshotReader) -> Reading:
    """Read what is needed to place jobs now. The caller's transaction becomes read-only."""
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    return reader.read(connection, int(time.time()), only_places=True)


def with_jobs(
    connection: Connection, reader: SnapshotReader, snapshot: Snapshot, jobs: Sequence[WaitingJob]
) -> Snapshot:
    """Return ``snapshot`` with ``jobs`` waiting too; their conditions and dependencies are looked up."""
    reader.resolve(connection, conditions(jobs))
    ended = outcomes(connection, {dependency.job for job in jobs for dependency in job.depends_on})
    return replace(
        snapshot,
        waiting=(*snapshot.waiting, *jobs),
        outcomes={**snapshot.outcomes, **{job: outcome.outcome for job, outcome in ended.items()}},
        spans={**snapshot.spans, **{job: outcome.span for job, outcome in ended.items()}},
    )
