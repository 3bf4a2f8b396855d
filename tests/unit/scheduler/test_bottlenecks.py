"""Which level of a request fails on an empty platform, and how near it comes."""

from __future__ import annotations

import pytest

from oarpy.model.request import parse_request
from oarpy.scheduler.resources.matching import Matchers, bottleneck
from oarpy.scheduler.resources.platform import Platform, Resource

# two switches: the first with two nodes of four cores, the second with one of two
CORES = [("s1", "n1")] * 4 + [("s1", "n2")] * 4 + [("s2", "n3")] * 2
PLATFORM = Platform.build(
    Resource(number, properties={"switch": switch, "network_address": node, "core": number, "gpu": None})
    for number, (switch, node) in enumerate(CORES, 1)
)


@pytest.mark.parametrize(
    ("request_text", "found"),
    [
        ("/nodes=3", (-1, 0)),
        ("/nodes=4", (0, 3)),
        ("/nodes=1/core=5", (1, 4)),
        ("/nodes=3/core=4", (0, 2)),
        ("/switch=1/nodes=3", (1, 2)),
        ("/switch=2/nodes=1/core=4", (0, 1)),
        ("/switch=1/nodes=1/core=5", (2, 4)),
        ("/nodes=ALL", (-1, 0)),
        ("/nodes=ALL/core=3", (0, 2)),
        ("/nodes=BEST/core=4", (-1, 0)),
        ("/nodes=BEST/core=5", (1, 4)),
        ("/core=11", (0, 10)),
        ("/gpu=1", (0, 0)),
    ],
)
def test_bottleneck(request_text: str, found: tuple[int, int]) -> None:
    groups = parse_request(request_text).groups
    matcher = Matchers(PLATFORM).request(groups, [PLATFORM.everything])
    assert bottleneck(matcher.groups[0]) == found
    assert bool(matcher.match(PLATFORM.everything)) == (found[0] < 0)
