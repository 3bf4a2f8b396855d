"""The demo of several clusters shows of bags, and of programs over clusters, what happens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from oarpy.grid.local import mpi_job
from oarpy.grid.local.bag_demo import DISCLOSE, SITE, BagDemo
from oarpy.grid.local.local_grid import add_clusters
from oarpy.grid.local.metajob_demo import MetajobDemo
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


def test_a_program_of_mpi_shifts_after_early_ends_and_another_goes_to_one_cluster(
    cluster_databases: Callable[[], dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Both have the sum that one host has; the second has a shorter walltime on one cluster."""
    with brokered_clusters(CORES, cluster_databases, kill_grace=2.0) as grid:
        add_clusters(grid)
        MetajobDemo(grid).run()
        over_both = len((grid.home / "shares.1").read_text().split())
    shown = capsys.readouterr().out
    place = r"(\w+ \d(?:, \w+ \d)*) at ([\d-]+ [\d:]+)"
    moves = re.findall(rf": (shift|remap) {place} -> {place}, a job ended early on .*: moved$", shown, re.MULTILINE)
    assert Counter(kind for kind, *_ in moves) >= Counter(["shift", "remap"]), shown
    for kind, old_parts, before, new_parts, after in moves:
        assert after < before
        assert kind == "remap" or new_parts == old_parts == "north 4, south 2"
    assert (moves[-1][1], moves[-1][3]) == ("north 2, south 2", "south 4")
    assert "its walltime was 0:12:0 and is 0:10:0" in shown
    alone = sum(number * number for number in range(1001))
    assert shown.count(f"the sum is {alone}, as on one host") == 2
    assert over_both == (1 if mpi_job.what_is_missing() else 6), "a rank a processor"
