"""The inputs of priorities: recent use and requests of each user, the target shares, and the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

_WEEK = 7 * 86400.0
NOTHING_DUE = 1e9
"""Used over due where nothing is due: such jobs come last."""


@dataclass(frozen=True, slots=True)
class KarmaRules:
    """Coefficients of the three parts of the karma, and targets as fractions of all use (0.25 is a quarter)."""

    project: float = 0.0
    user: float = 2.0
    asked: float = 1.0
    user_targets: Mapping[str, float] = field(default_factory=dict)
    other_users: float = 0.0
    project_targets: Mapping[str, float] = field(default_factory=dict)
    other_projects: float = 0.0


@dataclass(frozen=True, slots=True)
class FactorRules:
    """Weights of the factors of ``multifactor``; a factor lies between 0 and 1.

    ``full_age`` is the age in seconds at which its factor is 1. ``queues`` gives the factor of each queue, 0 for the
    others. ``large_work`` and ``large_size`` invert these two factors: more is better.
    """

    age: float = 1.0
    queue: float = 0.0
    work: float = 0.0
    size: float = 0.0
    karma: float = 1.0
    qos: float = 0.0
    nice: float = 0.0
    full_age: float = _WEEK
    queues: Mapping[str, float] = field(default_factory=dict)
    large_work: bool = False
    large_size: bool = False


@dataclass(frozen=True)
class Usage:
    """Resource-seconds of the recent past: used and asked for by each user, used by each project."""

    used_by_user: Mapping[str, float] = field(default_factory=dict)
    asked_by_user: Mapping[str, float] = field(default_factory=dict)
    used_by_project: Mapping[str, float] = field(default_factory=dict)
    tree: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    @cached_property
    def ratios(self) -> Mapping[str, tuple[float, ...]]:
        """By project, the use over the share that is due, from the top of the tree down to the project.

        The due share of a project is its share among the projects of the same parent; its use includes that of the
        projects below it. All projects have the same number of ratios: 0 where there is no level below.
        """
        lines = {name: self._line(name) for name in self.tree}
        used = dict.fromkeys(self.tree, 0.0)
        for name, seconds in self.used_by_project.items():
            for above in lines.get(name, ()):
                used[above] += seconds
        beside: dict[str, list[str]] = {}
        for name, (parent, _) in self.tree.items():
            beside.setdefault(parent, []).append(name)
        ratio: dict[str, float] = {}
        for names in beside.values():
            whole, shares = sum(used[name] for name in names), sum(self.tree[name][1] for name in names)
            for name in names:
                due = self.tree[name][1] / shares if shares else 0
                ratio[name] = (used[name] / whole if whole else 0) / due if due else NOTHING_DUE
        depth = max(map(len, lines.values()), default=0)
        ratios_of = {name: tuple(ratio[above] for above in line[::-1]) for name, line in lines.items()}
        return {name: (*ratios, *[0.0] * (depth - len(ratios))) for name, ratios in ratios_of.items()}

    def _line(self, name: str) -> list[str]:
        """Return a project and those above it, upwards."""
        line: list[str] = []
        while name in self.tree and len(line) < len(self.tree):
            line.append(name)
            name = self.tree[name][0]
        return line

    @cached_property
    def used(self) -> float:
        """The use of all users together."""
        return sum(self.used_by_user.values())

    @cached_property
    def asked(self) -> float:
        """The requests of all users together."""
        return sum(self.asked_by_user.values())


@dataclass(frozen=True, slots=True)
class Priorities:
    """The inputs of the orders ``fairshare`` and ``multifactor`` besides the job.

    ``resources`` is the number of existing resources.
    """

    usage: Usage = field(default_factory=Usage)
    karma: KarmaRules = field(default_factory=KarmaRules)
    factors: FactorRules = field(default_factory=FactorRules)
    resources: int = 0


NO_HISTORY = Priorities()
