"""Accepted reservations get other windows, several in one pass; passes with many reservations are quick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from oarpy.model.dependency import Dependency
from oarpy.model.request import parse_request
from oarpy.scheduler.decide import Decisions, decide
from oarpy.scheduler.gantt.gantt import Gantt
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.rules.reservations import promised
from oarpy.scheduler.snapshot import Alternative, Queue, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.windows.reservation_windows import ReservationWindow, Windows

PLATFORM = Platform.build([Resource(1, properties={"core": 1, "network_address": "n1"})], hierarchy=["core"])


def asking(number: int, date: float) -> WaitingJob:
    ways = (Alternative(parse_request("/core=1").groups, 10),)
    return WaitingJob(number, "ann", alternatives=ways, reservation=date, submitted=number - 100)


def accepted(starts: Mapping[int, float], windows: Mapping[int, ReservationWindow]) -> Snapshot:
    """Return a cluster of one core, which reservations of 10 s have from their starts on."""
    reservations = [Reservation(asking(number, start), start, 10, (1,)) for number, start in starts.items()]
    holding = [held for one in reservations if (held := promised(one, 0)) is not None]
    return Snapshot(
        0,
        PLATFORM,
        holding=tuple(holding),
        reservations=tuple(reservations),
        windows=Windows(windows, notice=0),
    )


def starts(decided: Decisions) -> dict[int, float]:
    return {one.job.id: one.start for one in decided.kept.snapshot.reservations}


def test_two_that_ask_for_other_windows_at_once_both_run_inside_these() -> None:
    windows = {
        1: ReservationWindow(200, 10, asked=(100, 200)),
        2: ReservationWindow(60, 30, asked=(30, 55)),
    }
    decided = decide(accepted({1: 10, 2: 40}, windows))
    assert decided.windows.changed == {1: True, 2: True}
    assert starts(decided) == {1: 100, 2: 30}


def test_one_that_no_longer_moves_and_gets_another_window_stays_where_it_is_put() -> None:
    windows = {
        1: ReservationWindow(200, 10, fixed=True, asked=(100, 250)),
        2: ReservationWindow(60, 30, asked=(100, 111)),
    }
    decided = decide(accepted({1: 10, 2: 40}, windows))
    assert decided.windows.changed == {1: True, 2: False}
    assert starts(decided) == {1: 100, 2: 40}


def test_a_change_that_cannot_be_had_is_refused_to_one_that_was_to_miss_its_first_window() -> None:
    windows = {1: ReservationWindow(70, 50, farthest=5, asked=(20, 30))}
    decided = decide(accepted({1: 50, 2: 20}, windows))
    assert decided.windows.changed == {1: False}
    assert starts(decided) == {1: 50, 2: 20}
    assert decided.windows.offers[1]


@pytest.mark.parametrize(("asked", "granted"), [((100, 200), False), ((5, 20), True)])
@pytest.mark.parametrize("container", [True, False])
def test_one_that_others_were_promised_something_by_stays_where_it_is(
    asked: tuple[float, float], granted: bool, container: bool
) -> None:
    snapshot = accepted({1: 10, 2: 40}, {1: ReservationWindow(200, 10, asked=asked)})
    first, second = snapshot.reservations
    if container:
        first = replace(first, job=structs.replace(first.job, types=("container",)))
    else:
        second = replace(second, job=structs.replace(second.job, depends_on=(Dependency(1),)))
    decided = decide(replace(snapshot, reservations=(first, second)))
    assert decided.windows.changed == {1: granted}
    assert starts(decided) == {1: 10, 2: 40}


def test_a_new_one_makes_room_for_the_next_of_the_same_pass() -> None:
    new = asking(1, 10), asking(2, 10), asking(3, 10)
    windows = {1: ReservationWindow(200, 10), 3: ReservationWindow(35, 10)}
    snapshot = replace(accepted({}, {}), waiting=new, windows=Windows(windows, notice=0))
    decided = decide(snapshot)
    assert {one.job: one.start for one in decided.plan.placements} == {1: 30, 2: 10, 3: 20}
    assert (decided.refused, decided.windows.moves) == ((), ())


@pytest.mark.parametrize(
    "windows",
    [
        Windows({1: ReservationWindow(200, 10, fix_after=0)}, notice=0),
        Windows({1: ReservationWindow(200, 10)}, notice=10),
    ],
)
def test_a_new_one_that_is_fixed_or_begins_soon_stays_where_it_is(windows: Windows) -> None:
    decided = decide(replace(accepted({}, {}), waiting=(asking(1, 10), asking(2, 10)), windows=windows))
    assert [one.job for one in decided.refused] == [2]
    assert {one.job: one.start for one in decided.plan.placements if one.start is not None} == {1: 10}


@pytest.mark.parametrize(("most", "starts"), [(0, []), (1, [70]), (2, [30, 70])])
def test_the_first_start_after_the_window_is_among_as_many_offers_as_there_may_be(
    most: int, starts: list[float]
) -> None:
    """A start right before the window fills the shortest list by itself."""
    held = {1: 40, 2: 30, 3: 50, 4: 60}
    windows = {2: ReservationWindow(200, 10), 3: ReservationWindow(60, 50)}
    rules = Windows(windows, notice=0, offers=most)
    snapshot = replace(accepted(held, windows), waiting=(asking(9, 40),), windows=rules)
    assert [one.start for one in decide(snapshot).windows.offers[9]] == starts


def test_a_start_to_take_is_tried_beyond_the_offers_that_are_made() -> None:
    snapshot = accepted({1: 10, 2: 20, 3: 30}, {})
    windows = Windows({9: ReservationWindow(40, 10, take=50)}, notice=0, offers=1, tries=2)
    long = structs.replace(asking(9, 10), alternatives=(Alternative(parse_request("/core=1").groups, 30),))
    decided = decide(replace(snapshot, waiting=(long,), windows=windows))
    assert decided.refused
    windows = replace(windows, of={9: ReservationWindow(40, 10, take=40)})
    decided = decide(replace(snapshot, waiting=(long,), windows=windows))
    assert {one.job: one.start for one in decided.plan.placements} == {9: 40}
    assert decided.windows.strict == {9: (40, 70)}


def urgent(number: int, walltime: int, start: float | None = None) -> WaitingJob:
    """Return a job of the queue that is served first."""
    ways = (Alternative(parse_request("/core=1").groups, walltime),)
    return WaitingJob(number, "bob", queue="urgent", alternatives=ways, reservation=start)


QUEUES = Queue("urgent", 5), Queue("default", 3)


@pytest.mark.parametrize("window", [None, ReservationWindow(25, 10, farthest=0.1)])
def test_who_is_refused_for_a_job_of_another_queue_is_offered_starts_beside_it(
    window: ReservationWindow | None,
) -> None:
    windows = Windows({} if window is None else {2: window}, notice=0)
    snapshot = replace(accepted({1: 40}, {}), queues=QUEUES, windows=windows)
    decided = decide(replace(snapshot, waiting=(urgent(5, 28), asking(2, 10))))
    assert [one.job for one in decided.refused] == [2]
    assert {one.job: one.start for one in decided.plan.placements if one.start is not None} == {5: 0}
    assert [one.start for one in decided.windows.offers[2]] == [28]


@pytest.mark.parametrize(
    ("window", "start"),
    [
        (ReservationWindow(70, 10), 28),
        (ReservationWindow(25, 10, farthest=2), 28),
        (ReservationWindow(25, 10, take=28), 28),
    ],
)
def test_a_window_is_had_beside_a_job_of_another_queue(window: ReservationWindow, start: float) -> None:
    snapshot = replace(accepted({1: 40}, {}), queues=QUEUES, windows=Windows({2: window}, notice=0))
    decided = decide(replace(snapshot, waiting=(urgent(5, 28), asking(2, 10), asking(3, 70))))
    assert {one.job: one.start for one in decided.plan.placements} == {5: 0, 2: start, 3: 70}
    assert decided.refused == ()


def test_others_move_beside_a_job_of_another_queue_or_not_at_all() -> None:
    windows = {1: ReservationWindow(60, 30)}
    snapshot = replace(accepted({1: 30}, windows), queues=QUEUES, windows=Windows(windows, notice=0))
    for new, before in ((asking(2, 30), asking(2, 30)), (urgent(2, 10, 30), asking(2, 30))):
        decided = decide(replace(snapshot, waiting=(urgent(5, 28), new)))
        assert {one.job: one.start for one in decided.plan.placements} == {5: 0, 2: before.reservation}
        assert starts(decided) == {1: 40}
    decided = decide(replace(snapshot, waiting=(urgent(5, 30), asking(2, 20), asking(3, 25))))
    assert starts(decided) == {1: 30}
    assert {one.job for one in decided.refused} == {2, 3}
    assert all(decided.windows.offers[job] for job in (2, 3))


@pytest.mark.parametrize("apart", [10, 5])
def test_what_is_held_is_entered_once_for_all_new_reservations(monkeypatch: pytest.MonkeyPatch, apart: int) -> None:
    calls: list[Any] = []
    hold = Gantt.hold

    def counted(self: Gantt, *args: Any, **kwargs: Any) -> None:
        calls.append(self)
        hold(self, *args, **kwargs)

    monkeypatch.setattr(Gantt, "hold", counted)
    snapshot = replace(
        accepted({number: 1000 + 10 * number for number in range(50)}, {}),
        waiting=tuple(asking(100 + number, 10 + apart * number) for number in range(20)),
    )
    decided = decide(snapshot)
    assert len(decided.accepted) == (20 if apart == 10 else 10)
    assert len(calls) < 10
