"""What is known of jobs of every kind, for what views of the database should show of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias

import pytest
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from tests.harness.every_kind import CORES, NODES, EveryKind, Life

Row: TypeAlias = "dict[str, Any]"
COMPUTING = len(NODES) * CORES
"""Resources up to this number compute; the others are licences."""

UNREAD = ("month", "due_at")
"""Columns of records that may be infinity, which Python has no date for."""


@dataclass
class Told:
    """What is known of the world, for the expectations."""

    world: EveryKind
    now: float

    @cached_property
    def lives(self) -> list[Life]:
        """All jobs."""
        return self.world.lives

    @cached_property
    def live_tables(self) -> list[Life]:
        """Those that are not in the past."""
        return [life for life in self.lives if not life.filed]

    def records(self, table: str, schema: str = "oar_all") -> list[Row]:
        """The rows of a table, the past among them, without what the test does not ask for."""
        found = self.world.connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE (table_schema, table_name) = (%s, %s)",
            [schema, table],
        )
        columns = SQL(", ").join(Identifier(name) for (name,) in found if name not in UNREAD)
        statement = SQL("SELECT {} FROM {}").format(columns, Identifier(schema, table))
        with self.world.connection.cursor(row_factory=dict_row) as cursor:
            return [plain(row) for row in cursor.execute(statement).fetchall()]

    @cached_property
    def by_job(self) -> dict[int, Row]:
        """The record of each job."""
        return {row["job_id"]: row for row in self.records("jobs")}


def plain(row: Row) -> Row:
    """Write instants as epoch seconds, exact numbers as floats."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    return float(value) if isinstance(value, Decimal) else value


def near(value: float | None, within: float = 1.01) -> Any:
    """A number of which parts of a second do not matter."""
    return None if value is None else pytest.approx(value, abs=within)


def text(value: object) -> str:
    """What rows are ordered by."""
    return f"{value:>20}" if isinstance(value, int) else str(value)


# What is computed of a life


def computing(life: Life) -> list[int]:
    """Its resources that compute."""
    return [one for one in life.holds if one <= COMPUTING]


def node(resource: int) -> str | None:
    """The node of a resource."""
    return NODES[(resource - 1) // CORES] if resource <= COMPUTING else None


def nodes(life: Life) -> list[str]:
    """Its nodes."""
    return sorted({name for name in map(node, life.holds) if name})


def ran(life: Life, now: float) -> float | None:
    """For how many seconds it ran, standing still or not."""
    return None if life.started is None else (life.ended or now) - life.started


def still(life: Life, now: float) -> float:
    """For how many seconds it stood still."""
    return life.still + (now - life.still_since if life.still_since else 0)


def used(life: Life, now: float) -> float:
    """Resource-seconds that it had while it ran."""
    if life.started is None:
        return 0
    return sum(
        max((end or now) - max(begin, life.started), 0)
        for resource in computing(life)
        for begin, end in life.holds[resource]
    )


def asked(life: Life, now: float) -> float:
    """Resource-seconds that it asked for: what came later counts while it was held."""
    if life.walltime is None:
        return 0
    first = [one for one in computing(life) if one not in life.came_later]
    later = [stretch for one in life.came_later for stretch in life.holds[one]]
    return len(first) * life.walltime + sum((end or now) - begin for begin, end in later)


def day(moment: float) -> date:
    """The day of an instant."""
    return datetime.fromtimestamp(moment, UTC).date()


def epoch(value: float | None) -> Any:
    """An instant as OAR writes it."""
    return 0 if value is None else near(value)


def yes(value: object) -> str:
    """A truth as OAR writes it."""
    return "YES" if value else "NO"
