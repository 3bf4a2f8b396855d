"""The questions of rules about the cluster: an interface to the database, and to fixed values in tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec import Struct


class QueueInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """A queue as rules see it."""

    name: str
    priority: int = 0
    active: bool = True


class JobInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """A live job (not Terminated, not Error) as rules see it."""

    id: int
    user: str = ""
    queue: str = "default"
    project: str = "default"
    name: str = ""
    state: str = "Waiting"
    types: tuple[str, ...] = ()
    reservation: bool = False


class Holding(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of ``jobs`` that hold resources now, and of the ``cores`` (rows of resources) that they hold."""

    jobs: int = 0
    cores: int = 0


class Site(Protocol):
    """Answers questions about the cluster. Only live jobs count, so no answer grows with history."""

    def now(self) -> datetime:
        """Return the instant of the submission, with its time zone."""
        ...

    @property
    def settings(self) -> Mapping[str, object]:
        """The configuration's sections ``[submission]`` and ``[site]``; rules ask ``settings(name, default)``."""
        ...

    def groups(self, user: str) -> Collection[str]:
        """Return the Unix groups of ``user``."""
        ...

    def queue(self, name: str) -> QueueInfo | None:
        """Return the queue called ``name``."""
        ...

    def properties(self) -> Mapping[str, str]:
        """Return the resource properties with their SQL types."""
        ...

    def job(self, job_id: int) -> JobInfo | None:
        """Return a live job."""
        ...

    def containers(self, name: str) -> Collection[JobInfo]:
        """Return the live jobs typed ``container=name``."""
        ...

    def count_jobs(
        self,
        *,
        user: str | None = None,
        queue: str | None = None,
        project: str | None = None,
        job_type: str | None = None,
        states: Iterable[str] | None = None,
        reservation: bool | None = None,
    ) -> int:
        """Count the live jobs that satisfy every condition given.

        A bag counts as one reservation. Dates of brokers' parts do not count as reservations.
        """
        ...

    def held(self, *, user: str | None = None, queue: str | None = None, project: str | None = None) -> Holding:
        """Return what the live jobs that satisfy every condition given hold now."""
        ...

    def cores(self, request: str, properties: str = "", types: Iterable[str] = ()) -> int:
        """Return how many cores ``request`` (as after ``-l``) would take; 0 when it can never be served."""
        ...

    def query(self, statement: str, *values: object) -> Sequence[Mapping[str, object]]:
        """Return the rows of one SELECT over the tables of ``submission.rule_tables``; its values are $1, $2."""
        ...


QUESTIONS = frozenset(name for name in vars(Site) if not name.startswith("_"))
"""The questions that a rule may ask: the names of the methods."""

_AS_WRITTEN = {
    "at": "now",
    "members": "groups",
    "columns": "properties",
    "holdings": "held",
    "sizes": "cores",
    "rows": "query",
}


class FixedSite(Struct, frozen=True, forbid_unknown_fields=True, rename=_AS_WRITTEN):
    """A :class:`Site` of given values, for cases, tests and replays. Cases call each field as its question."""

    at: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)
    settings: Mapping[str, Any] = {}
    members: Mapping[str, Collection[str]] = {}
    queues: tuple[QueueInfo, ...] = (QueueInfo("admin", 10), QueueInfo("default", 3), QueueInfo("besteffort", 0))
    columns: Mapping[str, str] = {}
    jobs: tuple[JobInfo, ...] = ()
    holdings: Mapping[str, Holding] = {}
    sizes: Mapping[str, int] = {}
    rows: Mapping[str, tuple[Mapping[str, Any], ...]] = {}

    def now(self) -> datetime:
        """Return the fixed instant, in the time zone of this machine where it has none."""
        return self.at if self.at.tzinfo else self.at.astimezone()

    def groups(self, user: str) -> Collection[str]:
        """Return the groups of ``user``."""
        return self.members.get(user, ())

    def queue(self, name: str) -> QueueInfo | None:
        """Return the queue called ``name``."""
        return next((queue for queue in self.queues if queue.name == name), None)

    def properties(self) -> Mapping[str, str]:
        """Return the columns."""
        return self.columns

    def job(self, job_id: int) -> JobInfo | None:
        """Return the job with that id."""
        return next((job for job in self.jobs if job.id == job_id), None)

    def containers(self, name: str) -> Collection[JobInfo]:
        """Return the jobs typed ``container=name``."""
        return [job for job in self.jobs if f"container={name}" in job.types]

    def count_jobs(
        self,
        *,
        user: str | None = None,
        queue: str | None = None,
        project: str | None = None,
        job_type: str | None = None,
        states: Iterable[str] | None = None,
        reservation: bool | None = None,
    ) -> int:
        """Count the jobs that satisfy every condition given."""
        wanted = None if states is None else set(states)
        return sum(
            user in (None, job.user)
            and queue in (None, job.queue)
            and project in (None, job.project)
            and (job_type is None or job_type in job.types)
            and (wanted is None or job.state in wanted)
            and reservation in (None, job.reservation)
            for job in self.jobs
        )

    def held(self, *, user: str | None = None, queue: str | None = None, project: str | None = None) -> Holding:
        """Return the fixed value for the user, the queue or the project."""
        named = next((name for name in (user, queue, project) if name is not None), "")
        return self.holdings.get(named, Holding())

    def cores(self, request: str, properties: str = "", types: Iterable[str] = ()) -> int:
        """Return the size that is written for the request."""
        return self.sizes.get(request, 0)

    def query(self, statement: str, *values: object) -> Sequence[Mapping[str, object]]:
        """Return the rows that are written for the statement."""
        return self.rows.get(statement, ())
