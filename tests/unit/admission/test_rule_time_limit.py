from __future__ import annotations

import itertools
import signal

import pytest

from oarpy.admission.rules.time_limit import TimeExceeded, TimeLimit


@pytest.fixture(autouse=True)
def _runner_has_no_timer() -> object:
    """Give the timer back to the test runner, which may use it for a limit of its own."""
    before, handler = signal.setitimer(signal.ITIMER_REAL, 0), signal.getsignal(signal.SIGALRM)
    yield None
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, *before)


def for_ever() -> None:
    for _ in itertools.repeat(None):
        pass


def test_what_never_ends_is_interrupted_and_the_next_goes_on() -> None:
    for _ in range(3):
        with pytest.raises(TimeExceeded):
            TimeLimit().run(for_ever, 0.02)
    done: list[int] = []
    TimeLimit().run(lambda: done.append(sum(range(1000))), 60)
    assert done == [499500]
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_catching_everything_once_does_not_help() -> None:
    def stubborn() -> None:
        try:
            for_ever()
        except BaseException:
            for_ever()

    with pytest.raises(TimeExceeded):
        TimeLimit().run(stubborn, 0.02)


def test_the_errors_of_an_action_pass_through() -> None:
    with pytest.raises(IndexError):
        TimeLimit().run(lambda: [].pop(), 60)


def test_strikes_that_race_with_the_end_of_an_action_never_escape() -> None:
    """Limits about as long as the actions: whatever wins, nothing may be raised outside of ``run``."""
    for length in range(300):
        try:
            TimeLimit().run(lambda size=length: sum(range(size * 20)), 0.00002)  # type: ignore[misc]
        except TimeExceeded:
            continue
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
