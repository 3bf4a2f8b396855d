"""The replay of a site's past on snapshots made by hand: what a trace does not have."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from oarpy.model.dates import JobDates
from oarpy.model.dependency import Dependency, Shift
from oarpy.scheduler.order.queue_orders import ORDERS
from oarpy.scheduler.snapshot import HoldingJob, Snapshot
from oarpy.simulation.engines.history_replay import HistoryReplay, ReplayOutcome
from oarpy.simulation.scenarios.reader import read_scenario
from oarpy.simulation.traces.past import Occupation, PastJob

RESOURCES = [{"id": number, "network_address": f"n{number}"} for number in (1, 2)]


def job(number: int, submitted: float, nodes: int, walltime: float = 100, **keys: object) -> dict[str, object]:
    return {
        "id": number,
        "user": "ann",
        "submitted": submitted,
        "requests": [{"resources": f"/nodes={nodes}", "walltime": walltime}],
        **keys,
    }


def outcome(
    *jobs: dict[str, object],
    runs: dict[int, float] | None = None,
    failed: frozenset[int] = frozenset(),
    checkpoint: float = 0,
    **keys: object,
) -> ReplayOutcome:
    """Replay ``jobs`` on two nodes; each runs 50 s unless ``runs`` says otherwise."""
    snapshot = read_scenario(json.dumps({"resources": RESOURCES, "jobs": list(jobs), **keys}))
    past = [
        PastJob(
            one,
            one.id,
            ((runs or {}).get(one.id, 50),) * len(one.alternatives),
            50,
            0,
            one.id not in failed,
            checkpoint=checkpoint,
        )
        for one in snapshot.waiting
    ]
    return HistoryReplay(empty(snapshot), past, (), ORDERS).run()


def empty(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, waiting=())


def spans(found: ReplayOutcome) -> dict[int, tuple[float, float]]:
    return {number: (run.start, run.end) for number, run in found.runs.items()}


def test_jobs_start_when_others_end_before_their_time() -> None:
    assert spans(outcome(job(1, 0, 2), job(2, 10, 2))) == {1: (0, 50), 2: (50, 100)}


def test_a_run_ends_at_its_walltime_at_the_latest() -> None:
    assert spans(outcome(job(1, 0, 2, walltime=20))) == {1: (0, 20)}


def test_besteffort_jobs_give_way_at_once() -> None:
    found = outcome(job(1, 0, 2, types=["besteffort"]), job(2, 10, 1))
    assert spans(found) == {1: (0, 10), 2: (10, 60)}
    assert found.runs[1].cancelled
    assert not found.runs[2].cancelled


def test_a_reservation_keeps_its_date_and_one_that_does_not_fit_is_refused() -> None:
    found = outcome(
        job(1, 0, 2, reservation=30),
        job(2, 1, 1, walltime=40),
        job(3, 2, 1, reservation=60),
        job(4, 3, 1, walltime=20),
        runs={4: 20},
    )
    assert spans(found) == {1: (30, 80), 4: (3, 23), 2: (80, 120)}
    assert list(found.refused) == [3]


def test_outcomes_of_the_past_decide_on_dependencies() -> None:
    found = outcome(
        job(1, 0, 1),
        job(2, 1, 1, depends_on=["ok:1"]),
        job(3, 2, 1, depends_on=["notok:1"]),
        failed=frozenset({1}),
    )
    assert spans(found) == {1: (0, 50), 3: (50, 100)}
    assert list(found.not_started) == [2]
    assert "ended without success" in found.not_started[2]


def test_what_can_never_be_served_is_refused_with_the_reason() -> None:
    found = outcome(job(1, 0, 3), job(2, 0, 1))
    assert list(found.refused) == [1]
    assert spans(found) == {2: (0, 50)}


def test_besteffort_jobs_give_way_to_a_reservation_that_was_accepted_after_they_started() -> None:
    found = outcome(
        job(1, 0, 1, walltime=500, types=["besteffort"]),
        job(2, 1, 1, walltime=500, types=["besteffort"]),
        job(3, 10, 1, reservation=60),
        runs={1: 400, 2: 90},
    )
    assert spans(found) == {1: (0, 60), 2: (1, 91), 3: (60, 110)}
    assert [number for number, run in found.runs.items() if run.cancelled] == [1]


def test_besteffort_jobs_give_way_to_a_reservation_of_their_memory() -> None:
    consumables = [{"name": "memory", "level": "network_address", "capacity": {"n1": 4, "n2": 4}}]
    asking = {"resources": "{network_address = 'n1'}/resource_id=1,memory=3", "walltime": 100}
    found = outcome(
        {**job(1, 0, 1, types=["besteffort"]), "requests": [{**asking, "walltime": 500}]},
        {**job(2, 10, 1, reservation=60), "requests": [asking]},
        runs={1: 400},
        resources=[{"id": number, "network_address": "n1"} for number in (1, 2)],
        consumables=consumables,
    )
    assert spans(found) == {1: (0, 60), 2: (60, 110)}


CHEAP = job(1, 0, 1, walltime=500, types=["besteffort"])


def test_besteffort_jobs_leave_earlier_than_a_reservation_by_the_lead_and_their_checkpoint() -> None:
    lead: dict[str, Any] = {"rules": {"besteffort_kill_before_reservation": 15}, "security_time": 5}
    found = outcome(CHEAP, job(3, 10, 2, reservation=60), runs={1: 400}, checkpoint=20, **lead)
    assert spans(found) == {1: (0, 45), 3: (60, 110)}  # cancelled at 25
    assert found.runs[1].cancelled


def test_a_checkpoint_delays_whoever_needs_the_room() -> None:
    found = outcome(CHEAP, job(2, 10, 2), runs={1: 400}, checkpoint=20)
    assert spans(found) == {1: (0, 30), 2: (30, 80)}


def test_a_job_that_ends_while_it_writes_its_checkpoint_was_not_cancelled() -> None:
    found = outcome(CHEAP, job(2, 10, 2), runs={1: 25}, checkpoint=20)
    assert spans(found) == {1: (0, 25), 2: (25, 75)}
    assert not found.runs[1].cancelled


def test_a_minimum_life_holds_against_whoever_comes() -> None:
    found = outcome(CHEAP, job(2, 5, 2), job(3, 1, 2, reservation=60), runs={1: 400}, besteffort_minimum_life=80)
    assert spans(found) == {1: (0, 80), 2: (80, 130)}
    assert found.refused == {3: "refused: its resources are not free at 60, possible at 80"}


def test_a_besteffort_reservation_gives_way_before_it_begins() -> None:
    found = outcome(job(1, 0, 2, reservation=60, types=["besteffort"]), job(2, 60, 2))
    assert spans(found) == {2: (60, 110)}
    assert found.refused == {1: "it gave way before it began"}


@pytest.mark.parametrize("policy", ["conservative", "easy", "fcfs", "first_fit"])
@pytest.mark.parametrize(
    ("asked", "start"),
    [
        ({"depends_on": (Dependency(1, earliest=Shift("end", 30)),)}, 80),
        ({"depends_on": (Dependency(1, earliest=Shift("start", 70)),)}, 70),
        ({"depends_on": (Dependency(1, earliest=Shift("start", 30)),)}, 30),
        ({"dates": JobDates(not_before=300)}, 300),
    ],
)
def test_dates_and_shifts_are_waited_for(policy: str, asked: dict[str, Any], start: float) -> None:
    snapshot = read_scenario(
        json.dumps({"resources": RESOURCES, "policy": policy, "jobs": [job(1, 0, 1), job(2, 5, 1)]})
    )
    first, second = snapshot.waiting
    past = [PastJob(one, one.id, (50,), 50, 0, True) for one in (first, structs.replace(second, **asked))]
    found = HistoryReplay(empty(snapshot), past, (), ORDERS).run()
    assert spans(found) == {1: (0, 50), 2: (start, start + 50)}


def test_inner_jobs_lie_in_their_container() -> None:
    found = outcome(
        job(1, 0, 1, walltime=500, types=["container"]),
        job(2, 1, 1, walltime=60, types=["inner=1"]),
        job(3, 2, 1, walltime=60, types=["inner=1"]),
        runs={1: 500},
    )
    assert spans(found) == {1: (0, 500), 2: (1, 51), 3: (51, 101)}


def test_fair_share_counts_what_the_replay_used() -> None:
    queues = [{"name": "default", "priority": 1, "policy": "fairshare"}]
    jobs = [
        job(1, 0, 2, user="ann"),
        job(2, 10, 2, user="ann"),
        job(3, 20, 2, user="bob"),
    ]
    snapshot = read_scenario(json.dumps({"resources": RESOURCES, "jobs": jobs, "queues": queues}))
    past = [PastJob(one, one.id, (50,), 50, 0, True) for one in snapshot.waiting]
    found = HistoryReplay(empty(snapshot), past, (), ORDERS, usage_window=1000).run()
    assert spans(found) == {1: (0, 50), 3: (50, 100), 2: (100, 150)}


def test_what_ran_before_keeps_its_resources_to_its_real_end() -> None:
    snapshot = read_scenario(json.dumps({"resources": RESOURCES, "jobs": [job(2, 10, 2)]}))
    past = [PastJob(one, one.id, (50,), 50, 0, True) for one in snapshot.waiting]
    before = Occupation(HoldingJob(1, "bob", -100, 400, (1,)), until=70, succeeded=True)
    assert spans(HistoryReplay(empty(snapshot), past, (before,), ORDERS).run()) == {2: (70, 120)}


def test_hours_of_projects_bind_as_they_did_then() -> None:
    """Of 200 node seconds until 300, each job asks for 100 and uses 50: the fourth has to wait for the next period."""
    projects = [{"name": "fire", "hours": 200 / 3600, "begins": [0, 300]}]
    jobs = [job(number, 0, 1, project="fire") for number in (1, 2, 3, 4)]
    replayed = outcome(*jobs, projects=projects)
    assert {number: run.start for number, run in replayed.runs.items()} == {1: 0, 2: 0, 3: 50, 4: 250}
    free = outcome(*[job(number, 0, 1) for number in (1, 2, 3, 4)], projects=projects)
    assert {number: run.start for number, run in free.runs.items()} == {1: 0, 2: 0, 3: 50, 4: 50}
