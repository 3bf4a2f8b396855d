"""Which nodes are woken and which sleep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oarpy.scheduler.rules.energy import Keep, PowerNode, PowerOrders, Use, power_orders

A, B, C = (PowerNode(name, 3 << 2 * place, "up", rested=True) for place, name in enumerate("abc"))
ASLEEP = [replace(node, power="asleep", rested=False) for node in (A, B, C)]
ALL = A.bits | B.bits | C.bits


def decided(nodes: Sequence[PowerNode], uses: Sequence[Use] = (), keep: Sequence[Keep] = ()) -> PowerOrders:
    return power_orders(nodes, uses, keep, 1000, wakeup_time=100, sleep_time=500)


def test_idle_nodes_sleep_the_last_first() -> None:
    assert decided([A, replace(B, rested=False), C]).sleep == ("c", "a")


def test_a_node_with_a_job_now_or_soon_stays_awake() -> None:
    uses = [Use(900, 1), Use(1500, B.bits), Use(1501, C.bits)]
    assert decided([A, B, C], uses).sleep == ("c",)


def test_sleeping_nodes_are_woken_in_time_for_their_jobs() -> None:
    orders = decided(ASLEEP, [Use(1000, 1), Use(1100, 4), Use(1300, C.bits)])
    assert orders == PowerOrders(wake=("a", "b"), sleep=(), next_wake=1200)


def test_nodes_that_are_falling_asleep_or_waking_are_not_woken() -> None:
    assert decided([replace(A, power="falling"), replace(B, power="waking")], [Use(1000, ALL)]).wake == ()


def test_so_many_idle_nodes_are_kept() -> None:
    assert decided([A, B, C], keep=[Keep(ALL, 2)]).sleep == ("c",)
    assert decided([A, B, C], keep=[Keep(A.bits, 1)]).sleep == ("c", "b")
    assert decided([A, B, C], [Use(900, A.bits)], [Keep(ALL, 2)]).sleep == ()


def test_nodes_are_woken_to_keep_so_many_idle() -> None:
    assert decided([replace(A, rested=False), *ASLEEP[1:]], [Use(900, A.bits)], [Keep(ALL, 1)]).wake == ("b",)
    assert decided([A, *ASLEEP[1:]], keep=[Keep(ALL, 1)]) == PowerOrders((), (), None)
    assert decided([replace(ASLEEP[0], power="waking"), *ASLEEP[1:]], keep=[Keep(ALL, 1)]).wake == ()
