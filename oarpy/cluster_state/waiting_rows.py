"""The rows of the jobs that wait, read again only when they have changed."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.cluster_state.stored_jobs import StoredJob
from oarpy.store.database import Connection
from oarpy.store.passes import snapshot_rows


class WaitingRows:
    """Remembers rows by job, each good for as long as its version in the database is the same."""

    def __init__(self) -> None:
        self._rows: dict[int, StoredJob] = {}
        self.renewed: set[int] = set()
        """Submissions of rows that were read again, for whoever keeps requests to read and to clear.

        A job has a new version when its request changes, too.
        """

    def read(self, connection: Connection, without: Sequence[tuple[int, int]] = ()) -> list[StoredJob]:
        """Return the jobs that wait or are held and are not being killed, ascending. The caller has a transaction.

        ``without`` are runs of ids that are left out; the cached rows of these jobs stay.
        """
        versions = snapshot_rows.waiting_versions(connection, without)
        known = self._rows
        rows = {job: known[job] for job, version in versions if job in known and known[job].version == version}
        if len(rows) < len(versions):
            fresh = [job for job, _ in versions if job not in rows]
            read = snapshot_rows.waiting(connection, fresh, StoredJob)
            rows |= {row.id: row for row in read}
            self.renewed.update(row.submission for row in read)
        if without:
            known.update(rows)
        else:
            self._rows = rows
        dying = snapshot_rows.dying(connection)
        return [rows[job] for job, _ in versions if job in rows and job not in dying]
