"""The experiment on bags with deadlines: its workload, the deadlines that a seed draws, and what is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from research.bags.offers import LOCAL, METRICS, SCHEMAS, WORKLOADS, offers_run, offers_runs, scenario
from research.bags.offers_figures import FIGURES, POLICIES, PolicyTable, write_figures
from research.bags.offers_report import offers_claims
from research.runs.published_logs import PublishedLog, part_of_log
from tests.harness.made_up_logs import write_log, write_logs_of_bags

_DAY = 86400
POINT: dict[str, str | int | float] = {"days": 10, "schema": 1, "policy": "plb", "seed": 1}


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Logs of all workloads."""
    write_logs_of_bags(tmp_path)
    return tmp_path


def document(traces: Path, **changes: str | int | float) -> dict[str, Any]:
    """Return the file of a run."""
    point = {**POINT, **changes}
    return scenario(point, offers_runs([point], traces).places)


def test_workloads_have_the_published_loads(traces: Path) -> None:
    jobs = document(traces)["jobs"]
    for name, log in WORKLOADS.items():
        mine = [job for job in jobs if job.get("cluster", "external") == name]
        work = sum(job["procs"] * job.get("tasks", 1) * job["run"] for job in mine)
        assert 100 * work / (log.procs * 10 * _DAY) == pytest.approx(log.load, abs=3)
        assert all(0 <= job["submit"] < 10 * _DAY for job in mine)
    assert {(job["tasks"], job["procs"]) for job in jobs if "cluster" not in job} == {(256, 1)}
    assert [job["submit"] for job in jobs] == sorted(job["submit"] for job in jobs)


def test_a_seed_draws_deadlines_alone(traces: Path) -> None:
    one, other = document(traces)["jobs"], document(traces, seed=2)["jobs"]
    assert [{**job, "deadline": 0} for job in one] == [{**job, "deadline": 0} for job in other]
    assert [job["deadline"] for job in one] != [job["deadline"] for job in other]


@pytest.mark.parametrize("schema", [1, 2])
def test_deadlines_are_those_of_the_schema_for_all_policies(traces: Path, schema: int) -> None:
    jobs = document(traces, schema=schema)["jobs"]
    laxities = {round(job["deadline"] - job["submit"] - job["run"]) for job in jobs}
    assert laxities == set(SCHEMAS[schema])
    assert document(traces, schema=schema, policy="slots")["jobs"] == jobs


def test_a_log_of_so_many_records_comes_in_so_many_days(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    write_log(path, 30, 10, 1, 3600)
    log = PublishedLog(name="log", procs=10, load=8, shortest=3600, scaled=(100, 5))
    part = part_of_log(log, str(path), 5, 1, 0)
    assert (len(part.jobs), part.lost, part.added) == (100, 0, 0)
    assert [job.submit for job in part.jobs] == pytest.approx([place * 4320 for place in range(100)])


def test_runs_have_the_named_metrics(traces: Path) -> None:
    experiment = offers_runs([POINT], traces)
    values = offers_run(experiment.runs[0], experiment.places)
    assert set(values) == {*METRICS, "inputs"}
    assert set(values["inputs"]) == {*LOCAL, "external"}


def made_up(**changes: float) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return runs of which all have the same values, but offers delay fewer bags and local jobs."""
    rows = []
    for schema in SCHEMAS:
        for policy in POLICIES:
            values = dict.fromkeys(METRICS, 10.0) | {"clusters_per_bag": 4.0 - schema}
            if policy != "slots":
                values |= {name: 5.0 for name in METRICS if "delay" in name}
                values |= changes
            rows.append(({**POINT, "schema": schema, "policy": policy}, values))
    return rows


def test_claims_compare_offers_with_slots() -> None:
    def holds(**changes: float) -> dict[str, str]:
        return {claim.claim: claim.holds for claim in offers_claims(PolicyTable(made_up(**changes)), FIGURES)}

    usual = holds()
    assert [usual[name] for name in ("6a-external", "6c", "6e", "6f")] == ["yes"] * 4
    assert [usual[name] for name in ("6a-local", "6b", "6d")] == ["no"] * 3
    assert holds(external_work_delayed=10.0)["6a-external"] == "no"
    assert holds(external_tw_delay=11.0)["6c"] == "no"
    assert holds(utilisation=13.5)["6f"] == "no"
    assert (holds(local_delayed=10.5)["6a-local"], holds(local_delayed=10.5)["6b"]) == ("yes", "yes")


def test_claims_of_figures_that_were_not_asked_for_stay_open() -> None:
    claims = offers_claims(PolicyTable(made_up()), [1, 4])
    assert {claim.claim for claim in claims if claim.holds != "-"} == {"6a-local", "6b", "6d", "6e"}


def test_only_seeds_with_all_runs_are_compared() -> None:
    rows = made_up()
    more = [({**run, "seed": 2}, {**values, "utilisation": 90.0}) for run, values in made_up()[:-1]]
    assert PolicyTable([*rows, *more]).mean(1, "slots", "utilisation") == 10
    claims = offers_claims(PolicyTable(more), FIGURES)
    assert {claim.holds for claim in claims} == {"-"}
    assert {claim.claim for claim in claims if not claim.judged} == {"6a-local", "6b", "6d"}


def test_figures_have_a_line_a_policy_and_schema(tmp_path: Path) -> None:
    rows = [
        ({**run, "seed": seed}, {**values, "utilisation": values["utilisation"] + seed})
        for seed in (1, 2)
        for run, values in made_up()
    ]
    write_figures(tmp_path, PolicyTable(rows), FIGURES, drawing=True)
    lines = (tmp_path / "figure05.csv").read_text().splitlines()
    assert lines[0] == "schema,policy,seeds,utilisation,utilisation_low,utilisation_high"
    assert len(lines) == 9
    mean, low, high = map(float, lines[1].split(",")[3:])
    assert (mean, (low + high) / 2) == pytest.approx((11.5, 11.5))
    assert high - low == pytest.approx(2 * 12.706 / 2)
    assert len(list(tmp_path.glob("figure*.svg"))) == 5
