"""Consumables: the capacity of each block, the jobs that hold amounts of it, and the jobs that ask for some."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from psycopg.sql import SQL, Identifier

from oarpy.model.billing import CORE, GPU, Kind
from oarpy.model.request import Consumption
from oarpy.store.database import Connection

UNITS = ("bytes", "count")
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ConsumableRow:
    """A consumable: blocks are the values of property ``level``; ``unit`` is one of :data:`UNITS`."""

    name: str
    level: str
    unit: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """The amount of a consumable that a block has, and the amount that jobs hold."""

    consumable: str
    block: str
    capacity: int
    held: int


@dataclass(frozen=True, slots=True)
class ConsumableHolding:
    """The amount that a job holds, or held, of one block."""

    consumable: str
    block: str
    amount: int


@dataclass(slots=True)
class HeldAmounts:
    """What a live job holds on each of its blocks, what it keeps of that when it gives way, and what it gave back.

    A job that is suspended when it gives way keeps what suspension does not free.
    """

    held: tuple[Consumption, ...] = ()
    kept: tuple[Consumption, ...] = ()
    given_back: tuple[Consumption, ...] = ()


_CONSUMABLES = "SELECT name, level, unit FROM consumables ORDER BY name"

_CAPACITIES = "SELECT consumable, block, capacity, held FROM consumable_capacities ORDER BY consumable, block"

_LOCKED = """
    SELECT consumable, block, capacity, held FROM consumable_capacities
    WHERE consumable = %s AND block = ANY(%s) ORDER BY block FOR NO KEY UPDATE
"""

# The amount of one consumable that a job holds is the same on each block: its request names one amount.
_HELD = """
    SELECT a.job_id, a.consumable, a.amount, a.held,
           CASE WHEN EXISTS (SELECT FROM queues WHERE manner = 'suspend')
                     OR EXISTS (SELECT FROM projects WHERE manner = 'suspend')
                THEN (a.consumable <> ALL (%(freed)s) OR j.state IN ('Suspended', 'Resuming'))
                     AND EXISTS (SELECT FROM giving_way(j) g WHERE g.manner = 'suspend')
                ELSE false END
    FROM (
        SELECT DISTINCT job_id, consumable, amount, true AS held FROM assigned_amounts WHERE upper_inf(during)
        UNION ALL
        SELECT DISTINCT m.job_id, m.consumable, m.amount, false FROM jobs s JOIN assigned_amounts m USING (job_id)
        WHERE s.state IN ('Suspended', 'Resuming') AND NOT upper_inf(m.during) AND NOT EXISTS (
            SELECT FROM assigned_amounts o
            WHERE (o.job_id, o.consumable) = (m.job_id, m.consumable) AND upper_inf(o.during))
    ) a JOIN jobs j USING (job_id)
    ORDER BY a.job_id, a.consumable
"""

_OF_JOBS = """
    SELECT job_id, consumable, block, amount FROM assigned_amounts WHERE job_id = ANY(%s)
    ORDER BY job_id, consumable, block
"""

_HOLDERS = """
    SELECT job_id FROM assigned_amounts
    WHERE upper_inf(during) AND consumable = %s AND block = ANY(%s) ORDER BY job_id
"""

_LIVE_USER = """
    SELECT min(j.job_id) FROM jobs j
        JOIN moldable_descriptions m USING (submission_id)
        JOIN consumption_descriptions d ON d.moldable_id = m.moldable_id
    WHERE (is_live(j.state) OR j.ended_at IS NOT NULL AND NOT j.accounted) AND d.consumable = %s
"""

_OF_LEVEL = "SELECT name FROM consumables WHERE level = %s ORDER BY name"

_ADD = "INSERT INTO consumables (name, level, unit) VALUES (%s, %s, %s)"
_DELETE = "DELETE FROM consumables WHERE name = %s"

_SET = """
    INSERT INTO consumable_capacities (consumable, block, capacity)
    SELECT %s, block, %s FROM unnest(%s::text[]) AS block ORDER BY block
    ON CONFLICT (consumable, block) DO UPDATE SET capacity = excluded.capacity
"""
_UNSET = "DELETE FROM consumable_capacities WHERE consumable = %s AND block = ANY(%s)"

_BLOCKS_OF = """
    SELECT DISTINCT {level}::text FROM resources WHERE resource_id = ANY(%s) AND {level} IS NOT NULL ORDER BY 1
"""


def consumables(connection: Connection) -> tuple[ConsumableRow, ...]:
    """Return every consumable by name."""
    return tuple(ConsumableRow(*row) for row in connection.execute(_CONSUMABLES))


def weights_of_units(connection: Connection, weights: Mapping[Kind, float]) -> Mapping[Kind, float]:
    """Return the billing units of a core, of a GPU and of each unit of a consumable: settings weight bytes by GiB."""
    if weights.keys() <= {CORE, GPU}:
        return weights
    in_bytes = {row.name for row in consumables(connection) if row.unit == "bytes"}
    return {name: weight / _GIB if name in in_bytes else weight for name, weight in weights.items()}


def capacities(connection: Connection) -> tuple[Capacity, ...]:
    """Return the capacities of all blocks, by consumable and block."""
    return tuple(Capacity(*row) for row in connection.execute(_CAPACITIES))


def locked(connection: Connection, name: str, blocks: Sequence[str]) -> tuple[Capacity, ...]:
    """Return the capacities of these blocks; no other session takes or gives back before the end of the transaction."""
    return tuple(Capacity(*row) for row in connection.execute(_LOCKED, [name, list(blocks)]))


def held(connection: Connection, freed: Sequence[str]) -> dict[int, HeldAmounts]:
    """Return the amounts of live jobs that have any. Suspension frees the consumables ``freed``."""
    jobs: dict[int, HeldAmounts] = defaultdict(HeldAmounts)
    for job, name, amount, holds, keeps in connection.execute(_HELD, {"freed": list(freed)}):
        amounts, consumption = jobs[job], Consumption(name, amount)
        if not holds:
            amounts.given_back += (consumption,)
            continue
        amounts.held += (consumption,)
        if keeps:
            amounts.kept += (consumption,)
    return jobs


def of_jobs(connection: Connection, jobs: Iterable[int]) -> dict[int, tuple[ConsumableHolding, ...]]:
    """Return the amounts that these jobs hold, or held until they ended."""
    by_job: dict[int, list[ConsumableHolding]] = defaultdict(list)
    for job, name, block, amount in connection.execute(_OF_JOBS, [list(jobs)]):
        by_job[job].append(ConsumableHolding(name, block, amount))
    return {job: tuple(holdings) for job, holdings in by_job.items()}


def held_by(connection: Connection, jobs: Iterable[int]) -> dict[int, tuple[Consumption, ...]]:
    """Return the amounts of these jobs on each of their blocks, now or at their end.

    Jobs without amounts are left out.
    """
    return {
        job: tuple(
            Consumption(name, amount)
            for name, amount in {holding.consumable: holding.amount for holding in holdings}.items()
        )
        for job, holdings in of_jobs(connection, jobs).items()
    }


def holders(connection: Connection, name: str, blocks: Sequence[str]) -> tuple[int, ...]:
    """Return the jobs that hold some of a consumable on any of these blocks."""
    return tuple(dict.fromkeys(job for (job,) in connection.execute(_HOLDERS, [name, list(blocks)])))


def live_user(connection: Connection, name: str) -> int | None:
    """Return a job that asks for the consumable, and is live or not yet accounted for; None if there is none."""
    row = connection.execute(_LIVE_USER, [name]).fetchone()
    return None if row is None else row[0]


def of_level(connection: Connection, level: str) -> str | None:
    """Return a consumable that lies in the blocks of this property, None if there is none."""
    row = connection.execute(_OF_LEVEL, [level]).fetchone()
    return None if row is None else str(row[0])


def add(connection: Connection, new: ConsumableRow) -> None:
    """Declare a consumable; no block has any capacity of it yet."""
    connection.execute(_ADD, [new.name, new.level, new.unit])


def delete(connection: Connection, name: str) -> None:
    """Remove a consumable that no job holds, with its capacities."""
    connection.execute(_DELETE, [name])


def set_capacities(connection: Connection, name: str, blocks: Sequence[str], amount: int | None) -> None:
    """Say how much of a consumable each of these blocks has; None for nothing."""
    if amount is None:
        connection.execute(_UNSET, [name, list(blocks)])
    else:
        connection.execute(_SET, [name, amount, list(blocks)])


def blocks_of(connection: Connection, level: str, resources: Sequence[int]) -> tuple[str, ...]:
    """Return the values that these resources have of property ``level``, which exists."""
    query = SQL(_BLOCKS_OF).format(level=Identifier(level))
    return tuple(block for (block,) in connection.execute(query, [list(resources)]))


def by_block(capacities: Iterable[Capacity]) -> dict[str, Mapping[str, int]]:
    """Return capacities by consumable and block."""
    grouped: dict[str, dict[str, int]] = defaultdict(dict)
    for capacity in capacities:
        grouped[capacity.consumable][capacity.block] = capacity.capacity
    return dict(grouped)
