"""Bags over clusters: composed of offers, promised by all, coordinated, whatever gets lost on the way."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.replay import differing
from oarpy.grid.calls.parts import ProfiledType
from oarpy.grid.calls.table import Offers
from oarpy.grid.clusters.virtual.cluster import OrderedFault, SimulatedCluster
from oarpy.grid.reports import grid_job_views, job_explanation
from oarpy.model.states import GridJobState, GridPartState
from oarpy.store.grid import bags, broker_jobs, decisions
from oarpy.store.grid.bags import GridBagRow
from tests.harness.claim_rounds import BrokerKilled, ClaimRounds
from tests.harness.inline_calls import answer_instead

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
HOLDS = 60
"""Seconds for which offers hold."""


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    return ClaimRounds(connection, disclose="load")


def row(rounds: ClaimRounds, job: int) -> GridBagRow:
    return bags.of_job(rounds.connection, job)


def promise(rounds: ClaimRounds, job: int) -> float:
    """Return by when a bag is done, in seconds from the beginning."""
    found = row(rounds, job).promise
    assert found is not None
    return found - rounds.began


def shares(rounds: ClaimRounds, job: int) -> dict[str, int]:
    """Return how many tasks of a bag each cluster has or had."""
    parts = {part.part: part.live + part.settled for part in bags.parts_of(rounds.connection, [job])}
    found = Counter[str]()
    for part in rounds.parts(job):
        found[part.cluster] += parts[part.name]
    return {name: count for name, count in found.items() if count}


def agree(rounds: ClaimRounds, job: int) -> bool:
    """Tell whether all clusters know when a bag is done, as the broker knows it."""
    bag = row(rounds, job)
    told = [found for one in rounds.clusters.values() for found in one.completions().values()]
    return bool(told) and all(found == (bag.expected, bag.version) for found in told)


def over(rounds: ClaimRounds, job: int, seconds: float) -> tuple[GridJobState, str]:
    """Let time go on for so long; return how a bag stands."""
    rounds.until(seconds)
    job_row = rounds.job(job)
    return job_row.state, job_row.message


def test_a_bag_is_shared_out_by_offers_and_done_by_its_promise(rounds: ClaimRounds) -> None:
    rounds.clusters["south"].submit("local", 8, 100)
    job = rounds.bag(24)
    rounds.until(2)
    assert rounds.job(job).state is GridJobState.RUNNING
    # north offers 6 by 160, 12 by 260, 24 by 360; south, from 100 on, the same 40 seconds later
    assert promise(rounds, job) == 300
    assert shares(rounds, job) == {"north": 12, "south": 12}
    assert over(rounds, job, 320) == (GridJobState.TERMINATED, "")
    ended = rounds.job(job).ended
    assert ended is not None
    assert ended - rounds.began <= 300
    assert [task.state for task in bags.tasks_of(rounds.connection, job)] == ["Over"] * 24
    assert all(one is None for one in differing(decisions.every(rounds.connection)))


def test_a_policy_falls_back_where_clusters_tell_too_little(connection: Connection) -> None:
    rounds = ClaimRounds(connection, disclose="power")
    job = rounds.bag(8, policy="dplbv2")
    rounds.until(2)
    assert (row(rounds, job).policy, row(rounds, job).used_policy) == ("dplbv2", "dplb")


def why(rounds: ClaimRounds, job: int) -> list[str]:
    """Return the lines of ``oargridstat --why`` about a bag, behind that of the job itself."""
    (view,) = grid_job_views.views(rounds.connection, [rounds.job(job)])
    return job_explanation.standing(rounds.connection, view).text().splitlines()[1:]


def test_why_says_by_what_tasks_were_shared_out_and_what_was_offered(connection: Connection) -> None:
    rounds = ClaimRounds(connection, disclose="power")
    jobs = [rounds.bag(8, policy="dplbv2"), rounds.bag(16, policy="plb", deadline=rounds.began + 170), rounds.bag(8)]
    rounds.until(4)
    shared = [line for job in jobs for line in why(rounds, job) if "shared out" in line]
    assert shared == [
        "  its tasks were shared out by dplb: clusters told too little for dplbv2",
        "  its tasks were shared out by nolb, since its deadline cannot be met",
        "  its tasks were shared out by plb",
    ]
    told = [line for line in why(rounds, jobs[0]) if line.startswith("  when it was placed, ")]
    assert [line.split(" : ")[0] for line in told] == [f"  when it was placed, {name}" for name in ("north", "south")]


def test_free_slots_are_filled_where_they_are_told(connection: Connection) -> None:
    rounds = ClaimRounds(connection, disclose="slots")
    rounds.clusters["north"].submit("local", 8, 1000)
    job = rounds.bag(16, policy="slots")
    rounds.until(2)
    assert shares(rounds, job) == {"south": 16}


def test_a_deadline_is_met_missed_or_refused(rounds: ClaimRounds) -> None:
    met, late = rounds.began + 500, rounds.began + 170
    jobs = [rounds.bag(16, deadline=met), rounds.bag(16, deadline=late), rounds.bag(16, deadline=late, strict=True)]
    rounds.until(4)
    assert promise(rounds, jobs[0]) == 500
    assert row(rounds, jobs[1]).meets is False
    assert rounds.job(jobs[2]).state is GridJobState.ERROR
    assert "after its deadline" in rounds.job(jobs[2]).message


def test_tasks_are_shared_out_by_what_clusters_measure_and_promised_by_walltimes(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].profiles = (ProfiledType("fast", 10.0),)
    rounds.clusters["south"].profiles = (ProfiledType("slow", reason="job 7 prints nothing"),)
    job = rounds.bag(32, profile="/home/alice/seconds.sh")
    rounds.until(2)
    assert shares(rounds, job) == {"north": 32}, "south would take a walltime for its first task"
    assert promise(rounds, job) == HOLDS + 4 * 100
    found = row(rounds, job)
    assert found.seconds == {"north": {"fast": 10.0}, "south": {}}
    assert found.missing == ["tasks count with their walltime on nodes of type slow of south: job 7 prints nothing"]
    assert "(expected by " in found.told["north"]
    assert "(expected by " not in found.told["south"]
    assert all(one is None for one in differing(decisions.every(rounds.connection)))
    met = rounds.bag(16, deadline=rounds.began + 2000, profile="/home/alice/seconds.sh")
    rounds.until(4)
    assert promise(rounds, met) == 2000


def test_a_profile_that_is_late_is_not_waited_for(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].profiles = (ProfiledType("1", reason="job 7 takes their profile", measuring=True),)
    rounds.clusters["south"].profiles = (ProfiledType("1", 10.0),)
    job = rounds.bag(8, profile="/home/alice/seconds.sh")
    rounds.until(1790)
    assert (rounds.job(job).state, rounds.job(job).message) == ("Submitted", "its profile is taken on north")
    rounds.until(1810)
    assert row(rounds, job).promise is not None
    assert row(rounds, job).missing == [
        "tasks count with their walltime on nodes of type 1 of north: job 7 takes their profile"
    ]


@pytest.mark.parametrize("call", ["take_profile", "profiled"])
def test_a_cluster_that_says_nothing_of_a_profile_counts_with_walltimes(rounds: ClaimRounds, call: str) -> None:
    for one in rounds.clusters.values():
        one.profiles = (ProfiledType("1", 10.0),)
    rounds.clusters["south"].faults.refuse(call, "never")
    job = rounds.bag(8, profile="/home/alice/seconds.sh")
    rounds.until(2)
    assert row(rounds, job).missing == ["tasks count with their walltime on south: cluster 'south' refuses: never"]
    assert row(rounds, job).promise is not None


def test_what_is_worse_than_offered_is_composed_anew_and_late_at_last(rounds: ClaimRounds) -> None:
    job = rounds.bag(16)
    for _ in range(2):
        fault = rounds.clusters["south"].faults
        fault.refuse("prepare", "not now")
        fault._ordered[-1].error.code = "offer_changed"  # type: ignore[union-attr]
    rounds.until(8)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert row(rounds, job).rounds == 2
    assert shares(rounds, job) == {"north": 8, "south": 8}


def test_a_cluster_that_says_no_is_left_out(rounds: ClaimRounds) -> None:
    rounds.clusters["south"].faults.refuse("prepare", "never")
    job = rounds.bag(16)
    rounds.until(8)
    assert shares(rounds, job) == {"north": 16}
    assert "never" in row(rounds, job).told["south"]
    nobody = rounds.bag(4)
    for one in rounds.clusters.values():
        one.faults.refuse("prepare", "never")
    assert over(rounds, nobody, 16)[0] is GridJobState.ERROR


@pytest.mark.parametrize("call", ["offers", "prepare", "commit", "tell_completions"])
@pytest.mark.parametrize("done", [False, True])
def test_a_broker_killed_at_any_call_goes_on(rounds: ClaimRounds, call: str, done: bool) -> None:
    rounds.clusters["south"].faults.strike(OrderedFault(call, BrokerKilled(), done))
    job = rounds.bag(32)
    assert over(rounds, job, 600) == (GridJobState.TERMINATED, "")
    tasks = bags.tasks_of(rounds.connection, job)
    assert [task.state for task in tasks] == ["Over"] * 32
    assert sum(one.kind == "task" for one in rounds.events("task")) == 32


def test_tasks_are_placed_anew_when_a_cluster_lets_them_lapse_while_no_claimer_is_there(rounds: ClaimRounds) -> None:
    rounds.clusters["south"].faults.strike(OrderedFault("prepare", BrokerKilled(), done=True))
    rounds.hear()  # of clusters that can be asked
    job = rounds.bag(32)
    with pytest.raises(BrokerKilled):
        rounds.round()
    rounds.kill()
    rounds.clock.advance(100)
    rounds.hear()
    assert over(rounds, job, 700) == (GridJobState.TERMINATED, "")
    assert sum(one.kind == "task" for one in rounds.events("task")) == 32


@pytest.mark.parametrize("call", ["offers", "prepare", "commit", "tell_completions", "events"])
@pytest.mark.parametrize("done", [False, True])
def test_messages_may_be_lost_and_come_again(rounds: ClaimRounds, call: str, done: bool) -> None:
    for one in rounds.clusters.values():
        one.faults.silent(call, done=done)
    job = rounds.bag(32)
    rounds.until(60)
    rounds.clusters["north"].finish(next(name for name, state in rounds.there()["north"].items() if state == "running"))
    rounds.until(90)
    assert agree(rounds, job)
    assert over(rounds, job, 600) == (GridJobState.TERMINATED, "")
    assert sum(one.kind == "task" for one in rounds.events("task")) == 32


def test_clusters_hear_of_the_greatest_completion_and_nothing_without_coordination(rounds: ClaimRounds) -> None:
    job = rounds.bag(20)
    rounds.until(12)
    assert agree(rounds, job)
    first = row(rounds, job)
    for name in [name for name, state in rounds.there()["north"].items() if state == "running"]:
        rounds.clusters["north"].finish(name)
    for name in [name for name, state in rounds.there()["south"].items() if state == "running"]:
        rounds.clusters["south"].finish(name)
    rounds.until(24)
    later = row(rounds, job)
    assert agree(rounds, job)
    assert later.version > first.version
    assert later.expected is not None
    assert first.expected is not None
    assert later.expected < first.expected
    assert later.promise == first.promise


@pytest.mark.parametrize("types", [("idempotent",), ()])
def test_the_tasks_of_a_lost_cluster_run_elsewhere_or_are_lost(rounds: ClaimRounds, types: tuple[str, ...]) -> None:
    job = rounds.bag(32, 100, *types)
    rounds.until(3)
    assert shares(rounds, job) == {"north": 16, "south": 16}
    rounds.until(120)
    rounds.clusters["south"].faults.cut = True
    rounds.until(1000)
    state, message = rounds.job(job).state, rounds.job(job).message
    tasks = Counter(task.state for task in bags.tasks_of(rounds.connection, job))
    if types:
        assert (state, tasks) == (GridJobState.TERMINATED, {"Over": 32})
    else:
        assert state is GridJobState.ERROR
        assert message.startswith("8 tasks (")
        assert message.endswith(" lost with a cluster")
        assert tasks == {"Over": 24, "Lost": 8}
    rounds.clusters["south"].faults.forget()
    rounds.until(1100)
    assert rounds.there()["south"] == {}
    if not types:
        late = "all of its tasks had ended: that was heard late, when some had been told lost"
        assert (rounds.job(job).state, rounds.job(job).message) == (GridJobState.ERROR, late)
        assert [task.state for task in bags.tasks_of(rounds.connection, job)] == ["Over"] * 32


@pytest.mark.parametrize("types", [("idempotent",), ()])
def test_tasks_of_an_award_that_lapsed_undecided_run_elsewhere(rounds: ClaimRounds, types: tuple[str, ...]) -> None:
    south = rounds.clusters["south"]
    south.faults.strike(OrderedFault("commit", BrokerKilled()))
    job = rounds.bag(32, 100, *types)
    with pytest.raises(BrokerKilled):
        rounds.round()
    rounds.kill()
    south.faults.cut = True
    rounds.until(90)
    south.faults.forget()
    assert over(rounds, job, 1000) == (GridJobState.TERMINATED, "")
    assert [task.state for task in bags.tasks_of(rounds.connection, job)] == ["Over"] * 32


def test_offers_that_are_over_when_the_last_cluster_answers_are_asked_for_anew(rounds: ClaimRounds) -> None:
    waits = [HOLDS + 1.0]

    def late(call: Any, real: Any) -> Any:
        rounds.clock.advance(waits.pop() if waits else 0)
        return real(call)

    answer_instead(rounds.clusters["south"], Offers, late)
    job = rounds.bag(16)
    rounds.until(HOLDS + 3)
    assert row(rounds, job).promise is not None
    assert row(rounds, job).rounds == 0


def test_tasks_that_a_cluster_ends_when_it_is_back_stay_lost(rounds: ClaimRounds) -> None:
    job = rounds.bag(64)
    rounds.until(50)
    rounds.clusters["south"].faults.cut = True
    rounds.until(360)
    lost = Counter(task.state for task in bags.tasks_of(rounds.connection, job))["Lost"]
    rounds.clusters["south"].faults.forget()
    state, message = over(rounds, job, 600)
    tasks = Counter(task.state for task in bags.tasks_of(rounds.connection, job))
    assert (state, set(tasks)) == (GridJobState.ERROR, {"Over", "Lost"}), message
    assert 0 < tasks["Lost"] < lost  # some were heard to have ended before
    assert message.endswith(" lost with a cluster")


def test_what_a_lost_cluster_told_of_its_end_counts_no_more(rounds: ClaimRounds) -> None:
    job = rounds.bag(32, 100, "idempotent")
    rounds.until(120)
    rounds.clusters["south"].faults.cut = True
    (slow,) = [part.name for part in rounds.parts(job) if part.cluster == "south"]
    late = "UPDATE grid_bag_parts SET completion = to_timestamp(%s) WHERE part = %s"
    rounds.connection.execute(late, [rounds.began + 86400, slow])
    rounds.until(130)
    assert row(rounds, job).expected == rounds.began + 86400
    rounds.until(1000)
    ended, expected = rounds.job(job).ended, row(rounds, job).expected
    assert ended is not None
    assert expected is not None
    assert abs(expected - ended) < 60


@pytest.mark.parametrize("types", [("idempotent",), ()])
def test_a_cluster_lost_before_it_confirms_an_award_keeps_back_no_promise(
    rounds: ClaimRounds, types: tuple[str, ...]
) -> None:
    south = rounds.clusters["south"]
    south.faults.strike(OrderedFault("commit", BrokerKilled()))
    job = rounds.bag(32, 100, *types)
    with pytest.raises(BrokerKilled):
        rounds.round()
    rounds.kill()
    south.faults.cut = True
    rounds.until(60)
    assert shares(rounds, job) == {"north": 16, "south": 16}
    assert row(rounds, job).promise is None
    rounds.until(1000)
    assert row(rounds, job).promise is not None
    tasks = Counter(task.state for task in bags.tasks_of(rounds.connection, job))
    assert tasks == ({"Over": 32} if types else {"Over": 16, "Lost": 16})


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("call", ["offers", "prepare"])
def test_a_promised_bag_goes_on_while_its_tasks_look_for_room(rounds: ClaimRounds, strict: bool, call: str) -> None:
    job = rounds.bag(32, 100, "idempotent", deadline=rounds.began + 400, strict=strict)
    rounds.until(120)
    for one in rounds.clusters.values():
        for _ in range(40):
            one.faults.refuse(call, "no room")
            one.faults._ordered[-1].error.code = "offer_changed"  # type: ignore[union-attr]
    south = rounds.clusters["south"]
    south.faults.cut = True
    while not bags.open_tasks(rounds.connection, row(rounds, job)):
        assert rounds.job(job).state is GridJobState.RUNNING
        rounds.until(rounds.clock() - rounds.began + 5)
    south.faults.cut = False
    seen, tried = set[str](), 0
    while rounds.job(job).state is GridJobState.RUNNING and rounds.clock() < rounds.began + 2000:
        rounds.until(rounds.clock() - rounds.began + 5)
        seen.add(rounds.job(job).message)
        tried = max(tried, row(rounds, job).rounds)
    assert any("no room" in message for message in seen) if call == "offers" else tried >= 6
    assert rounds.job(job).state is GridJobState.TERMINATED
    assert Counter(task.state for task in bags.tasks_of(rounds.connection, job)) == {"Over": 32}


@pytest.mark.parametrize(("policy", "disclose"), [("plb", "load"), ("slots", "slots")])
def test_a_cluster_that_is_disabled_while_it_makes_offers_gets_no_tasks(
    connection: Connection, policy: str, disclose: str
) -> None:
    rounds = ClaimRounds(connection, disclose=disclose)
    rounds.disable_when_asked(Offers, "south")
    job = rounds.bag(12, policy=policy)
    rounds.until(10)
    assert shares(rounds, job) == {"north": 12}
    assert row(rounds, job).told["south"] == "it is not in use any more"


def test_a_bag_waits_when_all_clusters_are_disabled_while_they_make_offers(rounds: ClaimRounds) -> None:
    rounds.disable_when_asked(Offers, "north", "south")
    job = rounds.bag(12)
    rounds.until(5)
    assert rounds.job(job).state is GridJobState.SUBMITTED
    assert rounds.job(job).message.startswith("no offers yet: ")


@pytest.mark.parametrize("types", [("idempotent",), ()])
def test_tasks_that_a_restored_cluster_does_not_know_may_have_begun(
    rounds: ClaimRounds, types: tuple[str, ...]
) -> None:
    """It was restored from a dump that is older than the bag, before its broker had heard of any start."""
    rounds.clusters["south"].faults.silent("commit", done=True)
    job = rounds.bag(32, 100, *types)
    rounds.round()
    assert "running" in rounds.there()["south"].values()
    assert {part.started for part in rounds.parts(job) if part.cluster == "south"} == {None}
    rounds.clusters["south"] = SimulatedCluster("south", 8, clock=rounds.clock, disclose="load")
    rounds.until(1000)
    tasks = Counter(task.state for task in bags.tasks_of(rounds.connection, job))
    assert tasks == ({"Over": 32} if types else {"Over": 16, "Lost": 16})


def test_a_deleted_bag_leaves_nothing(rounds: ClaimRounds) -> None:
    job = rounds.bag(32)
    rounds.until(3)
    broker_jobs.ask_deletion(rounds.connection, [job], "alice")
    rounds.until(8)
    assert rounds.job(job).state is GridJobState.ERROR
    assert rounds.there() == {"north": {}, "south": {}}
    assert {part.state for part in rounds.parts(job)} == {GridPartState.ENDED}
