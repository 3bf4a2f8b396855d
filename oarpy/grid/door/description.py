"""The description of this cluster for brokers."""

from __future__ import annotations

from oarpy.grid.calls.parts import ClusterAbilities, ClusterDescription
from oarpy.grid.calls.table import Describe
from oarpy.grid.door.call_context import CallContext
from oarpy.store.grid import cluster_facts


def describe(context: CallContext, call: Describe) -> ClusterDescription:
    """Answer ``describe``: processors that are not dead, by the clock of the database."""
    procs, clock = cluster_facts.processors(context.connection)
    door = context.configuration.door
    promises, calls = context.configuration.scheduler.promises, context.configuration.gateway.calls
    abilities = ClusterAbilities(
        evict=door.evict != "none",
        amend=True,
        foresee=True,
        offer=promises,
        rate=calls,
        profile=promises and calls,
    )
    return ClusterDescription(procs, door.speed, clock, abilities)
