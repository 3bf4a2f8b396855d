"""Budgets: hours of projects, and what jobs take of them while a plan is made.

A job is billed for its resources times its walltime, in its project and in all projects above it. The part that lies in
a period counts for the hours of that period. A job that takes more hours than are left begins later: where enough of it
lies in the next period, which may be before the present one is over. Here 6 hours are left, and a job of 2 cores lasts
5 hours::

    period        |-------------- 6 left ---------------|------------- 100 --------------
    now           ^   [=========]  10 hours: too many
    its place                                   [=========]  6 hours before the end, 4 behind it
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf

from oarpy.model.billing import Kind, billing_units
from oarpy.model.reasons import BudgetLimit
from oarpy.scheduler.levels import depths

_HOUR = 3600
_NOTHING = 1e-6
"""Billing units, in hours, that are nothing: sums depend on the order in which they are made."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project below ``parent`` (empty: below none), which has ``hours`` of billing units in each period.

    ``begins`` are when periods begin, ascending; the last is taken as one without end. In the first of them, ``used``
    hours are gone. Its jobs are billed ``weight`` times what they hold, and give way to those of the projects in
    ``gives_way_to`` (:mod:`~oarpy.scheduler.precedence`). From ``until`` on none of them starts. ``share`` is its part
    among those of the same parent.
    """

    name: str
    parent: str = ""
    share: float = 1
    weight: float = 1
    hours: float = inf
    used: tuple[float, ...] = ()
    begins: tuple[float, ...] = (-inf,)
    until: float = inf
    gives_way_to: tuple[str, ...] = ()

    @property
    def limited(self) -> bool:
        """Whether it can keep a job from starting."""
        return self.hours < inf or self.until < inf

    def period(self, place: int) -> tuple[float, float]:
        """Return when a period begins and ends."""
        return self.begins[place], self.begins[place + 1] if place + 1 < len(self.begins) else inf


@dataclass(frozen=True, slots=True)
class Charge:
    """The bill of a job: ``rate`` billing units an hour during [begin, end)."""

    begin: float
    end: float
    rate: float


@dataclass(frozen=True, slots=True)
class Projects:
    """The tree of projects by name, and what an hour of each kind of resource is billed."""

    of: Mapping[str, Project] = field(default_factory=dict)
    weights: Mapping[Kind, float] = field(default_factory=lambda: {"core": 1.0})
    levels: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """How deep each project is below those that its jobs give way to."""

    def __post_init__(self) -> None:
        naming = {project.name: project.gives_way_to for project in self.of.values() if project.gives_way_to}
        parents = {project.name: project.parent for project in self.of.values() if project.parent} if naming else {}
        object.__setattr__(self, "levels", depths(naming, parents))

    def line(self, name: str) -> tuple[Project, ...]:
        """Return a project and those above it, upwards; nothing if there is no such project."""
        line: list[Project] = []
        while name in self.of and len(line) < len(self.of):
            line.append(self.of[name])
            name = line[-1].parent
        return tuple(line)

    def rate(self, name: str, held: Mapping[Kind, float]) -> float:
        """Return the billing units of the resources that a job of a project holds."""
        return billing_units(self.weights, held) * (self.of[name].weight if name in self.of else 1)

    def with_use(self, name: str, charge: Charge) -> Projects:
        """Return the tree after a job of a project was billed, and is over."""
        tree = dict(self.of)
        for payer in self.line(name):
            used = dict(enumerate(payer.used))
            for place, hours in _parts(payer, charge):
                used[place] = used.get(place, 0) + hours
            last = max(used, default=-1)
            tree[payer.name] = replace(payer, used=tuple(used.get(place, 0) for place in range(last + 1)))
        return replace(self, of=tree)

    @property
    def limited(self) -> bool:
        """Whether any of them can keep a job from starting."""
        return any(project.limited for project in self.of.values())


@dataclass(frozen=True, slots=True)
class Overdraft:
    """Hours of ``project`` that a charge would take and that are not there, of those ``left`` in the period ``place``.

    It would not before ``until`` (infinity: ever). A project that is over has no place.
    """

    project: Project
    until: float
    left: float = 0
    place: int | None = None

    @property
    def named(self) -> BudgetLimit:
        """The project, its hours, and when they begin anew."""
        if self.place is None:
            return BudgetLimit(self.project.name, over=self.project.until)
        end = self.project.period(self.place)[1]
        return BudgetLimit(self.project.name, self.project.hours, max(self.left, 0), None if end == inf else end)


class BudgetSums:
    """What jobs take of the hours of each project and of those above it, by period."""

    __slots__ = ("_payers", "_taken", "projects")

    def __init__(self, projects: Projects) -> None:
        self.projects = projects
        self._payers = {
            name: tuple(project for project in projects.line(name) if project.limited) for name in projects.of
        }
        self._taken: dict[tuple[str, int], float] = {}

    def copy(self) -> BudgetSums:
        """Return independent sums of equal content."""
        twin = object.__new__(BudgetSums)
        twin.projects, twin._payers, twin._taken = self.projects, self._payers, self._taken.copy()
        return twin

    def payers(self, project: str) -> tuple[Project, ...]:
        """Return the projects that pay for jobs of a project and may have nothing left, itself first."""
        return self._payers.get(project, ())

    def count(self, project: str, charge: Charge) -> None:
        """Bill a job."""
        for payer in self.payers(project):
            for place, hours in _parts(payer, charge):
                key = payer.name, place
                self._taken[key] = self._taken.get(key, 0) + hours

    def overdraft(self, payers: tuple[Project, ...], charge: Charge) -> Overdraft | None:
        """Return what keeps a job from being billed like this, the last of several to end; None: nothing does."""
        worst: Overdraft | None = None
        for payer in payers:
            overdraft = self._of_one(payer, charge)
            if overdraft is not None and (worst is None or overdraft.until > worst.until):
                worst = overdraft
        return worst

    def _of_one(self, payer: Project, charge: Charge) -> Overdraft | None:
        if charge.begin >= payer.until:
            return Overdraft(payer, inf)
        worst: Overdraft | None = None
        for place, hours in _parts(payer, charge):
            left = self.left(payer, place)
            if hours > left + _NOTHING:
                end = payer.period(place)[1]
                until = inf if end == inf else ceil(end - max(left, 0) / charge.rate * _HOUR - _NOTHING)
                until = until if until < payer.until else inf
                worst = Overdraft(payer, until, left, place)
        return worst

    def left(self, payer: Project, place: int) -> float:
        """Return how many hours are left in a period."""
        used = payer.used[place] if place < len(payer.used) else 0
        return payer.hours - used - self._taken.get((payer.name, place), 0)

    def spent(self, payers: tuple[Project, ...], instant: float) -> bool:
        """Tell whether one of them has nothing left at ``instant``."""
        return any(
            instant >= payer.until or self.left(payer, max(bisect_right(payer.begins, instant) - 1, 0)) <= _NOTHING
            for payer in payers
        )


def _parts(payer: Project, charge: Charge) -> Iterator[tuple[int, float]]:
    """Yield the periods in which a job is billed, each with its hours."""
    if not charge.rate or payer.hours == inf:
        return
    for place in range(max(bisect_right(payer.begins, charge.begin) - 1, 0), len(payer.begins)):
        begin, end = payer.period(place)
        if begin >= charge.end:
            return
        seconds = min(end, charge.end) - max(begin, charge.begin)
        if seconds > 0:
            yield place, charge.rate * seconds / _HOUR
