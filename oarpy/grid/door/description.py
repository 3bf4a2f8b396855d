"""What this cluster is, as brokers are told."""

from __future__ import annotations

from oarpy.grid.calls.parts import ClusterAbilities, ClusterDescription
from oarpy.grid.calls.table import Describe
from oarpy.grid.door.visit import Visit
from oarpy.store.grid import cluster_facts


def describe(visit: Visit, call: Describe) -> ClusterDescription:
    """Answer ``describe``: processors that are not dead, by the clock of the database."""
    procs, clock = cluster_facts.processors(visit.connection)
    door = visit.configuration.door
    return ClusterDescription(procs, door.speed, clock, ClusterAbilities(evict=door.evict != "none", amend=True))
