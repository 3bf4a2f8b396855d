"""Parallel jobs over clusters begin earlier after early ends, on all their clusters or on none, whatever fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.replay import differing
from oarpy.grid.calls.parts import PartRequest
from oarpy.grid.calls.table import Slots
from oarpy.grid.clusters.virtual.cluster import OrderedFault
from oarpy.model.states import GridJobState, GridPartState
from oarpy.store.grid import broker_jobs, decisions, metajobs, transactions
from tests.harness.claim_rounds import BrokerKilled, ClaimRounds

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
LEAD, OVER = 15, 1000
"""Seconds to the earliest start, and until the local jobs are over by their walltime."""


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    """Clusters full of local jobs; who needs both begins when these are over."""
    made = ClaimRounds(connection)
    for name in ("north", "south"):
        made.clusters[name].submit(f"half of {name}", 4, OVER)
        made.clusters[name].submit(f"rest of {name}", 4, OVER)
    return made


def place(rounds: ClaimRounds, job: int) -> tuple[float, float, dict[str, int]]:
    """Return start, end and parts of a job, in seconds from the beginning."""
    row, asked = rounds.job(job), metajobs.of_jobs(rounds.connection, [job])[job]
    assert row.deadline is not None
    assert asked.end is not None
    gone = (GridPartState.GONE, GridPartState.ABORTING, GridPartState.DELETING, GridPartState.ENDED)
    parts = [part for part in rounds.parts(job) if part.state not in gone]
    components = broker_jobs.components(rounds.connection, [job])[job]
    procs = {part.cluster: one.procs for part, one in zip(parts, components, strict=True)}
    return row.deadline - rounds.began, asked.end - rounds.began, procs


def end_early(rounds: ClaimRounds, *names: str, at: float = 100) -> None:
    """End local jobs early, and let the broker hear of it."""
    rounds.until(at)
    for name in names:
        rounds.clusters[name.split()[-1]].finish(name)
    rounds.until(at + 5)


def outcomes(rounds: ClaimRounds, job: int) -> list[tuple[str, str]]:
    """Return what was tried with a job, and what came of it."""
    return [(shift.operation, shift.outcome) for shift in metajobs.shifts_of(rounds.connection, [job])]


def test_a_shift_starts_all_parts_earlier(rounds: ClaimRounds) -> None:
    job = rounds.spread(8, at_most={"north": 4, "south": 4})
    rounds.until(5)
    assert place(rounds, job) == (OVER, OVER + 100, {"north": 4, "south": 4})
    end_early(rounds, "half of north")
    assert place(rounds, job)[0] == OVER, "one cluster alone is not enough"
    end_early(rounds, "half of south", at=200)
    start, end, parts = place(rounds, job)
    assert (end - start, parts) == (100, {"north": 4, "south": 4})
    assert 200 + LEAD <= start <= 205 + LEAD
    assert rounds.job(job).state is GridJobState.MAPPED
    assert outcomes(rounds, job) == [("shift", "moved")]
    asked = metajobs.of_jobs(rounds.connection, [job])[job]
    assert asked.promised_start == rounds.began + OVER
    rounds.until(start + 1)
    assert rounds.job(job).state is GridJobState.RUNNING
    rounds.until(start + 140)
    assert rounds.job(job).state is GridJobState.TERMINATED
    assert [len(states) for states in rounds.there().values()] == [1, 1]


def test_a_remap_brings_it_to_one_cluster_and_loses_the_overhead(rounds: ClaimRounds) -> None:
    job = rounds.spread(8, operation="remap", overhead=0.5, at_most={"north": 5})
    rounds.until(5)
    assert place(rounds, job) == (OVER, OVER + 100, {"south": 8})
    end_early(rounds, "half of south", "rest of south")
    start, end, parts = place(rounds, job)
    assert (end - start, parts) == (100, {"south": 8})
    assert 100 + LEAD <= start <= 105 + LEAD


def test_a_remap_leaves_a_cluster(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].submit("later on north", 4, 3000)
    rounds.clusters["south"].submit("later on south", 4, 300)
    job = rounds.spread(8, operation="remap", overhead=0.5)
    rounds.until(5)
    assert place(rounds, job) == (OVER, OVER + 150, {"north": 4, "south": 4})
    end_early(rounds, "half of south", "rest of south")
    assert place(rounds, job) == (400, 500, {"south": 8})
    assert outcomes(rounds, job) == [("remap", "moved")]
    assert rounds.there()["north"].keys() == {"half of north", "rest of north", "later on north"}
    rounds.until(401)
    assert rounds.job(job).state is GridJobState.RUNNING


def test_a_remap_joins_a_cluster(rounds: ClaimRounds) -> None:
    job = rounds.spread(8, operation="remap", overhead=0.5, at_most={"north": 5})
    rounds.until(5)
    end_early(rounds, "half of north", "half of south")
    start, end, parts = place(rounds, job)
    assert (end - start, parts) == (150, {"north": 4, "south": 4})
    rounds.until(start + 1)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert [event.at - rounds.began for event in rounds.events("started")] == [start, start]


def test_a_rigid_job_and_one_that_gains_too_little_stay(rounds: ClaimRounds) -> None:
    rigid = rounds.spread(16, operation="rigid")
    rounds.until(5)
    end_early(rounds, *(f"{half} of {name}" for half in ("half", "rest") for name in ("north", "south")), at=100)
    assert place(rounds, rigid)[0] == OVER
    assert outcomes(rounds, rigid) == []


def test_a_job_that_would_gain_less_than_it_must_stays(rounds: ClaimRounds) -> None:
    job = rounds.spread(16)
    rounds.until(5)
    end_early(rounds, *(f"{half} of {name}" for half in ("half", "rest") for name in ("north", "south")), at=940)
    assert place(rounds, job)[0] == OVER
    assert outcomes(rounds, job) == []


def test_a_job_whose_start_is_too_near_for_a_move_stays(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].submit("later on north", 4, 3000)
    rounds.clusters["south"].submit("later on south", 4, 3000)
    job = rounds.spread(8, walltime=1000, operation="remap", overhead=0.5)
    rounds.until(5)
    assert place(rounds, job) == (OVER, OVER + 1500, {"north": 4, "south": 4})
    end_early(rounds, "half of south", "rest of south", "later on south", at=OVER - LEAD - 8)
    rounds.until(OVER + 5)
    assert outcomes(rounds, job) == []
    assert rounds.job(job).state is GridJobState.RUNNING


def test_local_jobs_come_first(rounds: ClaimRounds) -> None:
    job = rounds.spread(16)
    rounds.until(5)
    for name in ("north", "south"):
        rounds.clusters[name].submit(f"waiting on {name}", 8, 800)
    end_early(rounds, *(f"{half} of {name}" for half in ("half", "rest") for name in ("north", "south")), at=100)
    assert place(rounds, job)[0] == OVER
    assert [states[f"waiting on {name}"] for name, states in rounds.there().items()] == ["running", "running"]


def test_jobs_move_one_after_the_other_by_their_starts(rounds: ClaimRounds) -> None:
    first, second = rounds.spread(16), rounds.spread(16)
    rounds.until(8)
    assert [place(rounds, job)[0] for job in (first, second)] == [OVER, OVER + 100]
    end_early(rounds, *(f"{half} of {name}" for half in ("half", "rest") for name in ("north", "south")), at=100)
    rounds.until(140)
    starts = [place(rounds, job)[0] for job in (first, second)]
    assert starts[0] <= 105 + LEAD
    assert starts[1] == starts[0] + 100


def at_next_look(rounds: ClaimRounds, happens: Callable[[], object]) -> None:
    """Have something happen when the southern cluster has said what is free there, and before that is heard."""
    south = rounds.clusters["south"]
    ask = south.ask

    def asked(call: Any) -> Any:
        answer = ask(call)
        if isinstance(call, Slots):
            rounds.clusters["south"].ask = ask  # type: ignore[method-assign]
            happens()
        return answer

    south.ask = asked  # type: ignore[method-assign]


def test_an_early_end_while_a_job_is_looked_at_has_it_looked_at_again(rounds: ClaimRounds) -> None:
    job = rounds.spread(8, at_most={"north": 4, "south": 4})
    rounds.until(100)

    def happens() -> None:
        rounds.clusters["south"].finish("half of south")
        rounds.clock.now += 2
        rounds.hear()

    at_next_look(rounds, happens)
    end_early(rounds, "half of north")
    rounds.until(130)
    assert outcomes(rounds, job) == [("shift", "moved")]


def test_a_job_that_is_over_while_it_is_looked_at_hinders_no_other_one(rounds: ClaimRounds) -> None:
    first, second = rounds.spread(16), rounds.spread(16)
    rounds.until(20)
    at_next_look(rounds, lambda: broker_jobs.move(rounds.connection, [first], GridJobState.ERROR, "it is over"))
    end_early(rounds, *(f"{half} of {name}" for half in ("half", "rest") for name in ("north", "south")))
    rounds.until(130)
    assert outcomes(rounds, first) == []
    assert outcomes(rounds, second) == [("shift", "moved")]


@pytest.mark.parametrize("call", ["slots", "amend", "commit", "abort"])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("fault", ["silent", "killed"])
def test_whatever_fails_all_parts_have_one_place(rounds: ClaimRounds, call: str, done: bool, fault: str) -> None:
    job = rounds.spread(8, at_most={"north": 4, "south": 4})
    rounds.until(30)
    seen: list[int] = []
    south = rounds.clusters["south"]
    if call == "abort":
        south.faults.refuse("amend", "not now")
    if fault == "silent":
        south.faults.silent(call, done=done)
    else:
        south.faults.strike(OrderedFault(call, BrokerKilled(), done))
    end_early(rounds, "half of north", "half of south")
    for seconds in range(106, 180):
        rounds.until(seconds)
        asked = PartRequest("bob", "/core=1", 1, 10)
        for cluster in rounds.clusters.values():
            told = cluster.ask(Slots(asked, rounds.clock(), rounds.clock() + 5000))
            seen.append(min(slot.procs for slot in told))
    assert min(seen) >= 0
    states = [part.state for part in rounds.parts(job) if part.state not in (GridPartState.GONE, GridPartState.ENDED)]
    assert len(states) == 2
    rounds.until(OVER + 20)
    assert rounds.job(job).state in (GridJobState.RUNNING, GridJobState.TERMINATED)
    assert len(rounds.events("started")) == 2
    starts = {event.at for event in rounds.events("started")}
    assert len(starts) == 1
    assert transactions.open_of(rounds.connection, "claimer") == []
    assert all(outcome != "open" for _, outcome in outcomes(rounds, job))


def until_decided(rounds: ClaimRounds, job: int) -> None:
    """Go on until a move is decided, of which no cluster knows yet."""
    while not outcomes(rounds, job) or outcomes(rounds, job)[-1][1] == "open":
        rounds.round()
        rounds.clock.now += 0.25


def stay_away(rounds: ClaimRounds, job: int, seconds: float) -> None:
    """Have the broker killed when it has decided a move and told no cluster; it is back after so many seconds."""
    for cluster in rounds.clusters.values():
        cluster.faults.strike(OrderedFault("commit", BrokerKilled()))
    with pytest.raises(BrokerKilled):
        until_decided(rounds, job)
    for cluster in rounds.clusters.values():
        cluster.faults.forget()
    rounds.kill()
    rounds.clock.now += seconds


@pytest.mark.parametrize("away", [70, 300])
def test_a_shift_that_no_cluster_knows_any_more_is_taken_back(rounds: ClaimRounds, away: float) -> None:
    job = rounds.spread(8, at_most={"north": 4, "south": 4})
    rounds.until(100)
    for name in ("north", "south"):
        rounds.clusters[name].finish(f"half of {name}")
    stay_away(rounds, job, away)
    rounds.round()
    assert outcomes(rounds, job)[0] == ("shift", "given up")
    rounds.until(OVER + 5)
    assert metajobs.of_jobs(rounds.connection, [job])[job].placings == 1
    assert rounds.job(job).state in (GridJobState.RUNNING, GridJobState.TERMINATED)
    assert len(rounds.events("started")) == 2


def test_a_remap_that_no_cluster_knows_any_more_is_taken_back(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].submit("later on north", 4, 3000)
    rounds.clusters["south"].submit("later on south", 4, 300)
    job = rounds.spread(8, operation="remap", overhead=0.5)
    rounds.until(100)
    for name in ("half of south", "rest of south"):
        rounds.clusters["south"].finish(name)
    stay_away(rounds, job, 70)
    other = rounds.spread(1, operation="rigid", at_most={"south": 0})
    rounds.until(200)
    assert rounds.job(other).state is not GridJobState.SUBMITTED
    assert outcomes(rounds, job) == [("remap", "given up"), ("remap", "moved")], "it is looked at again"
    again = metajobs.shifts_of(rounds.connection, [job])[1]
    assert (again.old_start, again.old_end) == (rounds.began + OVER, rounds.began + OVER + 150)
    assert again.old_parts == {"north": 4, "south": 4}
    assert place(rounds, job) == (400, 500, {"south": 8})
    rounds.until(405)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert [event.at - rounds.began for event in rounds.events("started") if event.part.startswith("g1.")] == [400]


def test_a_remap_ends_the_part_of_a_cluster_that_hears_too_late_that_it_is_left(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].submit("later on north", 4, 3000)
    rounds.clusters["south"].submit("later on south", 4, 300)
    job = rounds.spread(8, operation="remap", overhead=0.5)
    rounds.until(100)
    for name in ("half of south", "rest of south"):
        rounds.clusters["south"].finish(name)
    for _ in range(2):  # the round that decides tells it, too
        rounds.clusters["north"].faults.silent("commit")
    until_decided(rounds, job)
    rounds.clusters["north"].faults.cut = True
    rounds.until(200)
    rounds.clusters["north"].faults.forget()
    rounds.until(250)
    assert place(rounds, job) == (400, 500, {"south": 8})
    assert rounds.there()["north"].keys() == {"half of north", "rest of north", "later on north"}
    rounds.until(405)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert [event.at - rounds.began for event in rounds.events("started")] == [400]


def test_its_moves_are_decided_again_alike(rounds: ClaimRounds) -> None:
    rounds.spread(8, at_most={"north": 4, "south": 4})
    rounds.until(5)
    end_early(rounds, "half of north", "half of south")
    found = list(differing(decisions.every(rounds.connection)))
    assert len(found) > 1
    assert set(found) == {None}


@pytest.mark.parametrize("disabled", [["north"], ["south"], ["north", "south"]])
def test_a_job_stays_whose_cluster_is_disabled_while_it_tells_its_free_slots(
    rounds: ClaimRounds, disabled: list[str]
) -> None:
    job = rounds.spread(8, at_most={"north": 4, "south": 4})
    rounds.until(5)
    rounds.clusters["south"].finish("half of south")
    rounds.until(50)
    rounds.disable_when_asked(Slots, *disabled)
    end_early(rounds, "half of north")
    assert (place(rounds, job)[0], rounds.job(job).state) == (OVER, GridJobState.MAPPED)
    assert rounds.job(job).message == ""
