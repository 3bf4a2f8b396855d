"""How many hosts of clusters are wholly free, by arithmetic on sets of resources::

free resources       1111 1011 0110 1111      hosts of four resources each
and shifted by 1     .111 .001 .010 .111
and shifted by 2     ...1 ...0 ...0 ...1      counted: two hosts
"""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.negotiation.core.clusters import HostCluster


class HostFolds:
    """Counts the free hosts of clusters in sets of free resources; the count of a repeated set is cached.

    ``possible`` tells whether the resources of each host are neighbours in the sets, and all hosts of a cluster have
    equally many.
    """

    def __init__(self, clusters: Sequence[HostCluster]) -> None:
        self._widths = [cluster.sets[0].bit_count() for cluster in clusters]
        self._firsts = [sum(bits & -bits for bits in cluster.sets) for cluster in clusters]
        self.possible = all(
            bits == ((1 << width) - 1) * (bits & -bits)
            for cluster, width in zip(clusters, self._widths, strict=True)
            for bits in cluster.sets
        )
        self._known: dict[int, tuple[int, ...]] = {}

    def free_hosts(self, free: int) -> tuple[int, ...]:
        """Return for each cluster how many of its hosts are wholly free."""
        counts = self._known.get(free)
        if counts is None:
            folded = {width: _folded(free, width) for width in set(self._widths)}
            counts = self._known[free] = tuple(
                [(folded[width] & firsts).bit_count() for width, firsts in zip(self._widths, self._firsts, strict=True)]
            )
        return counts


def _folded(free: int, width: int) -> int:
    """Return the places from which ``width`` neighbours are in the set."""
    done = 1
    while done < width:
        step = min(done, width - done)
        free &= free >> step
        done += step
    return free
