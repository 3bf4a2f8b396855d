"""The schemas ``oar_past`` and ``oar_all``, made from the live tables and brought after them when these change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from psycopg.sql import SQL, Composable, Identifier, Literal

from oarpy.store.database import Connection
from oarpy.store.past import months
from oarpy.store.past.tables import FiledTable, filed_tables

Shape: TypeAlias = "dict[str, ColumnShape]"
"""The columns of a table by name, in their order."""

Shapes: TypeAlias = "dict[str, Shape]"
"""Those of several tables, by their names."""


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A column: its SQL type, whether it must have a value, and its default as SQL (empty: none)."""

    type: str
    required: bool
    default: str


_COLUMNS = """
    SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           CASE WHEN a.attidentity = '' THEN coalesce(pg_get_expr(d.adbin, d.adrelid), '') ELSE '' END
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relnamespace = to_regnamespace(%s) AND c.relname = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attrelid, a.attnum
"""

# Columns of the past whose comment differs from the live column's present comment.
_COMMENTS = """
    SELECT c.relname, l.attname, col_description(l.attrelid, l.attnum)
    FROM pg_class c JOIN pg_class o ON o.relname = c.relname AND o.relnamespace = 'oar_past'::regnamespace
        JOIN pg_attribute l ON l.attrelid = c.oid
        JOIN pg_attribute p ON p.attrelid = o.oid AND p.attname = l.attname
    WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY(%s) AND l.attnum > 0 AND NOT l.attisdropped
      AND col_description(l.attrelid, l.attnum) IS DISTINCT FROM col_description(p.attrelid, p.attnum)
"""

# Indexes by which ended jobs are found. Indexes for live rows are of no use in the past.
_INDEXES = """
    SELECT c.relname, i.relname, x.indisunique, (
               SELECT array_agg(a.attname::text ORDER BY k.place)
               FROM unnest(x.indkey::smallint[]) WITH ORDINALITY AS k (number, place)
                   JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number)
    FROM pg_class c JOIN pg_index x ON x.indrelid = c.oid
        JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am m ON m.oid = i.relam
    WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY(%s) AND m.amname = 'btree' AND x.indexprs IS NULL
      AND (x.indpred IS NULL OR pg_get_expr(x.indpred, x.indrelid) ~ '^\\(\\w+ IS NOT NULL\\)$')
      AND to_regclass('oar_past.' || i.relname) IS NULL
    ORDER BY c.relname, i.relname
"""

_HAS_PAST = "SELECT WHERE to_regclass('public.past_months') IS NOT NULL"

# The tables and their partitions, once a revision has the function.
_UNPROTECTED = """
    SELECT c.relname
    FROM unnest(%s::text[]) WITH ORDINALITY AS t (name, place)
        CROSS JOIN LATERAL to_regclass(format('oar_past.%%I', t.name)) AS past
        CROSS JOIN LATERAL (SELECT past UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = past) AS r (oid)
        JOIN pg_class c ON c.oid = r.oid
    WHERE to_regproc('public.history_stays') IS NOT NULL
      AND NOT EXISTS (SELECT FROM pg_trigger g
                      WHERE g.tgrelid = c.oid AND g.tgname = 'history_stays' AND g.tgenabled IN ('O', 'A'))
    ORDER BY t.place, c.oid
"""

# For queries of live jobs that are run over the past.
_EXPECTED_END = """
    CREATE OR REPLACE FUNCTION oar_past.expected_end(job oar_past.jobs) RETURNS timestamptz LANGUAGE sql STABLE AS $$
        SELECT job.ended_at
    $$
"""

_SCHEMAS = (
    SQL("CREATE SCHEMA IF NOT EXISTS oar_past"),
    SQL("CREATE SCHEMA IF NOT EXISTS oar_all"),
    SQL("COMMENT ON SCHEMA oar_past IS 'jobs of closed months and what hangs on them, a partition a month'"),
    SQL("COMMENT ON SCHEMA oar_all IS 'tables of jobs, live and past together, for queries'"),
)


def follow(connection: Connection) -> bool:
    """Make the schemas follow the live tables; return whether views had to go that are to be made again.

    A schema that is older than the past has none.
    """
    if not connection.execute(_HAS_PAST).fetchall():
        return False
    for statement in _SCHEMAS:
        connection.execute(statement)
    tables = filed_tables(connection)
    there = _shapes(connection, "oar_past", tables)
    for table in tables:
        if not there[table.name]:
            _make_past(connection, table)
    for name in _unprotected(connection, tables):
        months.protect(connection, Identifier("oar_past", name))
    viewed = _shapes(connection, "oar_all", tables)
    dropped = _follow_columns(connection, tables, viewed)
    names = [table.name for table in tables]
    for name, column, comment in connection.execute(_COMMENTS, [names]).fetchall():
        where = Identifier("oar_past", name, column)
        connection.execute(SQL("COMMENT ON COLUMN {} IS {}").format(where, Literal(comment)))
    for name, index, unique, columns in connection.execute(_INDEXES, [names]).fetchall():
        _add_index(connection, Identifier("oar_past", name), index, columns, unique=unique)
    for table in tables:
        if table.name in dropped or len(viewed[table.name]) != len(table.columns) + 1:
            _make_view(connection, table)
    return bool(dropped)


def lagging(connection: Connection) -> tuple[str, ...]:
    """Return the tables that have no past table, or a past table that does not follow."""
    tables = filed_tables(connection)
    live, past, viewed = (_shapes(connection, schema, tables) for schema in ("public", "oar_past", "oar_all"))
    return tuple(
        name
        for name in (table.name for table in tables)
        if not set(past[name]) == set(viewed[name]) == {"month", *live[name]} or any(_steps(live[name], past[name]))
    )


def unprotected(connection: Connection) -> tuple[str, ...]:
    """Return the past tables, and their partitions, whose rows are not protected."""
    return tuple(_unprotected(connection, filed_tables(connection)))


def _make_past(connection: Connection, table: FiledTable) -> None:
    text = SQL("CREATE TABLE {} (month date NOT NULL, LIKE {} {}) PARTITION BY LIST (month)")
    kept = SQL("INCLUDING COMMENTS INCLUDING DEFAULTS")
    connection.execute(text.format(table.past(), table.live(), kept))
    if table.name == "jobs":
        # the planner need not look here for live jobs
        rule = SQL("ALTER TABLE {} ADD CONSTRAINT past_jobs_are_over CHECK (state IN ('Terminated', 'Error'))")
        connection.execute(rule.format(table.past()))
        connection.execute(_EXPECTED_END)


def _follow_columns(connection: Connection, tables: Sequence[FiledTable], viewed: Shapes) -> set[str]:
    """Give past tables the columns of the live ones; return the tables whose view had to go for that."""
    live, past = (_shapes(connection, schema, tables) for schema in ("public", "oar_past"))
    dropped = set()
    for table in tables:
        # further columns at its end are all that a view takes
        if viewed[table.name] and not _begins(live[table.name], viewed[table.name]):
            connection.execute(SQL("DROP VIEW {} CASCADE").format(Identifier("oar_all", table.name)))
            dropped.add(table.name)
        for step in _steps(live[table.name], past[table.name]):
            connection.execute(SQL("ALTER TABLE {} {}").format(table.past(), step))
    return dropped


def _begins(live: Shape, viewed: Shape) -> bool:
    """Tell whether a view has the first columns of the live table as they are, after its own."""
    pairs = [(name, shape.type) for name, shape in viewed.items()][1:]
    return pairs == [(name, shape.type) for name, shape in live.items()][: len(pairs)]


def _add_index(connection: Connection, past: Identifier, name: str, columns: list[str], *, unique: bool) -> None:
    statement = SQL("CREATE {} INDEX {} ON {} ({})").format(
        SQL("UNIQUE" if unique else ""),
        Identifier(name),
        past,
        # a unique key of a partitioned table has the column that divides it
        SQL(", ").join(map(Identifier, [*columns, "month"] if unique else columns)),
    )
    connection.execute(statement)


def _make_view(connection: Connection, table: FiledTable) -> None:
    view = Identifier("oar_all", table.name)
    text = SQL("""
        CREATE OR REPLACE VIEW {view} AS SELECT 'infinity'::date AS month, {columns} FROM {live}
        UNION ALL SELECT month, {columns} FROM {past}
    """)
    connection.execute(text.format(view=view, columns=table.column_list(), live=table.live(), past=table.past()))
    comment = f"{table.name} with the past; month: where the row is filed, infinity for live tables"
    connection.execute(SQL("COMMENT ON VIEW {} IS {}").format(view, Literal(comment)))


def _steps(live: Shape, past: Shape) -> Iterator[Composable]:
    """Yield the changes that give the table of the past the columns of the live one."""
    for name in past.keys() - live.keys() - {"month"}:
        yield SQL("DROP COLUMN {}").format(Identifier(name))
    for name, shape in live.items():
        column, kind = Identifier(name), SQL(shape.type)
        if name not in past:
            yield SQL("ADD COLUMN {} {}{}").format(column, kind, _filled(shape))
        elif past[name].type != shape.type:
            yield SQL("ALTER COLUMN {0} TYPE {1} USING {0}::{1}").format(column, kind)
        elif past[name].required and not shape.required:
            yield SQL("ALTER COLUMN {} DROP NOT NULL").format(column)


def _filled(shape: ColumnShape) -> Composable:
    """Return the SQL that gives existing rows the default of a new column."""
    if not shape.default:
        return SQL("")
    return SQL(f" DEFAULT {shape.default}{' NOT NULL' if shape.required else ''}")


def _unprotected(connection: Connection, tables: Sequence[FiledTable]) -> list[str]:
    """Return the past tables and their partitions whose rows anybody may change by mistake."""
    return [name for (name,) in connection.execute(_UNPROTECTED, [[table.name for table in tables]])]


def _shapes(connection: Connection, schema: str, tables: Sequence[FiledTable]) -> Shapes:
    """Return the columns of each table, or of its view, in this schema; none where it is not there."""
    shapes: Shapes = {table.name: {} for table in tables}
    for name, column, *rest in connection.execute(_COLUMNS, [schema, list(shapes)]):
        shapes[name][column] = ColumnShape(*rest)
    return shapes
