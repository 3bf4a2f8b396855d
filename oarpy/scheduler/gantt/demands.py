"""Waiting jobs made ready for placing: compiled requests, roles, the quota that applies.

A search looks at many instants. The facts that hold at all of them are worked out here, once for a job or a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, nextafter

from msgspec import Struct

from oarpy.model.job_types import read_types
from oarpy.model.request import Consumption, Group
from oarpy.scheduler.gantt.exclusive_levels import AskedLevel, Blocks
from oarpy.scheduler.job_roles import Roles
from oarpy.scheduler.order.quotas import Limits
from oarpy.scheduler.resources.block_requirements import Gauge, Gauges
from oarpy.scheduler.resources.consumables import Capacities
from oarpy.scheduler.resources.matching import Matchers, RequestMatcher
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import Alternative, Snapshot, WaitingJob, condition


class Unservable(Exception):
    """A request names something that this platform does not have; the text names it."""


@dataclass(frozen=True, slots=True)
class CompiledAlternative:
    """One alternative of a job: how to match it, and for how long (seconds, security time not counted).

    ``gauge`` says how to count the blocks that have enough of the consumables in ``consumes``, None if they cannot be
    counted. ``levels`` are the exclusive levels that the alternative asks for.
    """

    index: int
    walltime: float
    matcher: RequestMatcher
    consumes: tuple[Consumption, ...] = ()
    gauge: Gauge | None = field(default=None, compare=False)
    levels: tuple[AskedLevel, ...] = ()


class Demand(Struct, frozen=True):
    """A job to place: its alternatives among the resources it may have, its roles and its quota.

    It starts by ``start_by`` and ends (start + walltime) by ``end_by``.
    """

    job: WaitingJob
    roles: Roles
    options: tuple[CompiledAlternative, ...]
    limits: Limits | None = None
    start_by: float = inf
    end_by: float = inf

    @property
    def bounded(self) -> bool:
        """True for a job with a latest start or a latest end."""
        return self.start_by < inf or self.end_by < inf

    def before(self, option: CompiledAlternative) -> float | None:
        """Return the instant before which an alternative has to start, None when there is none."""
        latest = min(self.start_by, self.end_by - option.walltime)
        return nextafter(latest, inf) if latest < inf else None


Known = dict[tuple[str, bool, tuple[Group, ...], tuple[Consumption, ...]], RequestMatcher]
"""Compiled requests by the job's filter, whether it gets whole nodes, the groups and the amounts."""


class Masks:
    """The resources that the groups of a job may use, by condition; states are not looked at here."""

    def __init__(self, platform: Platform, filters: Mapping[str, int], errors: Mapping[str, str]) -> None:
        self._default = platform.default_type
        self.filters = filters
        self.errors = errors

    def of(self, job: WaitingJob, alternative: Alternative) -> list[int]:
        """Return one set per group. Raises :class:`Unservable` for a condition that could not be evaluated."""
        masks = []
        for group in alternative.groups:
            text = condition(job.properties, group.filter)
            if not text:
                masks.append(self._default)
            elif text in self.filters:
                masks.append(self.filters[text])
            else:
                raise Unservable(self.errors.get(text) or f"the condition '{text[:80]}' cannot be evaluated")
        return masks


class CompiledRequests:
    """Compiles the alternatives of jobs against the resources of a state."""

    def __init__(self, snapshot: Snapshot, matchers: Matchers) -> None:
        self._platform = snapshot.platform
        self._masks = Masks(snapshot.platform, snapshot.filters, snapshot.filter_errors)
        self._returning = snapshot.returning
        self._capacities = Capacities(snapshot.consumables, snapshot.platform)
        self._matchers = matchers
        self._blocks = Blocks.of(snapshot)
        self._gauges = Gauges(snapshot.platform, matchers, self._capacities)
        self._on_alive: Known = {}
        self._on_reservable: Known = {}
        self._on_existing: Known = {}

    def alive(self, job: WaitingJob) -> tuple[CompiledAlternative, ...]:
        """Return all alternatives, on Alive resources. A permissive job also gets resources that may come back."""
        if job.types and read_types(job.types).permissive:
            return self.reservable(job)
        return self._options(job, self._platform.alive, self._on_alive)

    def reservable(self, job: WaitingJob) -> tuple[CompiledAlternative, ...]:
        """Return all alternatives, on resources that may be back by then: Alive, Absent or Suspected."""
        return self._options(job, self._platform.reservable, self._on_reservable)

    def existing(self, job: WaitingJob) -> tuple[CompiledAlternative, ...]:
        """Return all alternatives, on all resources that are not Dead, as if none were drained."""
        if not self._returning:
            return self.reservable(job)
        everything = Masks(self._platform, self._all_returned(job), self._masks.errors)
        return self._options(job, self._platform.not_dead, self._on_existing, everything)

    def _all_returned(self, job: WaitingJob) -> dict[str, int]:
        """Return, by condition of ``job``, the resources that meet it when all resources are back."""
        texts = {condition(job.properties, group.filter) for way in job.alternatives for group in way.groups}
        known = self._masks.filters
        return {text: known[text] | self._returning.get(text, 0) for text in texts if text in known}

    def size(self, job: WaitingJob) -> int:
        """Count the resources that the first alternative takes on an empty platform; 0 when it cannot be served."""
        for option in (*self.alive(job)[:1], *self.reservable(job)[:1]):
            if bits := option.matcher.match(option.matcher.usable):
                return bits.bit_count()
        return 0

    def _options(
        self, job: WaitingJob, usable: int, known: Known, masks: Masks | None = None
    ) -> tuple[CompiledAlternative, ...]:
        """Compile each alternative among the ``usable`` resources, or take it from the ``known`` ones."""
        options = []
        whole_nodes = bool(job.types) and read_types(job.types).whole_nodes
        for rank, way in enumerate(job.alternatives):
            key = job.properties, whole_nodes, way.groups, way.consumes
            matcher = known.get(key)
            if matcher is None:
                matcher = known[key] = self._matcher(job, way, usable, whole_nodes, masks or self._masks)
            consumes = way.consumes if matcher.groups else ()
            gauge = self._gauges.of(matcher, consumes) if consumes else None
            options.append(
                CompiledAlternative(
                    rank, way.walltime, matcher, consumes, gauge, self._blocks.asked(way.groups, way.consumes)
                )
            )
        return tuple(options)

    def _matcher(
        self, job: WaitingJob, way: Alternative, usable: int, whole_nodes: bool, admitted: Masks
    ) -> RequestMatcher:
        """Return the matcher of one alternative. If no resource can serve it, the matcher holds the reason."""
        try:
            masks = [mask & usable for mask in admitted.of(job, way)]
            if way.consumes:
                masks = self._with_capacity(way.consumes, masks)
        except Unservable as error:
            return RequestMatcher([], str(error))
        if whole_nodes:
            return self._matchers.whole_nodes(way.groups, masks, usable & self._admitted(way.consumes))
        return self._matchers.request(way.groups, masks)

    def _with_capacity(self, consumes: tuple[Consumption, ...], masks: list[int]) -> list[int]:
        """Leave out the resources that can never give the amounts. Raises :class:`Unservable` if none is left."""
        if name := self._capacities.unknown(consumes):
            raise Unservable(f"'{name}' is not a consumable of this platform")
        wanted = 0
        for mask in masks:
            wanted |= mask
        if wanted and (reason := self._capacities.too_much(consumes, wanted)):
            raise Unservable(reason)
        admitted = self._admitted(consumes)
        return [mask & admitted for mask in masks]

    def _admitted(self, consumes: tuple[Consumption, ...]) -> int:
        """Return the resources that could ever give these amounts."""
        return self._capacities.admitted(consumes) & ~self._blocks.outside(consumes)
