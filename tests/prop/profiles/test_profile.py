"""Counted free time against a reference that looks at each hold."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from oarpy.profiles.profile import CountedHold, Profile, first_common_start

_PROCS = 4
_HOLDS = st.lists(
    st.builds(
        lambda procs, start, length: CountedHold(procs, start, start + length),
        st.integers(1, _PROCS),
        st.integers(0, 20),
        st.integers(1, 9),
    ),
    max_size=8,
)


def _free(holds: list[CountedHold], instant: float) -> int:
    return _PROCS - sum(hold.procs for hold in holds if hold.start <= instant < hold.end)


def _fits(holds: list[CountedHold], procs: int, start: float, duration: float) -> bool:
    instants = [start, *(hold.start for hold in holds if start < hold.start < start + duration)]
    return all(_free(holds, instant) >= procs for instant in instants)


def _earliest(holds: list[CountedHold], procs: int, duration: float, lo: float, hi: float) -> float:
    tried = sorted({lo, *(hold.end for hold in holds if hold.end > lo)})
    return next((at for at in tried if at <= hi and _fits(holds, procs, at, duration)), inf)


def _profile(holds: list[CountedHold]) -> Profile:
    """Return a profile of what can be held at once, and leave that in ``holds``."""
    profile = Profile(_PROCS, 0)
    kept: list[CountedHold] = []
    for hold in holds:
        if _fits(kept, hold.procs, hold.start, hold.end - hold.start):
            profile.take(hold.start, hold.end, hold.procs)
            kept.append(hold)
    holds[:] = kept
    return profile


@given(_HOLDS, st.integers(1, _PROCS), st.integers(1, 9), st.integers(0, 20), st.integers(0, 30) | st.just(inf))
def test_the_earliest_place_is_that_of_the_reference(
    holds: list[CountedHold], procs: int, duration: int, lo: int, hi: float
) -> None:
    profile = _profile(holds)
    assert profile.earliest(procs, duration, lo, hi) == _earliest(holds, procs, duration, lo, hi)
    assert profile.fits(procs, lo, duration) == _fits(holds, procs, lo, duration)
    assert profile.free(lo) == _free(holds, lo)


@given(_HOLDS, st.data())
def test_what_is_given_back_is_free_again_and_leaves_nothing_behind(
    holds: list[CountedHold], data: st.DataObject
) -> None:
    profile = _profile(holds)
    for hold in data.draw(st.permutations(holds)):
        profile.give_back(hold)
    assert profile.ends(-1) == [0]
    assert profile.least() == _PROCS


@given(_HOLDS, _HOLDS, st.integers(1, _PROCS), st.integers(1, _PROCS), st.integers(1, 9))
def test_a_common_start_is_the_first_at_which_both_fit(
    some: list[CountedHold], others: list[CountedHold], procs: int, more: int, duration: int
) -> None:
    wanted = [(_profile(some), procs), (_profile(others), more)]
    both = [0, *sorted(hold.end for hold in (*some, *others))]
    expected = next(at for at in both if _fits(some, procs, at, duration) and _fits(others, more, at, duration))
    assert first_common_start(wanted, duration, 0) == expected


@given(_HOLDS, st.integers(0, 30))
def test_what_is_forgotten_does_not_change_what_comes(holds: list[CountedHold], now: int) -> None:
    profile = _profile(holds)
    profile.forget(now)
    assert [profile.free(at) for at in range(now, 40)] == [_free(holds, at) for at in range(now, 40)]


@given(_HOLDS, st.integers(0, 20), st.data())
def test_a_hold_moves_as_if_it_were_given_back_first(holds: list[CountedHold], lo: int, data: st.DataObject) -> None:
    profile = _profile(holds)
    for hold in [hold for hold in holds if hold.start >= lo]:
        duration = hold.end - hold.start
        found = profile.earlier(hold.procs, duration, lo, hold.start)
        profile.give_back(hold)
        assert found == profile.earliest(hold.procs, duration, lo, hold.start)
        start = data.draw(st.sampled_from([found, hold.start]))
        profile.hold(hold.procs, start, start + duration)
