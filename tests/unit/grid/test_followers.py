"""Who of the withdrawn jobs may be chosen next: the drawing of the module, step by step."""

from __future__ import annotations

from oarpy.grid.core.followers import Asked, BySize, InOrder, Kind

HOURS = {8: (5, 3), 4: (9, 7, 3), 2: (8, 5), 1: (9, 2)}
ASKED = [(procs, hours) for procs, walltimes in HOURS.items() for hours in walltimes]


def test_longest_first_those_lead_before_whom_none_comes() -> None:
    kinds: list[Kind] = [[place] for place in range(len(ASKED))]
    followers = BySize(kinds, [Asked(-procs, -hours) for procs, hours in ASKED])

    def leaders() -> list[tuple[int, int]]:
        return [ASKED[place] for (place,) in followers.leaders()]

    assert leaders() == [(8, 5), (4, 9), (1, 9)]
    assert leaders() == []
    kinds[ASKED.index((4, 9))].clear()
    assert leaders() == [(4, 7), (2, 8)]
    kinds[ASKED.index((8, 5))].clear()
    assert leaders() == [(8, 3)]
    kinds[ASKED.index((4, 7))].clear()
    assert leaders() == [(4, 3)]


def test_shortest_first_a_smaller_job_of_equal_walltime_leads_too() -> None:
    kinds = [[0], [1], [2], [3]]
    followers = BySize(kinds, [Asked(4, 60), Asked(2, 60), Asked(8, 59), Asked(8, 61)])
    assert sorted(followers.leaders()) == [[0], [1], [2]]


def test_in_order_the_next_ones_lead_when_the_first_ones_are_gone() -> None:
    kinds = [[0], [1], [2]]
    followers = InOrder(kinds, 2)
    assert followers.leaders() == [[0], [1]]
    kinds[0].clear()
    assert followers.leaders() == []
    kinds[1].clear()
    assert followers.leaders() == [[2]]
    kinds[2].clear()
    assert followers.leaders() == []
