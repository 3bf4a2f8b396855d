"""Applications whose launchers the cluster runs, and which have no launcher at present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection
from oarpy.store.notifications import run_channel

_UNATTENDED = """
    SELECT a.job_id, j.user_name, a.launcher, j.launching_directory, j.job_name, j.project, s.environment
    FROM applications a JOIN jobs j USING (job_id) JOIN submissions s USING (submission_id)
    WHERE a.launcher IS NOT NULL AND a.lost_since IS NOT NULL AND a.ended IS NULL
    ORDER BY a.job_id
"""

_HAS_LAUNCHER = """
    SELECT EXISTS (
        SELECT FROM applications a JOIN jobs j USING (job_id)
        WHERE a.launcher IS NOT NULL AND a.state <> 'Finished' AND j.user_name = %s)
"""

_TELL = "SELECT pg_notify(%s, '') FROM applications WHERE job_id = ANY(%s) AND launcher IS NOT NULL LIMIT 1"

_LOG = """
    INSERT INTO event_logs (type, job_id, hosts, description)
    SELECT 'LAUNCHER_ENDED', job_id, ARRAY[%s], detail
    FROM unnest(%s::bigint[], %s::text[]) AS e(job_id, detail) JOIN jobs USING (job_id)
"""


@dataclass(frozen=True, slots=True)
class UnattendedRow:
    """An application, and the values needed to run its launcher."""

    job: int
    user: str
    launcher: str
    directory: str
    name: str
    project: str
    environment: Mapping[str, str]


def unattended(connection: Connection) -> list[UnattendedRow]:
    """Return the applications whose launchers are to be run, ascending."""
    return [UnattendedRow(*row) for row in connection.execute(_UNATTENDED).fetchall()]


def has_launcher(connection: Connection, user: str) -> bool:
    """Tell whether the cluster runs launchers of a user, for applications that are not over."""
    row = connection.execute(_HAS_LAUNCHER, [user]).fetchone()
    return row is not None and bool(row[0])


def tell(connection: Connection, jobs: Sequence[int]) -> None:
    """Notify the launcher module of those of these applications whose launchers the cluster runs."""
    connection.execute(_TELL, [run_channel("launcher"), list(jobs)])


def log_ends(connection: Connection, host: str, ends: Sequence[tuple[int, str]]) -> None:
    """Log that launchers of jobs are over on a host, and what went wrong."""
    connection.execute(_LOG, [host, [job for job, _ in ends], [detail for _, detail in ends]])
