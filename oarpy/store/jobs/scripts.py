"""Scripts of jobs as they were submitted, each kept once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import sha256

from oarpy.store.database import Connection
from oarpy.store.jobs.scope import JobScope, reached

# In order of digest, as every other writer locks them. That a script is asked for again keeps it from being forgotten.
_KEEP = """
    INSERT INTO kept_scripts AS k (digest, content)
    SELECT digest, content FROM unnest(%s::text[], %s::text[]) AS new (digest, content) ORDER BY digest
    ON CONFLICT (digest) DO UPDATE SET asked_at = now()
"""
_CONTENTS = "SELECT digest, content FROM kept_scripts WHERE digest = ANY(%s)"
_OF_JOB = """
    SELECT k.content FROM jobs j JOIN submissions s USING (submission_id) JOIN kept_scripts k ON k.digest = s.script
    WHERE j.job_id = %s
"""
_FORGET = """
    DELETE FROM kept_scripts k
    WHERE k.asked_at < now() - interval '1 day'
      AND NOT EXISTS (SELECT FROM submissions s WHERE s.script = k.digest)
      AND NOT EXISTS (SELECT FROM oar_past.submissions s WHERE s.script = k.digest)
"""


def digest(script: str) -> str | None:
    """Return the name of a script; None when there is none."""
    return sha256(script.encode()).hexdigest() if script else None


def keep(connection: Connection, scripts: Iterable[str]) -> None:
    """Keep each of these scripts; an empty script is none."""
    new = {name: script for script in scripts if (name := digest(script))}
    if new:
        connection.execute(_KEEP, [list(new), list(new.values())])


def contents(connection: Connection, digests: Collection[str]) -> dict[str, str]:
    """Return these scripts by digest."""
    return dict(connection.execute(_CONTENTS, [list(digests)]).fetchall())


def of_job(connection: Connection, job_id: int) -> str | None:
    """Return the script of a job, of the past too; None when none is kept."""
    with reached(connection, JobScope((job_id,), live=False)):
        row = connection.execute(_OF_JOB, [job_id]).fetchone()
    return None if row is None else row[0]


def forget_unused(connection: Connection) -> None:
    """Delete the scripts that no job has any more, live or past."""
    connection.execute(_FORGET)
