"""The tables that hang on a submission, by their foreign keys: these tables have a past."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from psycopg.sql import SQL, Composed, Identifier

from oarpy.store.database import Connection

ROOT = "submissions"


@dataclass(frozen=True, slots=True)
class Link:
    """``column`` of a table names a row of ``parent`` by its ``key``."""

    column: str
    parent: str
    key: str


@dataclass(frozen=True, slots=True)
class FiledTable:
    """A table whose rows go to the past with the rows that they name; the root has no links."""

    name: str
    links: tuple[Link, ...]
    columns: tuple[str, ...]

    def live(self) -> Identifier:
        """Return its name among the live tables."""
        return Identifier("public", self.name)

    def past(self) -> Identifier:
        """Return the name of its past table."""
        return Identifier("oar_past", self.name)

    def column_list(self) -> Composed:
        """Return its columns as SQL."""
        return SQL(", ").join(map(Identifier, self.columns))


# In a key of several columns, the column that names the row by its primary key.
_LINKS = """
    SELECT c.relname, a.attname, p.relname, k.attname
    FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_class p ON p.oid = f.confrelid
        JOIN pg_index i ON i.indrelid = f.confrelid AND i.indisprimary AND i.indnkeyatts = 1
        CROSS JOIN LATERAL unnest(f.conkey, f.confkey) AS pair (own, other)
        JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = pair.own
        JOIN pg_attribute k ON k.attrelid = f.confrelid AND k.attnum = pair.other AND k.attnum = i.indkey[0]
    WHERE f.contype = 'f' AND c.relnamespace = 'public'::regnamespace AND f.conrelid <> f.confrelid
    ORDER BY c.relname, f.conname
"""

_COLUMNS = """
    SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
    GROUP BY c.relname
"""


def filed_tables(connection: Connection) -> tuple[FiledTable, ...]:
    """Return the tables that hang on a submission, with it, every table after the tables that it names."""
    foreign_keys: dict[str, list[Link]] = defaultdict(list)
    for table, column, parent, key in connection.execute(_LINKS):
        foreign_keys[table].append(Link(column, parent, key))
    columns: dict[str, list[str]] = dict(connection.execute(_COLUMNS).fetchall())
    members = _members(foreign_keys)
    links = {name: tuple(link for link in foreign_keys[name] if link.parent in members) for name in members}
    order: list[str] = []
    while waiting := sorted(members.difference(order)):
        order += [name for name in waiting if all(link.parent in order for link in links[name])]
    return tuple(FiledTable(name, links[name], tuple(columns[name])) for name in order)


def _members(links: dict[str, list[Link]]) -> set[str]:
    members = {ROOT}
    while new := {name for name, some in links.items() if members & _parents(some)} - members:
        members |= new
    return members


def _parents(links: Iterable[Link]) -> set[str]:
    return {link.parent for link in links}
