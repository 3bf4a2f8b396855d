"""The demo of several clusters shows of bags, and of programs over clusters, what happens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from oarpy.grid.local import frame_demo, mpi_job
from oarpy.grid.local.bag_demo import DISCLOSE, SITE, BagDemo
from oarpy.grid.local.frame_demo import FrameDemo
from oarpy.grid.local.local_grid import add_clusters
from oarpy.grid.local.map_demo import MapDemo
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


def test_frames_are_profiled_and_rendered_over_clusters_where_povray_is(
    cluster_databases: Callable[[], dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    with brokered_clusters(CORES, cluster_databases, site=SITE, watch_period=0.3) as grid:
        add_clusters(grid)
        FrameDemo(grid).run()
    shown = capsys.readouterr().out
    if frame_demo.what_is_missing():
        assert "A bag of frames is not shown: there is no " in shown
    else:
        assert "(expected by " in shown
        assert "6 frames are rendered" in shown


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


def test_a_mapped_program_goes_to_one_cluster_before_it_begins_and_finds_the_same(
    cluster_databases: Callable[[], dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The optimiser of the examples over two clusters; then planned on two and begun on one."""
    with brokered_clusters(CORES, cluster_databases, site=SITE, algorithm=1, watch_period=0.3) as grid:
        add_clusters(grid)
        MapDemo(grid).run()
    shown = capsys.readouterr().out
    if "this part is left out" in shown:
        pytest.skip(shown.strip().splitlines()[-1])
    placed = re.findall(r"processes are mapped to cores: (.+)\. Predicted: ([\d.]+) s$", shown, re.MULTILINE)
    assert [cores for cores, _ in placed] == ["north: 2 of type all; south: 2 of type all"] * 2
    first, second = re.findall(r"^\$ cat map\.\d+\n((?:\d.*\n)+)", shown, re.MULTILINE)
    for text, hosts in ((first, {"north1": 2, "south1": 2}), (second, {"south1": 4})):
        lines = [line.split() for line in text.splitlines()]
        assert [words[0] for words in lines] == list(map(str, range(8)))
        assert Counter(words[1] for words in lines) == {"regular": 4, "random": 4}
        assert Counter(host for host, _ in {(words[2], words[3]) for words in lines}) == hosts
    assert re.search(r"remap north 2, south 2 at .* -> south 4 at .*: moved", shown)
    found = re.findall(r"^(?:mapped   |in series): (8 processes on 4 cores: epsilon \S+),", shown, re.MULTILINE)
    assert len(found) == 4
    assert found[0] == found[1]
    assert found[2] == found[3]
