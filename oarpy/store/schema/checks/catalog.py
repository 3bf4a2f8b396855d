"""PostgreSQL's description of a schema: its tables and views with columns, constraints, indexes and comments."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column as the server describes it; ``default`` is SQL text, empty when there is none."""

    name: str
    type: str
    nullable: bool
    default: str
    comment: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view. ``constraints`` and ``indexes`` are pairs of name and definition, by name."""

    name: str
    comment: str
    columns: tuple[ColumnDescription, ...]
    constraints: tuple[tuple[str, str], ...]
    indexes: tuple[tuple[str, str], ...]


# tables and views of a schema, in the order of their creation
_RELATIONS = """
SELECT c.oid, c.relname, coalesce(obj_description(c.oid, 'pg_class'), '')
FROM pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm') ORDER BY c.oid
"""
# the columns of a table; an identity column shows how it is generated instead of a default
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
       CASE a.attidentity WHEN 'a' THEN 'identity always' WHEN 'd' THEN 'identity'
            ELSE coalesce(pg_get_expr(d.adbin, d.adrelid), '') END,
       coalesce(col_description(a.attrelid, a.attnum), '')
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
# constraints; PostgreSQL 18 lists NOT NULL among them, older servers do not (the columns tell it)
_CONSTRAINTS = """
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = %s AND contype IN ('c', 'f', 'p', 'u', 'x') ORDER BY conname
"""
# indexes, including indexes of constraints
_INDEXES = """
SELECT i.relname, pg_get_indexdef(x.indexrelid) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
WHERE x.indrelid = %s ORDER BY i.relname
"""


def describe(connection: Connection, schema: str = "public") -> tuple[Relation, ...]:
    """Return the tables and views of ``schema``, oldest first, without Alembic's own table."""
    return tuple(
        Relation(
            name,
            comment,
            tuple(ColumnDescription(*row) for row in connection.execute(_COLUMNS, [oid])),
            tuple((row[0], row[1]) for row in connection.execute(_CONSTRAINTS, [oid])),
            tuple((row[0], row[1]) for row in connection.execute(_INDEXES, [oid])),
        )
        for oid, name, comment in connection.execute(_RELATIONS, [schema]).fetchall()
        if name != "alembic_version"
    )
