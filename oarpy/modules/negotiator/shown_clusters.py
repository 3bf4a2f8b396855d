"""The clusters that an application is shown: those that pass its filter."""

from __future__ import annotations

import psycopg

from oarpy.admission.filters.filters import compile_filter
from oarpy.configuration import NegotiationSettings
from oarpy.model.errors import UsageError
from oarpy.scheduler.negotiation.clusters import HostCluster, clusters_of
from oarpy.scheduler.resources.platform import Platform
from oarpy.store.database import Connection
from oarpy.store.passes import snapshot_rows
from oarpy.wire.negotiation import ClusterFilter

HOST = "host"
"""What is counted, unless an application asks for a level of the hierarchy."""


class ShownClusters:
    """The clusters of one platform."""

    def __init__(self, settings: NegotiationSettings, platform: Platform) -> None:
        self.platform = platform
        self.all = clusters_of(platform, settings.cluster, settings.visible_share)

    def passing(self, connection: Connection, asked: ClusterFilter) -> tuple[HostCluster, ...]:
        """Return the clusters that pass a filter. Raises :class:`UsageError` for a condition that cannot be read."""
        admitted = self.platform.everything
        if asked.properties:
            condition = compile_filter(asked.properties, snapshot_rows.property_kinds(connection))
            try:
                with connection.transaction():
                    admitted = self.platform.bits_of(snapshot_rows.matching(connection, *condition.sql))
            except (psycopg.DataError, psycopg.ProgrammingError) as error:
                reason = str(error).splitlines()[0]
                raise UsageError(f"filter.properties: {reason}", hint="oarproperty -l lists the properties") from None
        return tuple(
            one
            for one in self.all
            if (asked.clusters is None or one.name in asked.clusters)
            and not one.bits & ~admitted
            and len(one.hosts) >= asked.min_hosts
            and all(_total(one, name) >= least for name, least in asked.min_total.items())
        )


def _total(cluster: HostCluster, name: str) -> float:
    """Return the sum of a property over the hosts of a cluster: of its values, or of how many there are of a level."""
    value = cluster.properties.get(name, cluster.resources.get(name, 0))
    return len(cluster.hosts) * value if isinstance(value, int | float) else 0
