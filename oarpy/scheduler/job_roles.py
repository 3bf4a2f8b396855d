"""The meaning of a job's types to the planner: sharing, containers, exemption from quotas."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from oarpy.model.job_types import JobTypes, Sharing, read_types
from oarpy.scheduler.snapshot import HoldingJob, WaitingJob


@dataclass(frozen=True, slots=True)
class Profile:
    """The jobs that a job shares resources with; two jobs of equal profile are treated alike.

    ``timesharing`` is the agreed pair of user and name (``*`` = any, None = the job does not share).
    """

    timesharing: tuple[str, str] | None = None
    placeholders: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()

    def shares(self, other: Profile) -> bool:
        """Tell whether two jobs may hold one resource at one time."""
        if self.timesharing is not None and self.timesharing == other.timesharing:
            return True
        return bool(self.placeholders & other.allowed or other.placeholders & self.allowed)


EXCLUSIVE = Profile()


@dataclass(frozen=True, slots=True)
class Roles:
    """The types of a job, read once.

    ``inside`` is the name of the container that an inner job lies in, ``containers`` the names that the job opens.
    """

    profile: Profile = EXCLUSIVE
    inside: str | None = None
    containers: tuple[str, ...] = ()
    counted: bool = True
    """False for a job that quotas neither count nor limit."""

    def admits(self, other: Roles) -> bool:
        """Tell whether a job of these roles lets a job of ``other`` use its resources meanwhile."""
        return self.profile.shares(other.profile) or other.inside in self.containers


PLAIN = Roles()


def roles_of(job: WaitingJob | HoldingJob) -> Roles:
    """Return the roles that the types of ``job`` give it in the planner."""
    if not job.types:
        return PLAIN
    return _common(job.types) or _own(job.types, job.id, job.user, job.name)


@lru_cache(maxsize=4096)
def _common(words: tuple[str, ...]) -> Roles | None:
    """Return the roles of every job of these types, None if they depend on the job's id, user or name."""
    types = read_types(words)
    return None if types.timesharing or "" in types.containers else _roles(types, types.containers, None)


@lru_cache(maxsize=4096)
def _own(words: tuple[str, ...], job: int, user: str, name: str) -> Roles:
    """Return the roles of a job whose types refer to its own id, user or name."""
    types = read_types(words)
    containers = tuple(named or str(job) for named in types.containers)
    return _roles(types, containers, types.timesharing and _agreed(types.timesharing, user, name))


def _roles(types: JobTypes, containers: tuple[str, ...], timesharing: tuple[str, str] | None) -> Roles:
    """Return the roles for types whose containers and timesharing are resolved already."""
    profile = Profile(timesharing, frozenset(types.placeholders), frozenset(types.allowed))
    return Roles(
        EXCLUSIVE if profile == EXCLUSIVE else profile,
        types.inside,
        tuple(dict.fromkeys(containers)),
        not containers and not types.without_quotas,
    )


def _agreed(sharing: Sharing, user: str, name: str) -> tuple[str, str]:
    """Return the pair to agree on. A user or name is marked, so that a user called ``*`` is not taken for the word."""
    return f"={user}" if sharing.same_user else "*", f"={name}" if sharing.same_name else "*"


def needs_others(job: WaitingJob) -> bool:
    """Tell whether a job depends on others, lies in one, or others may lie in it."""
    roles = roles_of(job)
    return bool(job.depends_on or roles.inside is not None or roles.containers)
