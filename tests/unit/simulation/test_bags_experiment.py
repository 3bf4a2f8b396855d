"""The experiment on coordinated bags: its workload, what its variants differ in, and what is judged."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from oarpy.grid.simulation.command import object_of
from research.bags.coordination import CLUSTERS, METRICS, PROCS, coordination_run, scenario
from research.bags.coordination_figures import BASES, COORDINATED, MIXED, VARIANTS, BagsTable, Variant, write_figures
from research.bags.coordination_report import bags_claims, points_of

_DAY = 86400


def point(variant: Variant, more: float = 1.0, seed: int = 1, days: int = 1) -> dict[str, Any]:
    """Return the parameters of a run."""
    return {"days": days, **asdict(variant), "more": more, "seed": seed}


def test_bags_have_the_load_of_the_thesis() -> None:
    jobs = scenario(point(BASES[1.0], days=5))["jobs"]
    work = sum(job["tasks"] * job["run"] for job in jobs)
    assert work / (4 * PROCS * 5 * _DAY) == pytest.approx(0.7, abs=0.03)
    assert (jobs[0]["submit"], jobs[-1]["submit"]) == (0, 5 * _DAY)
    assert max(job["tasks"] for job in jobs) <= PROCS
    assert all(job["walltime"] == 2 * job["run"] for job in jobs)


def test_variants_differ_in_what_they_say_alone() -> None:
    base, together = scenario(point(BASES[1.0])), scenario(point(COORDINATED[1.0]))
    assert (base["bags"]["coordinated"], together["bags"]["coordinated"]) == (False, True)
    assert {**base, "bags": None} == {**together, "bags": None}
    mixed = scenario(point(MIXED))
    assert [one["estimates"] for one in mixed["clusters"]] == ["walltime", "walltime", "predicted", "predicted"]
    assert [(job["predicted"] - job["run"]) / job["run"] for job in mixed["jobs"]] == pytest.approx([0.2] * 294)
    assert all(300 <= job["profiling"] <= 1800 for job in mixed["jobs"])
    assert [one["speed"] for one in scenario(point(BASES[1.5]))["clusters"]] == [1.5, 1.5, 1, 1]


def test_a_run_has_the_metrics_of_its_file() -> None:
    run = point(COORDINATED[1.2])
    values = coordination_run(run, {})
    printed = object_of(json.dumps(scenario(run)))
    assert set(values) == {*METRICS, "bags", "load"}
    assert all(values[name] == printed["metrics"][name] for name in ("response", "stretch", "broken", "utilisation"))
    assert [values[name] for name in CLUSTERS] == list(printed["metrics"]["by_cluster"].values())
    for count in range(1, 5):
        on = sum(len(job["parts"]) == count for job in printed["jobs"])
        assert values[f"on_{count}"] == pytest.approx(100 * on / len(printed["jobs"]))
    assert values["fitting"] > 0


def test_a_bag_that_fits_into_what_an_early_end_frees_is_counted() -> None:
    assert coordination_run(point(BASES[1.0], more=0.0), {})["fitting"] == 0  # nothing ends early


def test_the_runs_are_those_of_the_page() -> None:
    assert len(points_of(1, quick=False, full=False)) == 3 * (15 * 5 + 3)
    assert len(points_of(1, quick=True, full=False)) == 15 * 2 + 3
    assert len(points_of(1, quick=False, full=True)) == 15 * (15 * 20 + 3)


def made_up(changes: dict[str, float], seeds: int = 1) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return runs of equal values, but coordination improves those by a twentieth, and ``changes`` are of it."""
    rows = []
    for seed in range(1, seeds + 1):
        for run in points_of(seed, quick=True, full=False):
            values = dict.fromkeys(METRICS, 20.0) | {"C3": 40.0, "broken": 0, "bags": 10, "load": 70.0}
            if run["coordinated"]:
                values |= dict.fromkeys(("response", "slowdown", "stretch", "response_multi"), 19.0) | changes
            rows.append(({**run}, values))
    return rows


def test_claims_compare_coordination_with_the_base() -> None:
    def holds(**changes: float) -> dict[str, str]:
        return {claim.claim: claim.holds for claim in bags_claims(BagsTable(made_up(changes)))}

    usual = holds()
    assert [usual[name] for name in ("7a", "7b", "7b-size", "7d", "7e", "7f", "7g", "7-kept")] == ["yes"] * 8
    assert [usual[name] for name in ("7b-grows", "7b-hetero", "7c")] == ["no"] * 3
    assert [usual[name] for name in ("7a-30", "7h")] == ["-"] * 2
    assert holds(stretch=20.0)["7a"] == "no"
    assert (holds(response=19.9)["7b"], holds(slowdown=20.0)["7b"]) == ("no", "no")
    assert (holds(response=18.0)["7b"], holds(response=18.0)["7b-size"]) == ("yes", "no")
    assert (holds(utilisation=21.5)["7g"], holds(broken=1)["7-kept"]) == ("no", "no")
    claims = bags_claims(BagsTable(made_up({})))
    assert {claim.claim for claim in claims if claim.judged} == {"7a", "7b", "7g", "7-kept"}


def test_claims_are_open_without_runs() -> None:
    assert {claim.holds for claim in bags_claims(BagsTable([]))} == {"-"}


def test_figures_have_a_line_a_variant_and_overestimation(tmp_path: Path) -> None:
    write_figures(tmp_path, BagsTable(made_up({}, seeds=2)), drawing=True)
    lines = (tmp_path / "figure01.csv").read_text().splitlines()
    assert lines[0] == "speed,estimates,accuracy,coordinated,policy,more,seeds,response,low,high"
    assert len(lines) == 1 + 2 * len(VARIANTS)
    assert lines[3].startswith("1.0,walltime,0.0,1,plb,0.5,2,5.0")
    assert len(list(tmp_path.glob("figure*.svg"))) == 6
