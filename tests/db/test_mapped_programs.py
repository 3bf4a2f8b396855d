"""Programs over clusters whose processes are mapped: measured, placed by their rates, begun with their map, moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.replay import differing
from oarpy.grid.calls.parts import ClusterAbilities, RatedType
from oarpy.grid.calls.table import Amend, Begin, Call, Measure, Prepare, StopMeasuring
from oarpy.grid.clusters.virtual.cluster import OrderedFault, SimulatedCluster
from oarpy.model.states import GridJobState
from oarpy.store.grid import broker_jobs, clusters, decisions, metajobs, programs
from tests.harness.claim_rounds import BrokerKilled, ClaimRounds

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
LEAD = 15
FAST = RatedType("fast", "kind IN ('fast')", {"a": 4, "b": 2})
SLOW = RatedType("slow", "", {"a": 1, "b": 0.5})
UNRATED = replace(FAST, rates={}, reason="job 5 measures its rate", measuring=True)


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    """North is fast, south is slow."""
    found = ClaimRounds(connection)
    found.clusters["north"].rated, found.clusters["south"].rated = (FAST,), (SLOW,)
    return found


@pytest.fixture
def asked(rounds: ClaimRounds, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Call[Any]]]:
    """All calls to clusters, with their names."""
    calls: list[tuple[str, Call[Any]]] = []

    def noted(cluster: SimulatedCluster) -> None:
        answered = cluster.ask

        def ask(call: Call[Any]) -> Any:
            calls.append((cluster.name, call))
            return answered(call)

        monkeypatch.setattr(cluster, "ask", ask)

    for cluster in rounds.clusters.values():
        noted(cluster)
    return calls


def of_kind(asked: list[tuple[str, Call[Any]]], kind: type[Call[Any]]) -> list[tuple[str, Any]]:
    """Return calls of a kind."""
    return [(name, call) for name, call in asked if isinstance(call, kind)]


def place(rounds: ClaimRounds, job: int) -> tuple[float, float]:
    """Return start and end of a job, in seconds from the beginning."""
    row, end = rounds.job(job), metajobs.of_job(rounds.connection, job).end
    assert row.deadline is not None
    assert end is not None
    return row.deadline - rounds.began, end - rounds.began


def its_map(rounds: ClaimRounds, job: int) -> Any:
    """Return the map of a job."""
    return programs.of_jobs(rounds.connection, [job])[job].map


def replays(rounds: ClaimRounds) -> bool:
    """Tell whether all decisions are taken again alike."""
    rows = list(decisions.every(rounds.connection))
    return bool(rows) and not any(differing(rows))


def test_it_gets_a_walltime_for_the_cores_that_it_has(rounds: ClaimRounds, asked: list[tuple[str, Call[Any]]]) -> None:
    job = rounds.mapped(4)
    rounds.until(1)
    # two stages of 50 s and a margin of 10 %
    assert place(rounds, job) == (LEAD, LEAD + 110)
    assert its_map(rounds, job) == {
        "seconds": 100,
        "cores": {"north": {"fast": 4}},
        "assigned": {"north": {"fast": [["b", 4, 50, 2], ["a", 4, 25, 2]]}},
    }
    assert [name for name, _ in of_kind(asked, Measure)] == ["north", "south"]
    ((_, prepare),) = of_kind(asked, Prepare)
    assert prepare.part.request.resources == "{kind IN ('fast')}/core=4"
    assert (prepare.part.map.seconds, prepare.part.map.cores) == (100, {"fast": 4})
    told = metajobs.of_job(rounds.connection, job).told
    assert told["north"] == "fast: a 4, b 2 iterations a second, 8 cores free now, 8 at most"
    rounds.until(LEAD + 1)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert replays(rounds)


def test_its_program_begins_with_the_processes_of_all_clusters(
    rounds: ClaimRounds, asked: list[tuple[str, Call[Any]]]
) -> None:
    job = rounds.mapped(10, processes=12)
    rounds.until(LEAD + 2)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert its_map(rounds, job)["cores"] == {"north": {"fast": 8}, "south": {"slow": 2}}
    calls = of_kind(asked, Begin)
    assert [(name, call.map if isinstance(call.map, tuple) else None) for name, call in calls] == [
        ("south", None),
        ("north", ("south-0 0 a 1", "south-1 0 a 1")) if calls[1][0] == "north" else None,
    ]
    prepared = {name: call.part for name, call in of_kind(asked, Prepare)}
    assert prepared["south"].request.resources == "/core=2"
    assert prepared["south"].request.walltime == prepared["north"].request.walltime
    assert replays(rounds)


def test_it_waits_until_its_rates_are_measured(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].rated = (UNRATED,)
    job = rounds.mapped(4)
    rounds.until(1)
    assert rounds.job(job).state is GridJobState.SUBMITTED
    assert rounds.job(job).message.startswith(
        "its rates are measured first: north fast: job 5 measures its rate; south"
    )
    rounds.clusters["north"].rated = (FAST,)
    rounds.until(5)
    assert rounds.job(job).state is GridJobState.MAPPED
    assert its_map(rounds, job)["cores"] == {"north": {"fast": 4}}


def test_it_does_not_wait_for_ever_for_rates_if_other_types_have_some(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].rated = (UNRATED,)
    job = rounds.mapped(4)
    rounds.until(290)
    assert rounds.job(job).state is GridJobState.SUBMITTED
    rounds.until(303)
    assert rounds.job(job).state is GridJobState.MAPPED
    assert its_map(rounds, job)["cores"] == {"south": {"slow": 4}}


def test_a_cluster_that_is_to_give_nothing_is_not_asked(
    rounds: ClaimRounds, asked: list[tuple[str, Call[Any]]]
) -> None:
    rounds.clusters["north"].rated = (UNRATED,)
    job = rounds.mapped(4, at_most={"north": 0})
    rounds.until(1)
    assert rounds.job(job).state is GridJobState.MAPPED
    assert [name for name, _ in of_kind(asked, Measure)] == ["south"]
    assert metajobs.of_job(rounds.connection, job).told["north"] == "it is to give nothing (--at-most)"


def test_a_type_without_rates_and_a_cluster_that_measures_none_are_left_out(
    rounds: ClaimRounds, connection: Connection
) -> None:
    none = replace(FAST, rates={}, reason="no rate, as job 5 tells: no such file")
    rounds.clusters["north"].rated = (none, replace(SLOW, name="old"))
    procs, speed, _ = rounds.clusters["south"]._facts
    rounds.clusters["south"]._facts = (procs, speed, ClusterAbilities(amend=True, foresee=True))
    job = rounds.mapped(4)
    rounds.until(1)
    assert its_map(rounds, job)["cores"] == {"north": {"old": 4}}
    told = metajobs.of_job(connection, job).told
    assert told["south"] == "it measures no rates of programs"
    assert told["north"].startswith("fast: no rate, as job 5 tells: no such file; old: a 1, b 0.5")


def test_without_rates_it_runs_with_its_own_walltime_or_ends(rounds: ClaimRounds) -> None:
    none = replace(FAST, rates={}, reason="no rate, as job 5 tells: it ended")
    rounds.clusters["north"].rated = rounds.clusters["south"].rated = (none,)
    refused, own = rounds.mapped(4), rounds.mapped(4, own_walltime=True)
    rounds.until(3)
    row = rounds.job(refused)
    assert row.state is GridJobState.ERROR
    assert row.message.startswith("no type of nodes has rates of all its sizes, and it was given no walltime: north")
    assert place(rounds, own) == (LEAD, LEAD + 7200)
    assert its_map(rounds, own) is None
    rounds.until(LEAD + 1)
    assert rounds.job(own).state is GridJobState.RUNNING


def test_a_shift_keeps_the_map(rounds: ClaimRounds, asked: list[tuple[str, Call[Any]]]) -> None:
    for name in ("north", "south"):
        rounds.clusters[name].submit("local", 8, 1000)
    job = rounds.mapped(10, processes=12)
    rounds.until(2)
    before, map_before = place(rounds, job), its_map(rounds, job)
    assert before[0] == 1000
    for name in ("north", "south"):
        rounds.clusters[name].finish("local")
    rounds.until(60)
    start, end = place(rounds, job)
    assert start < 100
    assert end - start == before[1] - before[0]
    assert its_map(rounds, job) == map_before
    assert {call.part.map.seconds for _, call in of_kind(asked, Amend)} == {map_before["seconds"]}
    assert len(of_kind(asked, Measure)) == 2
    assert replays(rounds)


def test_a_remap_makes_the_map_anew_where_it_ends_earlier(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].submit("local", 6, 1000)
    rounds.clusters["south"].submit("local", 8, 500)
    job = rounds.mapped(6, operation="remap", at_most={"south": 4})
    rounds.until(2)
    assert its_map(rounds, job)["cores"] == {"north": {"fast": 2}, "south": {"slow": 4}}
    old = place(rounds, job)
    rounds.clusters["north"].finish("local")
    rounds.until(12)
    assert its_map(rounds, job)["cores"] == {"north": {"fast": 6}}
    assert place(rounds, job)[1] < old[1]
    shift = metajobs.shifts_of(rounds.connection, [job])[-1]
    assert (shift.outcome, shift.new_parts) == ("moved", {"north": 6})
    rounds.until(70)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert replays(rounds)


@pytest.mark.parametrize("call", ["measure", "rates", "slots", "prepare", "commit", "begin"])
@pytest.mark.parametrize("done", [False, True])
def test_a_broker_killed_at_any_call_goes_on(rounds: ClaimRounds, call: str, done: bool) -> None:
    rounds.clusters["south"].faults.strike(OrderedFault(call, BrokerKilled(), done))
    job = rounds.mapped(12, processes=12)
    rounds.until(LEAD + 12)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert len(rounds.events("started")) == 2


@pytest.mark.parametrize("call", ["measure", "rates", "slots"])
def test_who_does_not_answer_is_left_out(rounds: ClaimRounds, call: str) -> None:
    rounds.clusters["south"].faults.silent(call)
    job = rounds.mapped(4)
    rounds.until(1)
    assert rounds.job(job).state is GridJobState.MAPPED
    assert its_map(rounds, job)["cores"] == {"north": {"fast": 4}}


def stopped(asked: list[tuple[str, Call[Any]]]) -> list[tuple[str, str]]:
    """Return the clusters that were told that a job needs no rates, with the key by which they were to measure."""
    return [(name, call.measure) for name, call in of_kind(asked, StopMeasuring)]


def delete(rounds: ClaimRounds, job: int) -> None:
    """Ask for the deletion of a job."""
    broker_jobs.ask_deletion(rounds.connection, [job], "ann")


def test_clusters_hear_once_that_rates_are_needed_no_more(
    rounds: ClaimRounds, asked: list[tuple[str, Call[Any]]]
) -> None:
    rounds.clusters["north"].rated = (UNRATED,)
    job = rounds.mapped(4)
    rounds.until(1)
    assert stopped(asked) == []
    delete(rounds, job)
    rounds.until(60)
    assert rounds.job(job).state is GridJobState.ERROR
    keys = {name: call.key for name, call in of_kind(asked, Measure)}
    assert sorted(stopped(asked)) == sorted(keys.items())


def test_clusters_that_were_asked_to_measure_nothing_hear_nothing(
    rounds: ClaimRounds, asked: list[tuple[str, Call[Any]]]
) -> None:
    job = rounds.mapped(4, at_most={"south": 0})
    rounds.until(LEAD + 2)
    assert stopped(asked) == []
    rounds.until(LEAD + 200)
    assert rounds.job(job).state is GridJobState.TERMINATED
    assert [name for name, _ in stopped(asked)] == ["north"]


@pytest.mark.parametrize("done", [False, True])
def test_a_broker_killed_while_it_tells_that_tells_it_again(
    rounds: ClaimRounds, asked: list[tuple[str, Call[Any]]], done: bool
) -> None:
    rounds.clusters["north"].rated = (UNRATED,)
    rounds.clusters["south"].faults.strike(OrderedFault("stop_measuring", BrokerKilled(), done))
    job = rounds.mapped(4)
    rounds.until(1)
    delete(rounds, job)
    rounds.until(60)
    assert stopped(asked)[-1][0] == "south"
    assert [name for name, _ in stopped(asked)].count("south") == 2


def test_a_silent_cluster_hears_it_when_it_answers(rounds: ClaimRounds, asked: list[tuple[str, Call[Any]]]) -> None:
    rounds.clusters["north"].rated = (UNRATED,)
    job = rounds.mapped(4)
    rounds.until(1)
    rounds.clusters["south"].faults.silent("stop_measuring")
    delete(rounds, job)
    rounds.until(100)
    assert [name for name, _ in stopped(asked)].count("south") == 2
    assert [name for name, _ in stopped(asked)].count("north") == 1


def test_a_cluster_that_refuses_to_hear_it_hears_it_again(
    rounds: ClaimRounds, asked: list[tuple[str, Call[Any]]]
) -> None:
    rounds.clusters["north"].rated = (UNRATED,)
    job = rounds.mapped(4)
    rounds.until(1)
    rounds.clusters["south"].faults.refuse("stop_measuring", "the database is away")
    delete(rounds, job)
    rounds.until(100)
    assert sorted(name for name, _ in stopped(asked)) == ["north", "south", "south"]


def test_a_cluster_that_is_known_to_be_silent_is_left_in_peace(
    rounds: ClaimRounds, asked: list[tuple[str, Call[Any]]]
) -> None:
    rounds.clusters["north"].rated = (UNRATED,)
    job = rounds.mapped(4)
    rounds.until(1)
    rounds.clusters["south"].faults.cut = True
    rounds.until(50)
    assert {row.name for row in clusters.every(rounds.connection) if row.silent_since is not None} == {"south"}
    delete(rounds, job)
    rounds.until(150)
    assert [name for name, _ in stopped(asked)] == ["north"]
    rounds.clusters["south"].faults.forget()
    rounds.until(250)
    assert sorted(name for name, _ in stopped(asked)) == ["north", "south"]
