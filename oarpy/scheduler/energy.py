"""Which nodes to wake and which to send to sleep: a pure function of what they do and what the plan has for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from oarpy.scheduler.gantt import Claim

Power = Literal["up", "falling", "asleep", "waking"]


@dataclass(frozen=True, slots=True)
class Waking:
    """Resources that are ``asleep`` count as free, but who is given them at once waits ``seconds`` for their nodes."""

    asleep: int = 0
    seconds: float = 0

    def start(self, claim: Claim, now: float) -> float:
        """Return when a job that is given ``claim`` by a pass at ``now`` can start."""
        return claim.start + self.seconds if claim.start == now and claim.bits & self.asleep else claim.start


@dataclass(frozen=True, slots=True)
class PowerNode:
    """A node and its resources; ``rested`` when it may sleep and has been idle for long enough.

    A node that is ``falling`` was decided to sleep, and its command was not run yet: it cannot be woken before.
    """

    name: str
    bits: int
    power: Power
    rested: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """Resources that a job holds, or will hold, from ``start`` on (seconds)."""

    start: float
    bits: int


@dataclass(frozen=True, slots=True)
class Keep:
    """So many nodes with some of these resources are to be awake and idle."""

    bits: int
    number: int


@dataclass(frozen=True, slots=True)
class PowerOrders:
    """Names of nodes to wake and to send to sleep, and the next instant at which one is to be woken."""

    wake: tuple[str, ...]
    sleep: tuple[str, ...]
    next_wake: float | None


def power_orders(
    nodes: Sequence[PowerNode],
    uses: Sequence[Use],
    keep: Sequence[Keep],
    now: float,
    *,
    wakeup_time: float,
    sleep_time: float,
) -> PowerOrders:
    """Decide at ``now``; nodes that come first are woken first and sent to sleep last.

    ``wakeup_time`` is how many seconds before its use a node is woken; a node sleeps only if nothing uses it within
    ``sleep_time`` seconds.
    """
    wanted = _used_until(uses, now + wakeup_time)
    soon = wanted | _used_until(uses, now + sleep_time)
    wake = [node.name for node in nodes if node.power == "asleep" and node.bits & wanted]
    spare = {node.name: node.bits for node in nodes if node.power in ("up", "waking") and not node.bits & wanted}
    sleep: list[str] = []
    for node in reversed(nodes):
        if node.power != "up" or not node.rested or node.bits & soon:
            continue
        if all(_count(spare, rule) > rule.number for rule in keep if node.bits & rule.bits):
            del spare[node.name]
            sleep.append(node.name)
    for rule in keep:
        for node in nodes:
            if _count(spare, rule) >= rule.number:
                break
            if node.power == "asleep" and node.bits & rule.bits and not node.bits & wanted and node.name not in spare:
                spare[node.name] = node.bits
                wake.append(node.name)
    return PowerOrders(tuple(wake), tuple(sleep), _next_wake(nodes, uses, now, wakeup_time))


def _used_until(uses: Sequence[Use], instant: float) -> int:
    bits = 0
    for use in uses:
        if use.start <= instant:
            bits |= use.bits
    return bits


def _count(spare: dict[str, int], rule: Keep) -> int:
    return sum(1 for bits in spare.values() if bits & rule.bits)


def _next_wake(nodes: Sequence[PowerNode], uses: Sequence[Use], now: float, wakeup_time: float) -> float | None:
    asleep = 0
    for node in nodes:
        if node.power == "asleep":
            asleep |= node.bits
    return min(
        (use.start - wakeup_time for use in uses if use.start > now + wakeup_time and use.bits & asleep), default=None
    )
