"""Sleeping nodes in a pass: jobs wait until their nodes are awake; nodes are woken, or sent to sleep.

The choice is a pure function of the nodes' present use and the plan. The time until the next use of a node decides::

    now              + wakeup_time              + sleep_time
     |-- wakes if asleep --|                         |
     |-- stays awake if up --------------------------|-- may sleep
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from oarpy.model.reasons import Reason, Why
from oarpy.scheduler.gantt.gantt import Claim, bits_held
from oarpy.scheduler.plan import Placement, Plan
from oarpy.scheduler.resources.platform import NETWORK_ADDRESS
from oarpy.scheduler.snapshot import Outage, Power, Snapshot
from oarpy.scheduler.verdicts import Verdict

ASLEEP = Reason(Why.ASLEEP)
"""Why a job does not start on nodes that count as free."""


@dataclass(frozen=True, slots=True)
class Waking:
    """Resources ``asleep`` count as free, but a job that gets them at once waits ``seconds`` for their nodes."""

    asleep: int = 0
    seconds: float = 0

    def start(self, claim: Claim, now: float) -> float:
        """Return when a job that is given ``claim`` by a pass at ``now`` can start."""
        return claim.start + self.seconds if claim.start == now and claim.bits & self.asleep else claim.start


@dataclass(frozen=True, slots=True)
class PowerNode:
    """A node and its resources; ``rested`` when it may sleep and has been idle for long enough."""

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
    """A rule to keep ``number`` nodes with some of these resources awake and idle."""

    bits: int
    number: int


@dataclass(frozen=True, slots=True)
class PowerOrders:
    """Names of nodes to wake and to send to sleep, and the next instant at which a node must be woken."""

    wake: tuple[str, ...] = ()
    sleep: tuple[str, ...] = ()
    next_wake: float | None = None


def waking_of(snapshot: Snapshot) -> Waking:
    """Return the sleeping resources, and the time to wake them."""
    power = snapshot.rules.power
    return Waking(snapshot.asleep, power.wakeup_time if power else 0)


def while_waking(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot in which nobody gets sleeping nodes before they are awake: others may be free sooner.

    A new reservation for sooner than that may get them nevertheless. Its pass goes by :func:`once_awake` alone.
    """
    waking = waking_of(snapshot)
    if not waking.asleep or not waking.seconds:
        return snapshot
    awake = snapshot.now + waking.seconds
    if any(job.reservation is not None and job.reservation < awake for job in snapshot.waiting):
        return snapshot
    wakes = Outage(snapshot.now, waking.asleep, awake, "nodes that it needs are asleep")
    return replace(snapshot, outages=(*snapshot.outages, wakes))


def once_awake(plan: Plan, snapshot: Snapshot) -> Plan:
    """Let jobs that would start on sleeping nodes wait for them; a reservation is accepted, and waits on its date."""
    if not snapshot.asleep:
        return plan
    waking = waking_of(snapshot)
    reservations = {job.id for job in snapshot.waiting if job.reservation is not None}
    placements = (_awaiting(it, waking, snapshot.now, it.job in reservations) for it in plan.placements)
    return replace(plan, placements=tuple(placements))


def _awaiting(placement: Placement, waking: Waking, now: float, reserved: bool) -> Placement:
    """Return the placement, put off until its nodes are awake if it would start on sleeping nodes."""
    if not placement.bits & waking.asleep:
        return placement
    if not reserved and placement.start == now + waking.seconds:
        return replace(placement, verdict=Verdict.RESOURCES_DOWN, reason=ASLEEP)
    if placement.verdict is not Verdict.STARTS:
        return placement
    if reserved:
        return replace(placement, verdict=Verdict.RESERVED)
    assert placement.start is not None
    assert placement.end is not None
    return replace(
        placement,
        verdict=Verdict.RESOURCES_DOWN,
        reason=ASLEEP,
        start=placement.start + waking.seconds,
        end=placement.end + waking.seconds,
    )


def power_for(snapshot: Snapshot, plan: Plan) -> PowerOrders:
    """Decide about the nodes of ``snapshot``, given where jobs that wait are placed."""
    rules, platform = snapshot.rules.power, snapshot.platform
    if rules is None:
        return PowerOrders()
    uses = [*_holds(snapshot)]
    uses += [Use(placement.start, placement.bits) for placement in plan.placements if placement.start is not None]
    keep = [Keep(snapshot.filters.get(text, platform.default_type), number) for text, number in rules.keep]
    return power_orders(
        _nodes(snapshot), uses, keep, snapshot.now, wakeup_time=rules.wakeup_time, sleep_time=rules.sleep_time
    )


def idle_nodes(snapshot: Snapshot) -> list[str]:
    """Return the nodes that are wholly awake and that no job holds: these may count as ``rested``."""
    busy = _used_until(_holds(snapshot), snapshot.now)
    return [node.name for node in _nodes(snapshot) if node.power == "up" and not node.bits & busy]


def _holds(snapshot: Snapshot) -> Iterable[Use]:
    """Yield the uses of resources that jobs hold, or gave back and will want again."""
    return (Use(job.start, bits_held(snapshot.platform, job) | job.given_back) for job in snapshot.holding)


def _nodes(snapshot: Snapshot) -> list[PowerNode]:
    """Return the nodes that are wholly awake, and the sleeping nodes."""
    platform, nodes = snapshot.platform, []
    for block in platform.blocks(NETWORK_ADDRESS):
        bits, name = block.bits & platform.not_dead, str(block.value)
        if bits & snapshot.asleep:
            nodes.append(PowerNode(name, bits, snapshot.power.get(name, "asleep")))
        elif bits and not bits & ~platform.alive:
            nodes.append(PowerNode(name, bits, "up", name in snapshot.rested))
    return nodes


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


def _used_until(uses: Iterable[Use], instant: float) -> int:
    """Return the resources whose use begins by ``instant``."""
    bits = 0
    for use in uses:
        if use.start <= instant:
            bits |= use.bits
    return bits


def _count(spare: dict[str, int], rule: Keep) -> int:
    """Count the spare nodes that serve a rule of nodes to keep awake."""
    return sum(1 for bits in spare.values() if bits & rule.bits)


def _next_wake(nodes: Sequence[PowerNode], uses: Sequence[Use], now: float, wakeup_time: float) -> float | None:
    """Return when the next sleeping node has to be woken, None when none is wanted."""
    asleep = 0
    for node in nodes:
        if node.power == "asleep":
            asleep |= node.bits
    return min(
        (use.start - wakeup_time for use in uses if use.start > now + wakeup_time and use.bits & asleep), default=None
    )
