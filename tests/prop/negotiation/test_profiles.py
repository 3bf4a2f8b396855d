"""Profiles against lists of one number an instant, and launchers against the listings that they follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from oarpy.negotiation.launchers import Choice, Complex, Moldable
from oarpy.negotiation.profiles import BusyHosts, Time, Visits, earliest
from oarpy.negotiation.run_times import AmdahlTime, Cluster, IterativeTime

Piece = tuple[int, int, int]
Pieces = list[Piece]
SPAN = 40
PIECES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9), st.integers(1, 5)), max_size=8)


def built(pieces: Sequence[Piece]) -> BusyHosts:
    profile = BusyHosts()
    for begin, length, hosts in pieces:
        profile = profile.added(begin, begin + length, hosts, Visits())
    return profile


def counted(pieces: Sequence[Piece]) -> list[int]:
    return [
        sum(hosts for begin, length, hosts in pieces if begin <= instant < begin + length) for instant in range(SPAN)
    ]


def is_canonical(profile: BusyHosts) -> bool:
    ends, busy = profile.ends, (*profile.busy, 0)
    return len(ends) == len(profile.busy) and all(
        busy[i] != busy[i + 1] and (i == 0 or ends[i - 1] < ends[i]) for i in range(len(ends))
    )


@given(PIECES, PIECES)
def test_profiles_hold_the_sum_of_what_was_added(mine: Pieces, more: Pieces) -> None:
    profile, other = built(mine), built(more)
    both = profile + other
    assert [both.at(instant) for instant in range(SPAN)] == counted([*mine, *more])
    assert is_canonical(both)
    assert both.same(built([*mine, *more]), 0)
    taken_back = both
    for begin, length, hosts in more:
        taken_back = taken_back.added(begin, begin + length, -hosts, Visits())
    assert taken_back.same(profile, 0)


@given(PIECES, PIECES, st.integers(0, SPAN))
def test_profiles_are_the_same_from_an_instant_on(mine: Pieces, more: Pieces, now: int) -> None:
    profile, other = built(mine), built(more)
    assert profile.same(other, now) == (counted(mine)[now:] == counted(more)[now:])
    assert profile.same(profile.since(now), now)
    assert is_canonical(profile.since(now))


@given(PIECES, st.integers(0, 30), st.integers(0, 12))
def test_the_most_within_a_span(pieces: Pieces, begin: int, length: int) -> None:
    profile = built(pieces)
    assert profile.most(begin, begin + length, Visits()) == max(counted(pieces)[begin : begin + length], default=0)
    assert profile.capped(4).same(BusyHosts.of([0, *(x for busy in counted(pieces) for x in (1, min(busy, 4)))]), 0)


@given(PIECES, st.integers(0, SPAN))
def test_flat_lists_go_both_ways(pieces: Pieces, now: int) -> None:
    profile = built(pieces)
    flat = profile.flat(now)
    again = BusyHosts.of(flat)
    assert again.same(profile, now)
    assert again.flat(now) == flat
    assert is_canonical(again)
    assert flat[0] == now
    assert all(duration > 0 for duration in flat[1::2])


@given(st.lists(PIECES, min_size=2, max_size=2), st.integers(1, 12), st.integers(0, 9), st.integers(0, 6))
def test_the_earliest_place_is_the_first_that_fits(pieces: list[Pieces], length: int, now: int, second: int) -> None:
    size = max(max(counted(one)) for one in pieces) + 1
    sizes, wanted = {"a": size, "b": size}, {"a": 1, "b": min(second, size)}
    wanted = {name: number for name, number in wanted.items() if number}

    def fits(instant: int) -> bool:
        free = {
            name: size - max(counted(one)[instant : instant + length], default=0)
            for name, one in zip("ab", pieces, strict=True)
        }
        return all(free[name] >= number for name, number in wanted.items())

    expected = next(instant for instant in range(now, SPAN + 1) if fits(instant))
    profiles = {"a": built(pieces[0]), "b": built(pieces[1])}
    assert earliest(profiles, sizes, wanted, length, now, Visits()) == expected


CLUSTERS = [
    Cluster("a", 6),
    Cluster("b", 5, Fraction(3, 2)),
    Cluster("c", 4, 2),
]


def most(profile: BusyHosts, begin: Time, end: Time) -> int:
    """Return the most that is busy at the begin, or where it changes before the end."""
    instants = [begin, *(change for change in profile.ends if begin < change < end)]
    return max(profile.at(instant) for instant in instants)


def moldable_by_the_listing(
    view: dict[str, BusyHosts], now: int, least: int, highest: int, walltime: Callable[[Cluster, int], Time]
) -> Choice | None:
    best: Time = float("inf")
    choice = None
    points = [(end, i) for i, cluster in enumerate(CLUSTERS) for end in {now, *view[cluster.name].ends} if end >= now]
    for start, index in sorted(points):
        if best < start:
            break
        cluster = CLUSTERS[index]
        profile = view[cluster.name]
        n = min(highest, cluster.hosts - profile.at(start))
        while n >= least:
            d = walltime(cluster, n)
            left = cluster.hosts - most(profile, start, start + d)
            if left < n:
                n = left
                continue
            if start + d < best:
                best, choice = start + d, Choice({cluster.name: n}, d)
            break
    return choice


def fitting(pieces: Sequence[Piece], size: int) -> BusyHosts:
    return built(pieces).capped(size)


@given(
    st.lists(PIECES, min_size=3, max_size=3),
    st.integers(0, 30),
    st.integers(1, 4),
    st.integers(0, 8),
    st.sampled_from([Fraction(8, 10), Fraction(99, 100), 1]),
    st.integers(1, 60),
    st.sampled_from([1, Fraction(3, 2)]),
)
def test_a_moldable_launcher_follows_the_listing(
    pieces: list[Pieces],
    now: int,
    least: int,
    more: int,
    parallel: Time,
    single: int,
    margin: Time,
) -> None:
    view = {cluster.name: fitting(one, cluster.hosts) for cluster, one in zip(CLUSTERS, pieces, strict=True)}
    launcher = Moldable(CLUSTERS, AmdahlTime(parallel, single), least, least + more, margin)
    computed = set()

    def walltime(cluster: Cluster, n: int) -> Time:
        computed.add((cluster.name, n))
        return (1 - parallel + Fraction(parallel) / n) * single / Fraction(cluster.speed) * margin

    assert launcher.choose(view, now) == moldable_by_the_listing(view, now, least, least + more, walltime)
    assert launcher.configurations == len(computed)


def complex_by_the_listing(
    view: dict[str, BusyHosts], now: int, walltime: Callable[[dict[str, int]], Time]
) -> tuple[Choice | None, int]:
    best: Time = float("inf")
    choice = None
    computed = set()
    for start in sorted({now, *(end for profile in view.values() for end in profile.ends if end > now)}):
        if best < start:
            break
        free = {cluster.name: cluster.hosts - view[cluster.name].at(start) for cluster in CLUSTERS}
        while any(free.values()):
            computed.add(tuple(free.values()))
            sets = [
                {cluster.name: free[cluster.name] for i, cluster in enumerate(CLUSTERS) if mask >> i & 1}
                for mask in range(1, 1 << len(CLUSTERS))
            ]
            hosts = min((one for one in sets if all(one.values())), key=walltime)
            d = walltime(hosts)
            left = {name: size(name) - most(view[name], start, start + d) for name in hosts}
            if all(left[name] >= hosts[name] for name in hosts):
                if start + d < best:
                    best, choice = start + d, Choice(hosts, d)
                break
            free |= {name: left[name] for name in hosts if left[name] < hosts[name]}
    return choice, len(computed)


def size(name: str) -> int:
    return next(cluster.hosts for cluster in CLUSTERS if cluster.name == name)


@given(
    st.lists(PIECES, min_size=3, max_size=3),
    st.integers(0, 30),
    st.integers(1, 80),
    st.integers(0, 5),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.sampled_from([1, Fraction(3, 2)]),
)
def test_a_complex_launcher_follows_the_listing(
    pieces: list[Pieces],
    now: int,
    work: int,
    iterations: int,
    latency: list[int],
    margin: Time,
) -> None:
    view = {cluster.name: fitting(one, cluster.hosts) for cluster, one in zip(CLUSTERS, pieces, strict=True)}
    latencies = dict(zip(map(frozenset, ("ab", "ac", "bc")), latency, strict=True))
    launcher = Complex(IterativeTime(work, iterations, CLUSTERS, latencies), margin)

    def walltime(hosts: dict[str, int]) -> Time:
        power = sum(hosts[cluster.name] * Fraction(cluster.speed) for cluster in CLUSTERS if cluster.name in hosts)
        far = max((latencies[frozenset((a, b))] for a in hosts for b in hosts if a != b), default=0)
        return (work / power + iterations * far) * margin

    choice, computed = complex_by_the_listing(view, now, walltime)
    assert launcher.choose(view, now) == choice
    assert launcher.configurations == computed
