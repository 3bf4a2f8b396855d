"""The demo of several clusters shows of bags what happens."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from oarpy.grid.local.bag_demo import DISCLOSE, SITE, BagDemo
from oarpy.grid.local.local_grid import add_clusters
from oarpy.grid.local.transcript import CORES
from tests.harness.brokered_clusters import brokered_clusters

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_bags_are_shared_out_and_coordination_lets_others_be_done_earlier(
    cluster_databases: Callable[[], dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A bag over three clusters, one of which tells offers alone; then bags with coordination and without it."""
    with brokered_clusters(CORES, cluster_databases, site=SITE, disclose=DISCLOSE, watch_period=0.3) as grid:
        add_clusters(grid)
        BagDemo(grid).run()
    shown = capsys.readouterr().out
    assert "Clusters tell too little for dplbv2: plb is used." in shown
    given = dict(re.findall(r"^(north|south|west) +([1-9]\d*) +\d+ by ", shown, re.MULTILINE))
    assert sum(map(int, given.values())) == 12
    assert given.keys() == CORES.keys()
    assert shown.count("promised completion : ") >= 3
    assert "12 tasks ran, each once" in shown
    minutes = dict(re.findall(r"^(with|without) coordination +: (\d+) minutes$", shown, re.MULTILINE))
    assert int(minutes["with"]) < 5 < int(minutes["without"])
