"""Rules of applications that negotiate, one at a time: ghosts, rank, timer, ends. By ``oarpy negotiate``, as lines."""

from __future__ import annotations

from typing import Any

import pytest

from oarpy.model.states import NEGOTIATION_ALLOWED, NegotiationState
from oarpy.negotiation.core.applications import Application
from tests.unit.negotiation.test_negotiate import happened, of

Json = dict[str, Any]


def script(number: int, *requests: Any, arrives: float = 0, **keys: Any) -> Json:
    """Return an application with a script."""
    return {"id": number, "arrives": arrives, "script": list(requests), **keys}


def waiting(number: int, hosts: int, delay: float, arrives: float = 1, **keys: Any) -> Json:
    """Return an application with a launcher, which asks for this many hosts for 10 seconds."""
    return {"id": number, "arrives": arrives, "delay": delay, "rigid": {"hosts": hosts, "duration": 10}, **keys}


def on_four(*applications: Json, **keys: Any) -> list[Json]:
    """Run applications on one cluster of 4 hosts."""
    file = {"clusters": {"c": {"hosts": 4}}, "timer": 0, "fair_start": 5, "applications": applications}
    return happened(**file | keys)


def when(lines: list[Json], application: int, word: str) -> list[float]:
    """Return when an application had this message or state."""
    return [line["t"] for line in of(lines, application, word)]


def test_a_ghost_that_everybody_sees_lasts_for_fair_start() -> None:
    lines = on_four(script(1, [0, {"c": 4}, 100], lasts=10), script(2, [1, {"c": 1}, 5]), ghosts="always")
    assert (when(lines, 1, "Ghost"), when(lines, 1, "Finished"), when(lines, 2, "Started")) == ([10], [15], [15])
    # each is over when its hosts are: the second is a ghost of one host for 5 seconds
    assert lines[-1]["totals"]["waste"] == 4 * 5 + 1 * 5


def test_a_ghost_that_nobody_needs_lasts_no_time() -> None:
    lines = on_four(script(1, [0, {"c": 4}, 100], lasts=10), script(2, [1, {"c": 1}, 5]))
    assert (when(lines, 1, "Ghost"), when(lines, 1, "Finished"), when(lines, 2, "Started")) == ([10], [10], [10])


def test_a_ghost_lasts_until_all_who_owe_have_answered() -> None:
    lines = on_four(script(1, [0, {"c": 4}, 100], lasts=30), waiting(2, 4, 1), waiting(3, 4, 3), fair_start=20)
    assert when(lines, 1, "Ghost") == [30]
    assert [line["t"] for line in lines if line.get("message") == "keep" and line["t"] > 30][:2] == [31, 33]
    assert when(lines, 1, "Finished") == [33]
    assert when(lines, 2, "Started") == [31]  # who has answered is ahead of all who owe, and sees the ghost no longer


def test_a_ghost_never_lasts_past_walltime_and_security_time() -> None:
    """Two end at 18, and 2 answers at 30: one of the ghosts is over before, at 20 + 1."""
    lines = on_four(
        script(1, [0, {"c": 3}, 20], lasts=18),
        waiting(2, 4, 12),
        script(3, [0, {"c": 1}, 100], lasts=18),
        fair_start=50,
        security=1,
    )
    assert (when(lines, 1, "Finished"), when(lines, 3, "Finished")) == ([21], [30])


def test_a_ghost_that_changes_no_view_is_owed_no_answer() -> None:
    """The plan kept its hosts busy for as long as the ghost would."""
    lines = on_four(script(1, [0, {"c": 4}, 20], lasts=18), waiting(2, 4, 12), fair_start=50)
    assert (when(lines, 1, "Finished"), when(lines, 2, "Started")) == ([18], [18])


def test_one_ranked_ahead_of_all_who_owe_starts_on_a_ghost_which_gives_way() -> None:
    """Application 2 asks for 4 hosts by a script and owes nothing; 3, behind it, owes."""
    lines = on_four(
        script(1, [0, {"c": 3}, 100], lasts=30),
        script(2, [1, {"c": 2}, 10]),
        waiting(3, 4, 4, arrives=2),
        script(4, [0, {"c": 1}, 28]),
    )
    assert when(lines, 2, "Started") == [30]
    assert when(lines, 1, "Finished") == [34]
    # of its three hosts the ghost kept one that was free besides: hosts - started = 4 - 2 = 2
    assert lines[-1]["totals"]["waste"] == 2 * 4


def test_what_starts_behind_is_in_the_view_that_is_sent() -> None:
    lines = on_four(script(1, [0, {"c": 2}, 50]), waiting(2, 4, 0, arrives=1), script(3, [0, {"c": 2}, 20], arrives=2))
    assert when(lines, 3, "Started") == [2]
    assert of(lines, 2, "changeNotify")[1]["changes"] == {"c": [2, 20, 4, 28, 2]}


@pytest.mark.parametrize(("rank", "first"), [("first-request", 3), ("submission", 2)])
def test_rank_is_fixed_by_the_first_request_or_by_subscribing(rank: str, first: int) -> None:
    lines = on_four(
        script(1, [0, {"c": 4}, 10]), script(2, [5, {"c": 4}, 10]), script(3, [1, {"c": 4}, 10], arrives=1), rank=rank
    )
    assert when(lines, first, "Started") == [10]


def test_a_changed_request_keeps_its_rank() -> None:
    lines = on_four(
        script(1, [0, {"c": 4}, 10]), script(2, [1, {"c": 1}, 10], [3, {"c": 4}, 10]), script(3, [2, {"c": 4}, 10])
    )
    assert (when(lines, 2, "Started"), when(lines, 3, "Started")) == ([10], [20])


def test_only_the_first_in_line_are_considered() -> None:
    lines = on_four(script(1, [0, {"c": 4}, 10]), script(2, [1, {"c": 4}, 10]), script(3, [2, {"c": 1}, 10]), most=1)
    assert when(lines, 3, "estimate") == []
    assert (when(lines, 3, "RequestSent"), when(lines, 3, "Started")) == ([2], [20])


def test_passes_are_a_timer_apart() -> None:
    lines = on_four(*(script(one, [after, {"c": 1}, 10]) for one, after in ((1, 0), (2, 0.25), (3, 0.5))), timer=1)
    assert [when(lines, one, "Started") for one in (1, 2, 3)] == [[0], [1], [1]]


@pytest.mark.parametrize(("lasts", "end", "reason"), [(3, 3, "done"), (10, 10, "done"), (12, 10, "walltime")])
def test_who_runs_longer_than_its_walltime_is_ended(lasts: float, end: float, reason: str) -> None:
    lines = on_four(script(1, [0, {"c": 1}, 10], lasts=lasts))
    assert [(line["t"], line["reason"]) for line in of(lines, 1, "ended")] == [(end, reason)]
    assert len(of(lines, 1, "done")) == (reason == "done")


def test_who_never_asks_stays_submitted() -> None:
    lines = on_four(script(1))
    words = [line.get("message") or line["state"] for line in lines[:-1]]
    assert words == ["subscribe", "Submitted", "changeNotify"]


def test_decimal_numbers_are_exact() -> None:
    """0.1 + 0.2 is 0.3: the third application finds the host free in that very instant."""
    lines = on_four(script(1, [0.1, {"c": 4}, 0.2]), script(2, [0.3, {"c": 4}, 0.1]), fair_start=0)
    assert when(lines, 2, "Started") == [0.3]
    assert lines[-1]["totals"]["passes"] == 3


@pytest.mark.parametrize("source", NegotiationState)
@pytest.mark.parametrize("target", NegotiationState)
def test_moves_that_are_not_in_the_table_are_refused(source: NegotiationState, target: NegotiationState) -> None:
    application = Application(1, ("c",), state=source)
    if (source, target) in NEGOTIATION_ALLOWED:
        application.move(target)
        assert application.state is target
    else:
        with pytest.raises(ValueError, match="application 1 cannot move"):
            application.move(target)
        assert application.state is source
