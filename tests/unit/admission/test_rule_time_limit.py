from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable

import pytest

from oarpy.admission.rules.rules import RefusedByRule, Rule, RuleSet
from oarpy.admission.rules.site import FixedSite
from oarpy.admission.rules.time_limit import TimeExceeded, limiter
from oarpy.model.submission import Submission

Somewhere = Callable[[Callable[[], None]], None]


def for_ever() -> None:
    for _ in itertools.repeat(None):
        pass


def in_this_thread(action: Callable[[], None]) -> None:
    action()


def in_another_thread(action: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def catching() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=catching)
    thread.start()
    thread.join()
    for error in errors:
        raise error


@pytest.fixture(params=[in_this_thread, in_another_thread])
def somewhere(request: pytest.FixtureRequest) -> Somewhere:
    return request.param  # type: ignore[no-any-return]


def test_what_never_ends_is_interrupted_and_the_next_goes_on(somewhere: Somewhere) -> None:
    done = []

    def action() -> None:
        with limiter() as limits:
            for _ in range(3):
                with pytest.raises(TimeExceeded):
                    limits.run(for_ever, 0.02)
            limits.run(lambda: done.append(sum(range(1000))), 60)

    somewhere(action)
    assert done == [499500]


def test_catching_everything_once_does_not_help(somewhere: Somewhere) -> None:
    def stubborn() -> None:
        try:
            for_ever()
        except BaseException:
            for_ever()

    def action() -> None:
        with limiter() as limits, pytest.raises(TimeExceeded):
            limits.run(stubborn, 0.02)

    somewhere(action)


def test_the_errors_of_an_action_pass_through(somewhere: Somewhere) -> None:
    def action() -> None:
        with limiter() as limits:
            limits.run(lambda: [].pop(), 60)

    with pytest.raises(IndexError):
        somewhere(action)


def test_strikes_that_race_with_the_end_of_an_action_never_escape(
    somewhere: Somewhere,
) -> None:
    """Limits about as long as the actions: whatever wins, nothing may be raised outside of ``run``."""
    outcomes = set()

    def action() -> None:
        with limiter() as limits:
            for length in range(300):
                try:
                    limits.run(lambda size=length: sum(range(size * 20)), 0.00002)  # type: ignore[misc]
                    outcomes.add("ended")
                except TimeExceeded:
                    outcomes.add("interrupted")
        outcomes.add("left")

    somewhere(action)
    assert "left" in outcomes


def test_the_handler_and_the_timer_of_the_process_come_back() -> None:
    # the test runner may use this very timer for its own limit
    before, handler = signal.getitimer(signal.ITIMER_REAL), signal.getsignal(signal.SIGALRM)
    signal.setitimer(signal.ITIMER_REAL, 250)
    try:
        with limiter() as limits:
            limits.run(lambda: None, 1)
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left <= 250
        assert signal.getsignal(signal.SIGALRM) is handler
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


def test_no_timer_is_left_where_there_was_none() -> None:
    before = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        with limiter() as limits:
            limits.run(lambda: None, 60)
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


def test_a_rule_that_never_ends_is_refused_in_any_thread(somewhere: Somewhere) -> None:
    submission = Submission("ann")
    rules = RuleSet([Rule("good", "job.queue = 'x'", 1), Rule("endless", "# first\nwhile True:\n    pass", 2)])

    def action() -> None:
        rules.run(submission, FixedSite(), time_limit=0.05)

    with pytest.raises(RefusedByRule, match=r"rule endless failed at line [23]: it ran longer than 0.05 s"):
        somewhere(action)
    assert submission == Submission("ann")
