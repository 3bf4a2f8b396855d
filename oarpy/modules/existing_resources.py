"""What exists on a platform, whatever its state: which resources a request could ever have.

All count that are not Dead: what is absent, suspected or drained comes back, what is busy gets free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oarpy.admission.filters import compile_filter
from oarpy.model.request import Consumption, Group
from oarpy.scheduler.consumables import Capacities, Consumable
from oarpy.scheduler.matching import Matchers, RequestMatcher
from oarpy.scheduler.platform import Platform

_MOST_KEPT = 1000
"""Conditions and compiled requests that are kept; they are forgotten all at once when there are more."""


class ExistingResources:
    """Answers for one platform, and remembers what it found out about conditions and requests."""

    def __init__(self, platform: Platform, kinds: Mapping[str, str], consumables: Sequence[Consumable]) -> None:
        """``kinds`` are the SQL types of the properties."""
        self.platform = platform
        self.kinds = kinds
        self.consumables = {one.name: one for one in consumables}
        self._capacities = Capacities(consumables, platform)
        self._matchers = Matchers(platform)
        self._admitted: dict[str, int] = {}

    def matcher(self, groups: Sequence[Group], masks: Sequence[int]) -> RequestMatcher:
        """Return what matches ``groups``, each with the set of resources that it may use."""
        if len(self._matchers) > _MOST_KEPT:
            self._matchers = Matchers(self.platform)
        return self._matchers.request(groups, masks)

    def admitted(self, condition: str, consumes: Sequence[Consumption] = ()) -> int:
        """Return the resources that a condition admits if nothing is drained: of type default unless it names types.

        Only those count whose blocks could ever give ``consumes``, which are all known.
        """
        if condition not in self._admitted:
            if len(self._admitted) > _MOST_KEPT:
                self._admitted = {}
            self._admitted[condition] = self._evaluated(condition)
        return self._admitted[condition] & self._capacities.admitted(consumes)

    def of_type(self, condition: str, consumes: Sequence[Consumption] = ()) -> int:
        """Return all the resources of the types that a condition speaks of, whatever else it asks."""
        named = bool(condition) and "type" in compile_filter(condition, self.kinds).columns
        there = self.platform.not_dead if named else self.platform.not_dead & self.platform.default_type
        return there & self._capacities.admitted(consumes)

    def _evaluated(self, condition: str) -> int:
        if not condition:
            return self.of_type(condition)
        checked = compile_filter(condition, self.kinds)
        names = checked.columns - {"drain"}
        met = (
            row.id
            for row in self.platform.resources
            if checked.matches({"drain": False, **{name: row.properties.get(name) for name in names}})
        )
        return self.platform.bits_of(met) & self.of_type(condition)
