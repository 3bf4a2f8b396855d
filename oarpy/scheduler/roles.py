"""What the types of a job mean to the planner: sharing, containers, exemption from quotas."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from oarpy.scheduler.snapshot import HoldingJob, WaitingJob


@dataclass(frozen=True, slots=True)
class Profile:
    """With whom a job shares resources; two jobs of equal profile are treated alike.

    ``timesharing`` is the agreed pair of user and name (``*`` = anybody, None = the job does not share).
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
    """False for what quotas neither count nor limit."""

    def admits(self, other: Roles) -> bool:
        """Tell whether a job of these roles lets one of ``other`` have its resources meanwhile."""
        return self.profile.shares(other.profile) or other.inside in self.containers


_PLAIN = Roles()


def roles_of(job: WaitingJob | HoldingJob) -> Roles:
    """Read the types of ``job``; words that the planner does not know mean nothing to it."""
    return _read(job.types, job.id, job.user, job.name) if job.types else _PLAIN


@lru_cache(maxsize=4096)
def _read(types: tuple[str, ...], job: int, user: str, name: str) -> Roles:
    words = [(word, value) for word, _, value in (text.partition("=") for text in types)]
    inside = [value for word, value in words if word == "inner" and value]
    containers = dict.fromkeys(value or str(job) for word, value in words if word == "container")
    sharing = [_timesharing(value, user, name) for word, value in words if word == "timesharing"]
    profile = Profile(
        next(iter(sharing), None),
        frozenset(value for word, value in words if word == "placeholder" and value),
        frozenset(value for word, value in words if word == "allowed" and value),
    )
    return Roles(
        EXCLUSIVE if profile == EXCLUSIVE else profile,
        inside[0] if inside else None,
        tuple(containers),
        not containers and "no_quotas" not in types,
    )


def _timesharing(value: str, user: str, name: str) -> tuple[str, str] | None:
    """Return the pair to agree on: the asked word, or ``*``; the order of the two words is free.

    A user or name is marked, so that one called ``*`` is not taken for the word.
    """
    words = {word.strip() for word in value.split(",")} if value else {"*"}
    if not words <= {"*", "user", "name"}:
        return None
    return f"={user}" if "user" in words else "*", f"={name}" if "name" in words else "*"
