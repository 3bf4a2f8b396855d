"""Profiles of bags: the seconds of a task by type of nodes, as jobs measure and tell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.types.json import Jsonb

from oarpy.store.database import Connection
from oarpy.store.rows import read

_INSERT = """
    INSERT INTO bag_profiles (bag_id, job_id, node_type)
    SELECT %(bag)s, * FROM unnest(%(jobs)s::bigint[], %(kinds)s::text[])
"""
_INSERT_FOR_BROKER = """
    INSERT INTO bag_profiles (broker, profile, job_id, node_type)
    SELECT %(broker)s, %(profile)s, * FROM unnest(%(jobs)s::bigint[], %(kinds)s::text[])
"""
_IS_TAKEN = """
    SELECT EXISTS (SELECT FROM bag_profiles JOIN jobs j USING (job_id)
                   WHERE job_id = %s AND j.user_name = %s AND is_live(j.state))
"""
_TELL = "UPDATE bag_profiles SET seconds = %s, failure = '' WHERE job_id = %s"
_FAIL = "UPDATE bag_profiles SET failure = %s WHERE job_id = %s"
_OF_BAG = """
    SELECT p.job_id AS job, p.node_type, p.seconds, p.failure, coalesce(is_live(j.state), false) AS live
    FROM bag_profiles p LEFT JOIN jobs j USING (job_id) WHERE p.bag_id = %s ORDER BY p.job_id
"""
_FOR_BROKER = """
    SELECT p.job_id AS job, p.node_type, p.seconds, p.failure, coalesce(is_live(j.state), false) AS live
    FROM bag_profiles p LEFT JOIN jobs j USING (job_id) WHERE p.broker = %s AND p.profile = %s ORDER BY p.node_type
"""
_PRUNE = """
    DELETE FROM bag_profiles p WHERE broker <> '' AND NOT EXISTS
        (SELECT FROM jobs j WHERE j.job_id = p.job_id AND (is_live(j.state) OR j.ended_at >= %s))
"""
_GIVE = "UPDATE bags SET profile = %s WHERE bag_id = %s"


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """The profile of a bag on a type of nodes: the seconds of a task, if the job told them; ``live``: it may yet."""

    job: int
    node_type: str
    seconds: float | None
    failure: str
    live: bool

    @property
    def why_none(self) -> str:
        """The reason why it has no seconds."""
        if self.live:
            return f"job {self.job} takes their profile"
        return self.failure or f"job {self.job} ended before it told the seconds of a task"


def insert(connection: Connection, bag: int, jobs: Sequence[tuple[int, str]]) -> None:
    """Note the jobs that take the profile of a bag, each with its type of nodes."""
    if jobs:
        values = {"bag": bag, "jobs": [job for job, _ in jobs], "kinds": [kind for _, kind in jobs]}
        connection.execute(_INSERT, values)


def insert_for_broker(connection: Connection, broker: str, profile: str, jobs: Sequence[tuple[int, str]]) -> None:
    """Note the jobs that take a profile for a broker, whose bag is not here yet, each with its type of nodes."""
    if jobs:
        kinds = [kind for _, kind in jobs]
        values = {"broker": broker, "profile": profile, "jobs": [job for job, _ in jobs], "kinds": kinds}
        connection.execute(_INSERT_FOR_BROKER, values)


def is_taken(connection: Connection, job: int, user: str) -> bool:
    """Tell whether a job of a user is not over and takes a profile."""
    row = connection.execute(_IS_TAKEN, [job, user]).fetchone()
    assert row is not None
    return bool(row[0])


def tell(connection: Connection, job: int, seconds: float) -> None:
    """Keep the seconds of a task that a job has measured."""
    connection.execute(_TELL, [seconds, job])


def fail(connection: Connection, job: int, reason: str) -> None:
    """Note why a job has measured nothing."""
    connection.execute(_FAIL, [reason, job])


def of_bag(connection: Connection, bag: int) -> list[ProfileRow]:
    """Return the profile of a bag by types of nodes."""
    return read(connection, _OF_BAG, ProfileRow, [bag])


def for_broker(connection: Connection, broker: str, profile: str) -> list[ProfileRow]:
    """Return a profile that was taken for a broker, by types of nodes."""
    return read(connection, _FOR_BROKER, ProfileRow, [broker, profile])


def give(connection: Connection, bag: int, seconds: Mapping[str, float]) -> None:
    """Give a bag the seconds of a task by type of nodes that its broker told."""
    connection.execute(_GIVE, [Jsonb(dict(seconds)), bag])


def prune(connection: Connection, before: datetime) -> None:
    """Forget profiles that were taken for brokers by jobs that ended before; those of users stay with their bags."""
    connection.execute(_PRUNE, [before])
