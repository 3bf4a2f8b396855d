"""The clusters that an application is shown: those that pass its filter, in its own unit of counting."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg

from oarpy.admission.filters.filters import compile_filter
from oarpy.configuration import NegotiationSettings
from oarpy.model.errors import UsageError
from oarpy.negotiation.core.clusters import HOST, HostCluster, clusters_of, counted_at
from oarpy.negotiation.messages import ClusterFilter
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.resources.platform import Platform
from oarpy.store.database import Connection
from oarpy.store.passes import snapshot_rows


class ShownClusters:
    """The clusters of one platform with its consumables."""

    def __init__(self, settings: NegotiationSettings, platform: Platform, consumables: Iterable[Consumable]) -> None:
        self.platform = platform
        self.all = clusters_of(platform, settings.cluster, settings.visible_share, consumables)

    def at(self, level: str) -> tuple[HostCluster, ...]:
        """Return the clusters as seen when counting a level; none for a level that does not exist (any more)."""
        try:
            return counted_at(self.platform, self.all, level)
        except ValueError:
            return ()

    def passing(
        self, connection: Connection, cluster_filter: ClusterFilter, level: str = HOST
    ) -> tuple[HostCluster, ...]:
        """Return the clusters that pass a filter. Raises :class:`UsageError` for a condition that cannot be read."""
        admitted = self.platform.everything
        if cluster_filter.properties:
            condition = compile_filter(cluster_filter.properties, snapshot_rows.property_kinds(connection))
            try:
                with connection.transaction():
                    admitted = self.platform.bits_of(snapshot_rows.matching(connection, *condition.sql))
            except (psycopg.DataError, psycopg.ProgrammingError) as error:
                reason = str(error).splitlines()[0]
                raise UsageError(f"filter.properties: {reason}", hint="oarproperty -l lists the properties") from None
        names = {
            cluster.name
            for cluster in self.all
            if (cluster_filter.clusters is None or cluster.name in cluster_filter.clusters)
            and not cluster.bits & ~admitted
            and all(_total(cluster, name) >= least for name, least in cluster_filter.min_total.items())
        }
        return tuple(
            cluster for cluster in self.at(level) if cluster.name in names and cluster.size >= cluster_filter.min_hosts
        )


def _total(cluster: HostCluster, name: str) -> float:
    """Return the sum of a property over the hosts of a cluster: of its values, or of its blocks if it is a level."""
    value = cluster.properties.get(name, cluster.resources.get(name, 0))
    return len(cluster.hosts) * value if isinstance(value, int | float) else 0
