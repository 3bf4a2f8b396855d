"""Links between clusters; each pair of clusters is stored once, in alphabetical order."""

from __future__ import annotations

from oarpy.store.database import Connection

Link = tuple[str, str, float, float]
"""Two clusters, latency in seconds, bandwidth in bytes a second."""

_LINKS = 'SELECT cluster, other, latency, bandwidth FROM cluster_links ORDER BY cluster COLLATE "C", other COLLATE "C"'
_SET = """
    INSERT INTO cluster_links (cluster, other, latency, bandwidth) VALUES (%s, %s, %s, %s)
    ON CONFLICT (cluster, other) DO UPDATE SET latency = excluded.latency, bandwidth = excluded.bandwidth
"""
_DELETE = "DELETE FROM cluster_links WHERE (cluster, other) = (%s, %s) RETURNING cluster"


def links(connection: Connection) -> list[Link]:
    """Return all links."""
    return [(first, second, latency, bandwidth) for first, second, latency, bandwidth in connection.execute(_LINKS)]


def set_link(connection: Connection, first: str, second: str, latency: float, bandwidth: float) -> None:
    """Store the link between two different clusters."""
    connection.execute(_SET, [*sorted((first, second)), latency, bandwidth])


def delete_link(connection: Connection, first: str, second: str) -> bool:
    """Forget a link; return whether there was one."""
    return connection.execute(_DELETE, sorted((first, second))).fetchone() is not None
