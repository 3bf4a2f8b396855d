"""All parts of a job start at its deadline, or none goes on."""

from __future__ import annotations

from typing import Any

import pytest

from oarpy.grid.broker.coallocated.common_starts import ClaimTimes, ComponentPart, after_start, at_start, before_start
from oarpy.model.states import GridPartState

DEADLINE = 1000.0
TIMES = ClaimTimes(commit_lead=5, latest_commit=0.5, claim_time=5, kill_grace=30, margin=3, start_bound=20)


def part(state: str, cluster: str = "north", **facts: Any) -> ComponentPart:
    return ComponentPart(f"g1.{cluster}", cluster, GridPartState(state), **facts)


def test_how_long_before_the_deadline_the_last_try_is() -> None:
    assert TIMES.lead(evicting=False) == 10
    assert TIMES.lead(evicting=True) == 40


def test_commits_are_sent_five_seconds_before_the_deadline() -> None:
    parts = [part("Prepared"), part("Prepared", "south")]
    early = before_start(parts, DEADLINE, 900, TIMES)
    assert (early.act, early.at) == ("wait", 995)
    assert before_start(parts, DEADLINE, 995, TIMES).act == "commit"
    assert before_start(parts, DEADLINE, 999.5, TIMES).act == "commit"


def test_a_start_is_not_decided_when_it_is_too_late_for_it() -> None:
    late = before_start([part("Prepared")], DEADLINE, 999.6, TIMES)
    assert (late.act, late.reason) == ("give up", "the broker was not there at its deadline")


def test_a_part_that_is_lost_before_the_deadline_gives_up_the_others() -> None:
    parts = [part("Prepared"), part("Gone", "south", reason="cluster 'south': node died")]
    lost = before_start(parts, DEADLINE, 900, TIMES)
    assert (lost.act, lost.reason) == ("give up", "its claim was lost: cluster 'south': node died")


def test_parts_that_all_started_run_together() -> None:
    parts = [part("Running", started=True), part("Ended", "south", started=True, exit_status=0)]
    assert at_start(parts, DEADLINE, 1002, TIMES).act == "running"


@pytest.mark.parametrize("state", ["Ended", "Gone", "Aborting"])
def test_a_part_that_began_alone_is_ended(state: str) -> None:
    parts = [part("Running", started=True), part(state, "south", reason="lapsed")]
    alone = at_start(parts, DEADLINE, 1001, TIMES)
    assert (alone.act, alone.reason) == ("end all", "its part on cluster south did not start: lapsed")


def test_a_part_of_which_nothing_is_heard_is_awaited_for_a_while() -> None:
    parts = [part("Running", started=True), part("Committing", "south")]
    waits = at_start(parts, DEADLINE, 1001, TIMES)
    assert (waits.act, waits.at) == ("wait", 1020)
    alone = at_start(parts, DEADLINE, 1020, TIMES)
    assert alone.act == "end all"
    assert "had not started 20 s after the deadline" in alone.reason


def test_a_job_is_over_when_all_its_parts_have_ended() -> None:
    assert after_start([part("Running", started=True), part("Ended", "south", started=True)]).act == "wait"
    assert after_start([part("Ended", started=True), part("Ended", "south", started=True)]).act == "over"
