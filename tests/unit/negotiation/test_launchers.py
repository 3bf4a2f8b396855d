"""Choices of launchers that can be checked by hand."""

from __future__ import annotations

import ast
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import oarpy.negotiation
from oarpy.negotiation.launchers import Choice, Complex, Moldable, rigid
from oarpy.negotiation.profiles import BusyHosts, Time, Visits
from oarpy.negotiation.run_times import AmdahlTime, Cluster, IterativeTime

RED, BLUE = Cluster("red", 6), Cluster("blue", 3, 2)


def test_the_published_example_waits_for_all_hosts() -> None:
    """Free hosts 4, 1 and 5 from 0, 1 and 2 on: the ends to be had are 5, 6 and 3."""
    launcher = Moldable([Cluster("c", 5)], AmdahlTime(1, 5), 1, 5)
    assert launcher.choose({"c": BusyHosts.of([0, 1, 1, 1, 4])}, 0) == Choice({"c": 5}, 1)


def test_the_example_of_the_specification() -> None:
    launcher = Moldable([RED, BLUE], AmdahlTime(1, 36), 2, 6, Fraction(3, 2))
    first = {"red": BusyHosts.of([2, 58, 6]), "blue": BusyHosts.of([2, 49, 3])}
    assert launcher.choose(first, 3) == Choice({"blue": 3}, 9)
    later = {"red": BusyHosts.of([20, 3, 6]), "blue": BusyHosts.of([20, 31, 3])}
    assert launcher.choose(later, 21) == Choice({"red": 6}, 9)
    assert launcher.configurations == 2
    assert launcher.run_time({"red": 6}) == 6


def test_a_rigid_application_runs_faster_on_a_faster_cluster() -> None:
    launcher = rigid([RED, BLUE], 2, 10)
    assert launcher.choose({"red": BusyHosts(), "blue": BusyHosts()}, 0) == Choice({"blue": 2}, 5)
    assert rigid([RED, BLUE], 4, 10).choose({"red": BusyHosts(), "blue": BusyHosts()}, 0) == Choice({"red": 4}, 10)


def test_nothing_is_chosen_where_nothing_fits() -> None:
    assert rigid([BLUE], 4, 10).choose({"blue": BusyHosts()}, 0) is None
    assert Complex(IterativeTime(5, 0, [Cluster("a", 1)], {})).choose({"a": BusyHosts((9,), (1,))}, 0) is not None


def test_a_complex_application_leaves_out_a_cluster_that_is_too_far() -> None:
    near, far = frozenset(("red", "blue")), frozenset(("red", "green"))
    clusters = [RED, BLUE, Cluster("green", 6)]
    view = {cluster.name: BusyHosts() for cluster in clusters}
    latencies: dict[frozenset[str], Time] = {near: Fraction(1, 100), far: 1, frozenset(("blue", "green")): 1}
    launcher = Complex(IterativeTime(120, 100, clusters, latencies))
    assert launcher.choose(view, 0) == Choice({"red": 6, "blue": 3}, 11)
    assert Complex(IterativeTime(1200, 1, clusters, latencies)).choose(view, 0) == Choice(
        {"red": 6, "blue": 3, "green": 6}, Fraction(1200, 18) + 1
    )


def test_visited_steps_are_counted() -> None:
    visits = Visits()
    BusyHosts.of([0, 1, 4, 1, 1]).most(0, 2, visits)
    assert visits.steps == 2
    launcher = rigid([RED], 1, 10)
    launcher.choose({"red": BusyHosts.of([0, 5, 6, 5, 3])}, 0)
    assert launcher.visits.steps > 0


@pytest.mark.parametrize("flat", [[0, 1], [0, 0, 1], [0, -1, 1], [0, 1, -1], [0, 1, 1.5], []])
def test_lists_that_are_no_profiles_are_refused(flat: list[float]) -> None:
    with pytest.raises(ValueError, match="profile"):
        BusyHosts.of(flat)


def test_jobs_need_the_library_of_python_3_9_only() -> None:
    (folder,) = oarpy.negotiation.__path__
    modules_for_jobs = {f"oarpy.negotiation.{path.stem}" for path in Path(folder).glob("*.py")}
    for path in Path(folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), path.name, feature_version=(3, 9))):
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                continue
            for module in modules:
                ours = module in modules_for_jobs or module.startswith("oarpy.wire")
                ours = ours or (path.name == "dask_cluster.py" and module.split(".")[0] == "distributed")
                assert ours or module.split(".")[0] in sys.stdlib_module_names, (path, module)
