"""Links between clusters, which are described to applications that negotiate; those of a broker are links, too."""

from __future__ import annotations

import math
import time

from oarpy.client.session import Session
from oarpy.model.errors import NotFound, UsageError
from oarpy.negotiation.passes.shown_clusters import ShownClusters
from oarpy.store.grid import clusters
from oarpy.store.platform import cluster_links as links


def set_link(session: Session, first: str, second: str, latency: float, bandwidth: float) -> None:
    """Set the latency (seconds) and the bandwidth (bytes a second) between two clusters.

    Raises :class:`NotAllowed` unless the user is an admin, :class:`NotFound` for an unknown cluster.
    """
    session.require_admin("describe links")
    if first == second:
        raise UsageError(f"a link from '{first[:60]}' to itself", hint="name two clusters")
    if not 0 <= latency < math.inf:
        raise UsageError(f"--latency {latency:g} is out of range", hint="give seconds, at least 0")
    if not 0 < bandwidth < 2**53:
        raise UsageError(f"--bandwidth {bandwidth:g} is out of range", hint="give bytes a second, above 0")
    with session.connection.transaction():
        reader = session.snapshot_reader()
        platform = reader.platform(session.connection, int(time.time()))
        shown = ShownClusters(session.configuration.negotiation, platform, reader.consumables)
        known = [cluster.name for cluster in shown.all] + [row.name for row in clusters.every(session.connection)]
        for name in (first, second):
            if name not in known:
                raise NotFound(f"there is no cluster '{name[:60]}'", hint=f"there are {', '.join(known)[:200]}")
        links.set_link(session.connection, first, second, latency, bandwidth)


def delete_link(session: Session, first: str, second: str) -> None:
    """Delete a link. Raises :class:`NotAllowed` unless the user is an admin, :class:`NotFound` for an unknown link."""
    session.require_admin("describe links")
    if not links.delete_link(session.connection, first, second):
        raise NotFound(f"there is no link between '{first[:60]}' and '{second[:60]}'", hint="oaradmin links list")
