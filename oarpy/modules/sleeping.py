"""What sleeping nodes change in a scheduling pass: jobs wait until theirs are awake; nodes are woken, or sleep."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from oarpy.configuration import Energy
from oarpy.modules.snapshot_reader import Reading
from oarpy.scheduler.energy import Keep, Power, PowerNode, PowerOrders, Use, power_orders
from oarpy.scheduler.plan import Placement, Plan
from oarpy.scheduler.platform import NETWORK_ADDRESS
from oarpy.scheduler.verdicts import Verdict
from oarpy.store import notifications, power
from oarpy.store.database import Connection

ASLEEP = "its nodes are asleep and have to wake first"
"""Why a job does not start on nodes that count as free."""


def once_awake(result: Plan, asleep: int, reservations: Container[int], wakeup_time: float) -> Plan:
    """Let jobs that would start on nodes that are ``asleep`` wait for them.

    One of the ``reservations`` is accepted, and waits on its date.
    """
    if not asleep:
        return result
    placements = (_awaiting(one, asleep, one.job in reservations, wakeup_time) for one in result.placements)
    return replace(result, placements=tuple(placements))


def _awaiting(placement: Placement, asleep: int, reserved: bool, wakeup_time: float) -> Placement:
    if placement.verdict is not Verdict.STARTS or not placement.bits & asleep:
        return placement
    if reserved:
        return replace(placement, verdict=Verdict.RESERVED)
    assert placement.start is not None
    assert placement.end is not None
    return replace(
        placement,
        verdict=Verdict.RESOURCES_DOWN,
        reason=ASLEEP,
        start=placement.start + wakeup_time,
        end=placement.end + wakeup_time,
    )


def order_power(
    connection: Connection, reading: Reading, result: Plan, settings: Energy, keep: Sequence[Keep]
) -> PowerOrders:
    """Decide for ``result``, have it done by the module for energy, and return what was decided."""
    now, platform = reading.snapshot.now, reading.snapshot.platform
    uses = [Use(job.start, platform.bits_of(job.resources) | job.given_back) for job in reading.snapshot.holding]
    uses += [Use(one.start, one.bits) for one in result.placements if one.start is not None]
    asked = {row.node: row for row in power.asked(connection)}
    nodes = _nodes(reading, asked)
    busy = 0
    for use in uses:
        if use.start <= now:
            busy |= use.bits
    idle = [node.name for node in nodes if node.power == "up" and not node.bits & busy]
    rested = power.rested(connection, idle, settings.idle_time)
    orders = power_orders(
        [replace(node, rested=node.name in rested) for node in nodes],
        uses,
        keep,
        now,
        wakeup_time=settings.wakeup_time,
        sleep_time=settings.sleep_time,
    )
    power.ask_sleep(connection, orders.sleep)
    power.ask_wake(connection, orders.wake)
    if orders.sleep or orders.wake:
        notifications.tell(connection, "energy")
    return orders


def _nodes(reading: Reading, asked: Mapping[str, power.PowerRow]) -> list[PowerNode]:
    """Return the nodes that are wholly awake, and those that sleep."""
    platform = reading.snapshot.platform
    found = []
    for block in platform.blocks(NETWORK_ADDRESS):
        bits, name = block.bits & platform.not_dead, str(block.value)
        if bits & reading.asleep:
            found.append(PowerNode(name, bits, _power(asked.get(name))))
        elif bits and not bits & ~platform.alive:
            found.append(PowerNode(name, bits, "up"))
    return found


def _power(row: power.PowerRow | None) -> Power:
    if row is None or (row.asked == "sleep" and row.sent):
        return "asleep"
    return "waking" if row.asked == "wake" else "falling"
