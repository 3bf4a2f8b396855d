"""The modules of a broker by name, made from the settings. ``oarpy.modules.registry.GRID_MODULES`` has the names."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from oarpy.configuration import Configuration, GridSettings
from oarpy.grid.broker.connections import ClusterConnections
from oarpy.grid.core.broker_state import ReallocationRules
from oarpy.modules.loop.module import Module


def _mapper(configuration: Configuration) -> Module:
    from oarpy.grid.broker.mapper import Mapper

    settings = configuration.grid
    return Mapper(reallocation_rules(settings), settings.place_ttl, ClusterConnections())


def _watcher(configuration: Configuration) -> Module:
    from oarpy.grid.broker.watcher import Watcher

    settings = configuration.grid
    return Watcher(settings.watch_period, settings.keep_decisions, ClusterConnections())


MODULES: dict[str, Callable[[Configuration], Module]] = {"mapper": _mapper, "watcher": _watcher}


def reallocation_rules(settings: GridSettings) -> ReallocationRules:
    """Return how jobs get their clusters and how they move, as the settings say."""
    return ReallocationRules(
        settings.mapping,
        settings.algorithm,
        settings.heuristic,
        settings.threshold,
        settings.age_limit or inf,
    )
