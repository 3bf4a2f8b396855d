"""The resources that exist on a platform, whatever their state: those that a request could ever have.

All resources that are not Dead count: absent, suspected and drained ones come back, and busy ones become free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from oarpy.admission.filters.filters import check_condition, compile_filter
from oarpy.model.request import Consumption, Group
from oarpy.scheduler.resources.consumables import Capacities, Consumable
from oarpy.scheduler.resources.matching import Matchers, RequestMatcher
from oarpy.scheduler.resources.platform import RESOURCE_ID, Platform, Resource
from oarpy.store.database import Connection
from oarpy.store.passes import snapshot_rows
from oarpy.store.platform import consumables

_MOST_KEPT = 1000
"""Conditions and compiled requests that are kept; they are forgotten all at once when there are more."""


_COMING_AND_GOING = frozenset({"state", "state_by", "state_since", "drain", "available_upto"})
"""Columns of resources that change while the set of existing resources stays the same."""


def declared_consumables(connection: Connection) -> tuple[Consumable, ...]:
    """Return the consumables that jobs may ask amounts of, with the capacity of every block."""
    capacities = consumables.by_block(consumables.capacities(connection))
    return tuple(
        Consumable(consumable.name, consumable.level, capacities.get(consumable.name, {}))
        for consumable in consumables.consumables(connection)
    )


class ExistingReader:
    """Reads the existing resources, and again only when they have changed: states change much more often."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._version = -1
        self._watched: frozenset[str] = frozenset()
        self._mark: object = None
        self._existing = ExistingResources(Platform.build([], []), {}, ())

    def read(self, connection: Connection, named: Collection[str] = ()) -> ExistingResources:
        """Return the existing resources now; ``named`` are the columns that conditions name, without drain.

        A change during the reading is seen by the next call.
        """
        if connection is not self._connection:
            self._connection, self._version, self._mark = connection, -1, None
        version = snapshot_rows.platform_version(connection)
        watched = _COMING_AND_GOING.intersection(named)
        if version != self._version or not watched <= self._watched:
            self._watched = watched
            self._refresh(connection)
            self._version = version
        return self._existing

    def _refresh(self, connection: Connection) -> None:
        kinds = snapshot_rows.property_kinds(connection)
        amounts = declared_consumables(connection)
        ignored = _COMING_AND_GOING - self._watched
        mark = ignored, kinds, amounts, snapshot_rows.fingerprint(connection, ignored)
        if mark != self._mark:
            rows = [Resource(*row) for row in snapshot_rows.platform(connection)]
            platform = Platform.build(rows, hierarchy=[name for name in kinds if name != RESOURCE_ID])
            self._existing = ExistingResources(platform, kinds, amounts)
            self._mark = mark


class ExistingResources:
    """Answers questions about one platform, and caches the results for conditions and requests."""

    def __init__(self, platform: Platform, kinds: Mapping[str, str], consumables: Sequence[Consumable]) -> None:
        """Take a platform and its consumables; ``kinds`` are the SQL types of the properties."""
        self.platform = platform
        self.kinds = kinds
        self.consumables = {consumable.name: consumable for consumable in consumables}
        self._capacities = Capacities(consumables, platform)
        self._matchers = Matchers(platform)
        self._admitted: dict[str, int] = {}

    def matcher(self, groups: Sequence[Group], masks: Sequence[int], *, whole_nodes: bool = False) -> RequestMatcher:
        """Return the matcher of ``groups``, each with the set of resources that it may use."""
        if len(self._matchers) > _MOST_KEPT:
            self._matchers = Matchers(self.platform)
        if whole_nodes:
            return self._matchers.whole_nodes(groups, masks, self.platform.not_dead)
        return self._matchers.request(groups, masks)

    def admitted(self, condition: str, consumes: Sequence[Consumption] = ()) -> int:
        """Return the resources that meet a condition, now or once they are Alive and not drained.

        They are of type default unless the condition names types. Only resources whose blocks could ever give
        ``consumes`` count; all these consumables must be known.
        """
        if condition not in self._admitted:
            if len(self._admitted) > _MOST_KEPT:
                self._admitted = {}
            self._admitted[condition] = self._evaluated(condition)
        return self._admitted[condition] & self._capacities.admitted(consumes)

    def of_type(self, condition: str, consumes: Sequence[Consumption] = ()) -> int:
        """Return all resources of the types that a condition names, whatever else it asks."""
        named = bool(condition) and "type" in check_condition(condition)
        there = self.platform.not_dead if named else self.platform.not_dead & self.platform.default_type
        return there & self._capacities.admitted(consumes)

    def _evaluated(self, condition: str) -> int:
        if not condition:
            return self.of_type(condition)
        checked = compile_filter(condition, self.kinds)
        names, back = checked.columns - {"drain"}, {"drain": False, "state": "Alive"}
        by_state = "state" in names

        def is_met(row: Resource) -> bool:
            there = {name: row.properties.get(name) for name in names}
            return checked.matches({"drain": False, **there}) or (by_state and checked.matches({**there, **back}))

        met = (row.id for row in self.platform.resources if is_met(row))
        return self.platform.bits_of(met) & self.of_type(condition)
