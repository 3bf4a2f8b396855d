"""The Gantt that a pass fills: the claims of all jobs on resources over time.

::

    Gantt -- whole     the platform: a Space, with its timeline and the holds of partners
          -- inside    a Space for each container name, open where a container holds resources
          -- stocks    the used amounts of consumables
          -- levels    the blocks of each exclusive level that jobs have
          -- ledger    the sums that quotas limit

A place for a job is searched in one Space. Its claim is entered in all of these (:meth:`Gantt.enter`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from math import inf
from operator import and_, or_

from msgspec import Struct, structs

from oarpy.model.request import Consumption
from oarpy.scheduler.gantt.amount_timeline import Stocks, StockView
from oarpy.scheduler.gantt.exclusive_levels import AskedLevel, Blocks, ExclusiveLevel
from oarpy.scheduler.gantt.known_lower_bounds import Bounds
from oarpy.scheduler.gantt.sharing import Line, Space, Views
from oarpy.scheduler.gantt.wide_timeline import AnyTimeline
from oarpy.scheduler.job_roles import EXCLUSIVE, PLAIN, Profile, Roles, roles_of
from oarpy.scheduler.order.budgets import Charge
from oarpy.scheduler.order.quotas import Amount, Ledger, Limits
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.consumables import Capacities
from oarpy.scheduler.resources.matching import RequestMatcher
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import HoldingJob, Snapshot, WaitingJob

NOTHING = Amount(0, 0)


class Kept(Struct, frozen=True):
    """Resources that stay with their holders, and the amounts that go with some of them until an instant.

    ``levels`` are the blocks that also stay with the holders, for jobs that cannot share that level with them.
    """

    bits: int
    amounts: tuple[tuple[float, int, tuple[Consumption, ...]], ...] = ()
    levels: tuple[tuple[AskedLevel, int], ...] = ()

    def asking(self, levels: tuple[AskedLevel, ...]) -> Kept:
        """Return the resources that a job asking for ``levels`` must leave to their holders."""
        blocks = [held for level, held in self.levels if any(level.excludes(asked) for asked in levels)]
        return structs.replace(self, bits=reduce(or_, blocks, self.bits)) if blocks else self

    def common(self, begin: float, end: float) -> int:
        """Return all other resources, at any time."""
        return ~self.bits

    def after(self, instant: float) -> float | None:
        """Return None: it never changes."""
        return None

    @property
    def begins(self) -> tuple[float, ...]:
        """No instants: it never changes."""
        return ()


class Claim(Struct, frozen=True):
    """Resources of a job for a time: an entry of the Gantt. ``walltime`` does not include the security time.

    ``levels`` are the exclusive levels that the job asked for.
    """

    start: float
    walltime: float
    bits: int
    consumes: tuple[Consumption, ...] = ()
    levels: tuple[AskedLevel, ...] = ()

    @property
    def end(self) -> float:
        """Start + walltime."""
        return self.start + self.walltime


Kind = tuple[RequestMatcher, float, tuple[Consumption, ...], int]
"""A request, its walltime, the consumables it uses, and the id of its limits, which live as long as their ledger."""


class Gantt:
    """The claims of all jobs from ``now`` on; changed only by entering claims."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._platform: Platform = snapshot.platform
        self._precedence = Precedence.of(snapshot)
        self._security: float = snapshot.security_time
        self.now: float = snapshot.now
        # Most jobs of a long queue have no types; such a job is exclusive.
        sharing = (roles_of(job).profile for job in snapshot.asking if job.types)
        self._profiles: frozenset[Profile] = frozenset(sharing) - {EXCLUSIVE}
        self.whole = Space(snapshot.now, self._platform.everything, self._profiles)
        self._outages = snapshot.outages
        self._close(self.whole)
        self.inside: dict[str, Space] = {}
        self.ledger = Ledger(snapshot.quotas, snapshot.quota_horizon, snapshot.projects)
        self.stocks = Stocks(Capacities(snapshot.consumables, snapshot.platform), snapshot.now)
        self.blocks = Blocks.of(snapshot)
        everything = self._platform.everything
        self._levels = {level: ExclusiveLevel(snapshot.now, everything) for level in self.blocks.levels}
        self._around: Mapping[str, frozenset[str]] = {}
        """The containers that pieces of a container lie in, by its name; replaced when it changes."""
        self.bounds = Bounds()
        """Facts known about the timeline of the platform, for jobs that share with no other job."""
        self._shared_bounds: dict[int, Bounds] = {}
        self.barred: dict[Kind, tuple[float, float]] = {}
        """Spans in which quotas or held resources leave requests of a kind no place to begin."""
        self._releases: dict[float, list[tuple[HoldingJob, int]]] = {}
        self._unprotected: dict[float, list[tuple[HoldingJob, int]]] = {}
        self._consumed_until: dict[int, float] = {}
        """Until when amounts of protected jobs have been taken already."""
        self._keeping: set[int] = set()
        """The jobs whose kept amounts have been taken already."""
        self._kept: Kept | None = None

    @classmethod
    def around(cls, snapshot: Snapshot, asking: WaitingJob, others: Iterable[HoldingJob]) -> Gantt:
        """Return a Gantt of the jobs that bound one job: ``others``, without jobs that may give way to it.

        Young and promised ones of these stay in. All of ``others`` bound a best-effort job.
        """
        gantt, others = cls(replace(snapshot, waiting=(asking,))), list(others)
        yields = gantt._precedence.yields
        gantt.protect((other for other in others if yields(other, asking)), snapshot.besteffort_minimum_life)
        gantt.hold(other for other in others if not yields(other, asking))
        return gantt

    def copy(self) -> Gantt:
        """Return an independent Gantt of equal content."""
        twin = self._twin()
        twin.whole = self.whole.copy()
        twin.inside = {name: space.copy() for name, space in self.inside.items()}
        twin.ledger = self.ledger.copy()
        twin.stocks = self.stocks.copy()
        twin._levels = {name: level.copy() for name, level in self._levels.items()}
        return twin

    def beside(self, kept: Kept) -> Gantt:
        """Return a Gantt to search places that begin now and leave ``kept`` alone; it shares the rest with this Gantt.

        The holders have the kept resources now, so a place that begins now has none of them, however long it lasts.
        """
        twin = self._twin()
        twin._kept = kept
        if kept.amounts:
            twin.stocks = self.stocks.copy()
            for until, bits, consumes in kept.amounts:
                twin.stocks.take(self.now, until, bits, consumes)
        return twin

    def _twin(self) -> Gantt:
        """Return a Gantt that shares spaces, sums and stocks with this one, in which nothing was learnt yet."""
        twin = copy(self)
        twin.bounds, twin._shared_bounds = Bounds(), {}
        twin.barred = {}
        return twin

    def knows(self, profile: Profile) -> bool:
        """Tell whether jobs of this profile can be placed; sharing profiles were announced with the snapshot."""
        return profile == EXCLUSIVE or profile in self._profiles

    @property
    def slots(self) -> int:
        """The number of periods from ``now`` on in which the free resources and amounts stay the same."""
        begins = self.whole.exclusive.begins
        return len(begins) + 1 - bisect_right(begins, self.now)

    def views(self, roles: Roles, consumes: tuple[Consumption, ...] = (), levels: tuple[AskedLevel, ...] = ()) -> Views:
        """Return the views a job of these roles is placed on; empty when its container does not exist.

        It asks for the exclusive ``levels``.
        """
        space = self.whole if roles.inside is None else self.inside.get(roles.inside)
        if space is None:
            return ()
        plain = levels and roles.profile == EXCLUSIVE and space is self.whole and self._kept is None and not consumes
        if plain and not any(level.shared for level in levels):
            return (self._narrowed(tuple(level.name for level in levels)),)
        views = space.views(roles.profile)
        if self._kept is not None and views:
            views = views[0], *views[1:], self._kept.asking(levels)
        for level in levels:
            if views:
                around = self._containers_around(roles.inside)
                line = self._levels[level.name].line(roles.profile, around, shared=level.shared)
                views = views[0], *views[1:], line
        return (views[0], *views[1:], StockView(self.stocks, consumes)) if consumes and views else views

    def _narrowed(self, levels: tuple[str, ...]) -> AnyTimeline:
        """Return the timeline of free resources for jobs that share with no other job and ask for ``levels``."""
        line = self.whole.narrowed.get(levels)
        if line is None:
            line = self.whole.narrowed[levels] = self.whole.exclusive.copy()
            for level in levels:
                for begin, end, bits in self._levels[level].holds():
                    line.remove(begin, end, bits)
        return line

    def free_slots(self, roles: Roles) -> tuple[list[float], list[int]]:
        """Return the begins of periods, and the resources free for these roles in each; the last never ends."""
        views = self.views(roles)
        if views == (self.whole.exclusive,):
            begins, free = self.whole.exclusive.slots()
            return list(begins), free
        instants = sorted({self.now, *(begin for view in views for begin in view.begins if begin > self.now)})
        spans = pairwise((*instants, inf))
        return instants, [reduce(and_, (view.common(*span) for view in views), -1 if views else 0) for span in spans]

    def bounds_of(self, line: Line) -> Bounds:
        """Return the known lower bounds of a line of the platform: the exclusive line, or the line of a profile."""
        return self.bounds if line is self.whole.exclusive else self._shared_bounds.setdefault(id(line), Bounds())

    def hold(self, jobs: Iterable[HoldingJob]) -> None:
        """Enter jobs that hold resources already. A job whose end has passed holds nothing."""
        for job in jobs:
            if job.end > self.now:
                bits = bits_held(self._platform, job)
                back = job.given_back if job.resumes is not None else 0
                until = job.end + self._security
                self._releases.setdefault(until, []).append((job, bits | back))
                levels = self.blocks.of_holder(job)
                self.enter(job, Claim(job.start, job.walltime, bits, levels=levels), everywhere=True)
                amounts = job.released_amounts if job.id in self._keeping else job.consumes
                self._consume(job, amounts, self._consumed_until.get(job.id, job.start), until)
                if job.resumes is not None:
                    again = Claim(job.resumes, job.end - job.resumes, job.given_back, levels=levels)
                    self.enter(job, again, everywhere=True)
                    self._consume(job, job.amounts_given_back, job.resumes, until)

    def _consume(self, job: HoldingJob, amounts: tuple[Consumption, ...], begin: float, end: float) -> None:
        """Let a job that holds resources have ``amounts`` during [begin, end)."""
        self.stocks.take(begin, end, bits_consumed_from(self._platform, job), amounts)

    def protect(self, jobs: Iterable[HoldingJob], life: float) -> None:
        """Let running jobs that give way keep their resources for the first ``life`` seconds, security time included.

        Jobs that are suspended when they give way keep amounts until they are over. Call this before :meth:`hold`.
        """
        for job in jobs:
            if not self._precedence.depth(job):
                continue
            over = job.end + self._security
            if job.kept_amounts and job.end > self.now:
                self._keeping.add(job.id)
                # amounts change only where the timeline of the platform has a boundary
                self.whole.exclusive.remove(job.start, over, 0)
                self._consume(job, job.kept_amounts, job.start, over)
            until = min(job.start + life, over)
            if not job.start <= self.now < min(job.end, until):
                continue
            bits = bits_held(self._platform, job)
            roles = roles_of(job)
            self._unprotected.setdefault(until, []).append((job, bits))
            self.whole.take(job.start, until, bits, roles.profile, all_free=False)
            if roles.inside is not None:
                self._space(roles.inside).take(job.start, until, bits, roles.profile, all_free=False)
            self._take_blocks(self.blocks.of_holder(job), job.start, until, bits, roles)
            self._consume(job, job.released_amounts, job.start, until)
            self._consumed_until[job.id] = until

    def released(self, instant: float, claim: Claim, roles: Roles) -> list[int]:
        """Return the jobs entered by :meth:`hold` that release claimed resources at ``instant``.

        Jobs that share with a job of ``roles`` are left out.
        """
        return self._in_the_way(self._releases.get(instant, ()), claim, roles)

    def unprotected(self, instant: float, claim: Claim, roles: Roles) -> list[int]:
        """Return the jobs entered by :meth:`protect` that may be cancelled from ``instant`` on.

        Jobs that share with a job of ``roles`` are left out.
        """
        return self._in_the_way(self._unprotected.get(instant, ()), claim, roles)

    def _in_the_way(self, holds: Iterable[tuple[HoldingJob, int]], claim: Claim, roles: Roles) -> list[int]:
        """Return the jobs that hold claimed resources or their blocks, and do not share with a job of ``roles``.

        The result is ascending, each job once. The order of entering and copies of a job in the Gantt do not matter.
        """
        return sorted(
            {
                job.id
                for job, held in holds
                if (held & claim.bits or self.blocks.common(claim.levels, claim.bits, self.blocks.of_holder(job), held))
                and not roles_of(job).admits(roles)
            }
        )

    def has_container(self, name: str) -> bool:
        """Tell whether a piece of this container was entered."""
        return name in self.inside and self.inside[name].opened

    def emptied(self, name: str) -> Gantt:
        """Return a Gantt in which container ``name`` holds no inner jobs, and neither quotas nor consumables count.

        To look for places inside ``name`` alone: the rest is shared with this one.
        """
        twin = self._twin()
        twin.inside = {name: self.inside[name].emptied()}
        self._close(twin.inside[name])
        twin.ledger = Ledger(())
        twin.stocks = self.stocks.emptied()
        twin._levels = {name: level.emptied() for name, level in self._levels.items()}
        return twin

    def enter(self, job: WaitingJob | HoldingJob, claim: Claim, *, everywhere: bool = False) -> None:
        """Enter ``claim`` for ``job``: it holds its resources until its end and the security time after it.

        Without ``everywhere``, the claim must have been found on this Gantt. An inner job then holds its resources only
        inside its container. With ``everywhere``, the job holds its resources even if other jobs do too, and also takes
        them from the platform. So an inner job that runs on after the end of its container keeps its resources.
        """
        roles = roles_of(job)
        begin, end = claim.start, claim.end + self._security
        if roles.inside is None or everywhere:
            self.whole.take(begin, end, claim.bits, roles.profile, all_free=not everywhere)
        if roles.inside is not None:
            self._space(roles.inside).take(begin, end, claim.bits, roles.profile, all_free=not everywhere)
        for name in roles.containers:
            self._space(name).open(begin, claim.end, claim.bits)
            if roles.inside is not None:
                self._around = {**self._around, name: self._around.get(name, frozenset()) | {roles.inside}}
        inner = roles.inside is not None and not everywhere
        self._take_blocks(claim.levels, begin, end, claim.bits, roles, inner=inner)
        if claim.consumes:
            if roles.inside is not None and not everywhere:
                # amounts change only where the timeline of the platform has a boundary
                self.whole.exclusive.remove(begin, end, 0)
            self.stocks.take(begin, end, claim.bits, claim.consumes)
        if self.ledger.counts and (amount := self.amount(job, roles, claim)).resources:
            self.ledger.count(job, begin, end, amount)

    def _take_blocks(
        self, levels: Iterable[AskedLevel], begin: float, end: float, bits: int, roles: Roles, *, inner: bool = False
    ) -> None:
        """Let a job have the blocks of exclusive ``levels`` of which it holds some of ``bits``.

        ``bits`` were taken from the platform already, unless it is an ``inner`` job that has them from its container.
        """
        for level in levels:
            blocks = self.blocks.touched(level.name, bits)
            self._levels[level.name].take(begin, end, blocks, roles, shared=level.shared)
            if rest := blocks if inner else blocks & ~bits:
                self.whole.narrow(begin, end, rest, level.name)

    def give_back(self, claim: Claim) -> None:
        """Take back :meth:`enter` of a plain job: unshared, outside containers and without quotas."""
        end = claim.end + self._security
        self.whole.exclusive.add(claim.start, end, claim.bits)
        for level in claim.levels:
            blocks = self.blocks.touched(level.name, claim.bits)
            self._levels[level.name].give_back(claim.start, end, blocks, PLAIN, shared=level.shared)
        self.whole.narrowed = {}
        self.bounds, self._shared_bounds = Bounds(), {}
        self.barred = {}

    def amount(self, job: WaitingJob | HoldingJob, roles: Roles, claim: Claim) -> Amount:
        """Return what ``claim`` of ``job`` adds to the quota sums, and what its project is billed."""
        if not roles.counted:
            return NOTHING
        resources = (claim.bits & self._platform.default_type).bit_count()
        charge = None
        if self.ledger.budgets is not None:
            projects = self.ledger.budgets.projects
            # amounts of who holds resources already are no part of its claims
            consumes = job.consumes if isinstance(job, HoldingJob) else claim.consumes
            held = self.blocks.billed(claim.bits, claim.levels, consumes, projects.weights)
            rate = projects.rate(job.project, held)
            charge = Charge(claim.start, claim.end, rate)
        return Amount(resources, resources * claim.walltime, 1 if job.part is None else 0, charge)

    def counts_all(self, bits: int) -> bool:
        """Tell whether quotas count each of ``bits``."""
        return bits & ~self._platform.default_type == 0

    def limits(self, job: WaitingJob, roles: Roles) -> Limits | None:
        """Return the quotas that apply to ``job``, if any."""
        return self.ledger.limits(job) if roles.counted else None

    def _containers_around(self, inside: str | None) -> frozenset[str]:
        """Return the names of all containers that a job lies in, directly or through other containers."""
        around: set[str] = set()
        names = set() if inside is None else {inside}
        while names:
            around |= names
            names = set().union(*(self._around.get(name, ()) for name in names)) - around
        return frozenset(around)

    def _space(self, name: str) -> Space:
        """Return the space inside the containers of one name; it is created for the first job that names it."""
        if name not in self.inside:
            self.inside[name] = Space(self.now, self._platform.everything, self._profiles, closed=True)
            self._close(self.inside[name])
        return self.inside[name]

    def _close(self, space: Space) -> None:
        """Take outages away from ``space``."""
        for outage in self._outages:
            if outage.end > self.now:
                space.close(max(outage.begin, self.now), outage.end, outage.bits)


def bits_held(platform: Platform, job: HoldingJob) -> int:
    """Return the resources of ``job`` as a set."""
    return platform.bits_of(job.resources) if job.bits is None else job.bits


def bits_consumed_from(platform: Platform, job: HoldingJob) -> int:
    """Return the resources whose blocks supply the amounts of ``job``, with those that a suspended job gave back."""
    return bits_held(platform, job) | job.given_back
