"""Fair-share (karma) and multifactor priorities: pure functions of a job, its size and past usage.

The karma of a job measures how much its user and project used beyond their targets, as OAR computes it. The smallest
karma goes first. Multifactor priority is a weighted sum of factors between 0 and 1, where 1 is best. The largest sum
goes first.
"""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.scheduler.order.usage_shares import FactorRules, Priorities
from oarpy.scheduler.snapshot import WaitingJob


@dataclass(frozen=True, slots=True)
class Part:
    """One of the three parts of a karma: ``share`` and ``target`` lie between 0 and 1, ``weight`` is a coefficient."""

    name: str
    share: float
    target: float
    weight: float

    @property
    def contribution(self) -> float:
        """Its addend in the karma; below 0 if the usage was below the target."""
        return self.weight * (self.share - self.target)


@dataclass(frozen=True, slots=True)
class Factor:
    """One term of a multifactor priority: ``value`` lies between 0 and 1; it comes from ``measured`` of ``unit``."""

    name: str
    value: float
    weight: float
    measured: float
    unit: str

    @property
    def contribution(self) -> float:
        """Its addend in the priority."""
        return self.weight * self.value


def karma_parts(job: WaitingJob, known: Priorities) -> tuple[Part, Part, Part]:
    """Return the addends of the karma of ``job``."""
    usage, rules = known.usage, known.karma
    user_target = rules.user_targets.get(job.user, rules.other_users)
    project_target = rules.project_targets.get(job.project, rules.other_projects)
    return (
        Part("project", _share(usage.used_by_project.get(job.project, 0), usage.used), project_target, rules.project),
        Part("user", _share(usage.used_by_user.get(job.user, 0), usage.used), user_target, rules.user),
        Part("asked", _share(usage.asked_by_user.get(job.user, 0), usage.asked), user_target, rules.asked),
    )


def karma(job: WaitingJob, known: Priorities) -> float:
    """Return the karma of ``job``."""
    return sum(part.contribution for part in karma_parts(job, known))


def factors(job: WaitingJob, size: int, now: float, known: Priorities) -> tuple[Factor, ...]:
    """Return the terms of the multifactor priority of ``job``, which takes ``size`` resources."""
    rules, debt = known.factors, karma(job, known)
    walltime = job.alternatives[0].walltime if job.alternatives else 0
    age = max(now - job.submitted, 0)
    hours = size * walltime / 3600
    qos, nice = _value(job, "qos"), _value(job, "nice")
    queue = rules.queues.get(job.queue, 0)
    return (
        Factor("age", clamped(age / rules.full_age if rules.full_age > 0 else 1), rules.age, age, "seconds"),
        Factor("queue", clamped(queue), rules.queue, queue, "of the queue"),
        Factor("work", _work(hours, rules), rules.work, hours, "resource-hours"),
        Factor("size", _size(size, known), rules.size, size, "resources"),
        Factor("karma", clamped(1 / (1 + debt)) if debt > -1 else 1.0, rules.karma, debt, "karma"),
        Factor("qos", qos, rules.qos, qos, "of type qos=NUMBER"),
        Factor("nice", 1 - nice, rules.nice, nice, "of type nice=NUMBER"),
    )


def multifactor_priority(job: WaitingJob, size: int, now: float, known: Priorities) -> float:
    """Return the multifactor priority of ``job``."""
    return sum(factor.contribution for factor in factors(job, size, now, known))


def clamped(value: float) -> float:
    """Return ``value`` limited to the range 0 to 1; NaN counts as 0."""
    return min(max(value, 0.0), 1.0) if value == value else 0.0


def _share(part: float, whole: float) -> float:
    """Return ``part`` of ``whole`` between 0 and 1; 0 of nothing."""
    return clamped(part / whole) if whole > 0 else 0.0


def _work(hours: float, rules: FactorRules) -> float:
    """Return the factor of the work (resource-hours): near 1 for small jobs, unless large ones are wanted."""
    small = clamped(1 / hours) if hours > 0 else 1.0
    return 1 - small if rules.large_work else small


def _size(size: int, known: Priorities) -> float:
    """Return the factor of the size (resources): near 1 for small jobs, unless large ones are wanted."""
    large = _share(size, known.resources)
    return large if known.factors.large_size else 1 - large


def _value(job: WaitingJob, word: str) -> float:
    """Read a job type ``word=NUMBER``, given by an admission rule; 0 without one, or when it is no number."""
    for text in job.types:
        name, _, value = text.partition("=")
        if name == word:
            try:
                return clamped(float(value))
            except ValueError:
                return 0.0
    return 0.0
