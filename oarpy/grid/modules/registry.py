"""The modules of a broker by name, made from the settings. ``oarpy.modules.registry.GRID_MODULES`` has the names."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from oarpy.configuration import Configuration, GridSettings
from oarpy.grid.broker.claimer import Claimer
from oarpy.grid.broker.coallocated.bags import BagRules
from oarpy.grid.broker.coallocated.common_starts import ClaimTimes
from oarpy.grid.broker.coallocated.metajobs import MetajobRules
from oarpy.grid.broker.connections import ClusterConnections, clusters_of
from oarpy.grid.broker.mapper import Mapper
from oarpy.grid.broker.mover import Mover
from oarpy.grid.broker.watcher import Watcher
from oarpy.grid.core.broker_state import DeadlineRules, ReallocationRules
from oarpy.modules.loop.module import Module


def _connections(settings: GridSettings) -> ClusterConnections:
    return ClusterConnections(clusters_of(settings.name))


def _mapper(configuration: Configuration) -> Module:
    settings = configuration.grid
    return Mapper(reallocation_rules(settings), settings.place_ttl, _connections(settings))


def _watcher(configuration: Configuration) -> Module:
    settings = configuration.grid
    return Watcher(
        settings.watch_period, settings.keep_decisions, _connections(settings), tolerance=settings.clock_tolerance
    )


def _claimer(configuration: Configuration) -> Module:
    settings = configuration.grid
    times = ClaimTimes(kill_grace=settings.kill_grace)
    rules = MetajobRules(
        settings.commit_lead,
        settings.threshold,
        settings.begin_time,
        settings.transfer,
        configuration.processes.margin,
        settings.transfer_size,
    )
    tolerance = settings.clock_tolerance
    bags = BagRules(settings.coordination, settings.provider_lost, configuration.scheduler.profile_limit)
    return Claimer(deadline_rules(settings), times, tolerance, _connections(settings), metajobs=rules, bags=bags)


def _mover(configuration: Configuration) -> Module:
    settings = configuration.grid
    return Mover(reallocation_rules(settings), settings.period, _connections(settings))


MODULES: dict[str, Callable[[Configuration], Module]] = {
    "mapper": _mapper,
    "claimer": _claimer,
    "mover": _mover,
    "watcher": _watcher,
}


def deadline_rules(settings: GridSettings) -> DeadlineRules:
    """Return when room is looked for before a deadline, as the settings say."""
    wait = inf if settings.wait < 0 else settings.wait
    return DeadlineRules(settings.lp, settings.tries, wait, settings.evict_at)


def reallocation_rules(settings: GridSettings) -> ReallocationRules:
    """Return how jobs get their clusters and how they move, as the settings say."""
    return ReallocationRules(
        settings.mapping,
        settings.algorithm,
        settings.heuristic,
        settings.threshold,
        settings.age_limit or inf,
    )
