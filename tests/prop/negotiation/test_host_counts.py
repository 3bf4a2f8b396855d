"""Hosts that are wholly free are counted as one by one, wherever the resources of a host are in the sets."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from oarpy.negotiation.core.clusters import HostCluster
from oarpy.negotiation.core.host_counts import FAR, HostCounts


@given(st.data())
def test_profiles_are_those_of_hosts_counted_one_by_one(data: st.DataObject) -> None:
    widths = data.draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5)), min_size=1, max_size=3))
    places = list(range(sum(width * hosts for width, hosts in widths)))
    if data.draw(st.booleans(), "the resources of a host lie anywhere"):
        random.Random(data.draw(st.integers(0, 9))).shuffle(places)
    clusters = []
    for number, (width, hosts) in enumerate(widths):
        sets = tuple(sum(1 << places.pop() for _ in range(width)) for _ in range(hosts))
        names = tuple(f"c{number}h{host}" for host in range(hosts))
        share = data.draw(st.sampled_from([1.0, 0.5]))
        clusters.append(HostCluster(f"c{number}", number, True, names, sets, {}, {}, {}, share))
    size = sum(width * hosts for width, hosts in widths)
    free = data.draw(st.lists(st.integers(0, (1 << size) - 1) | st.just((1 << size) - 1), min_size=1, max_size=6))
    begins = [10.0 * slot for slot in range(len(free))]
    found = HostCounts(size, clusters).profiles((begins, free))
    for cluster in clusters:
        profile = found[cluster.name]
        for begin, some in zip(begins, free, strict=True):
            wholly = sum(1 for host in cluster.sets if host & some == host)
            assert profile.at(begin) == cluster.size - min(wholly, cluster.most)
        assert all(end in {*begins, FAR} for end in profile.ends)
