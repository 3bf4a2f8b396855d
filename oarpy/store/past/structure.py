"""The schemas ``oar_past`` and ``oar_all``, made from the live tables and brought after them when these change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from psycopg.sql import SQL, Composable, Identifier, Literal

from oarpy.store.database import Connection
from oarpy.store.past import months
from oarpy.store.past.tables import FiledTable, filed_tables

Shape: TypeAlias = "dict[str, ColumnShape]"


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A column: its SQL type, whether it must have a value, and its default as SQL (empty: none)."""

    type: str
    required: bool
    default: str


_COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           CASE WHEN a.attidentity = '' THEN coalesce(pg_get_expr(d.adbin, d.adrelid), '') ELSE '' END
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""

# Columns of the past whose comment differs from the live column's present comment.
_COMMENTS = """
    SELECT l.attname, col_description(l.attrelid, l.attnum)
    FROM pg_attribute l JOIN pg_attribute p ON p.attname = l.attname AND p.attrelid = to_regclass(%s)
    WHERE l.attrelid = to_regclass(%s) AND l.attnum > 0 AND NOT l.attisdropped
      AND col_description(l.attrelid, l.attnum) IS DISTINCT FROM col_description(p.attrelid, p.attnum)
"""

# Indexes by which ended jobs are found. Indexes for live rows are of no use in the past.
_INDEXES = """
    SELECT i.relname, x.indisunique, (
               SELECT array_agg(a.attname::text ORDER BY k.place)
               FROM unnest(x.indkey::smallint[]) WITH ORDINALITY AS k (number, place)
                   JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number)
    FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am m ON m.oid = i.relam
    WHERE x.indrelid = to_regclass(%s) AND m.amname = 'btree' AND x.indexprs IS NULL
      AND (x.indpred IS NULL OR pg_get_expr(x.indpred, x.indrelid) ~ '^\\(\\w+ IS NOT NULL\\)$')
      AND to_regclass('oar_past.' || i.relname) IS NULL
    ORDER BY i.relname
"""

_HAS_PAST = "SELECT WHERE to_regclass('public.past_months') IS NOT NULL"

# The table and its partitions, once a revision has the function.
_UNPROTECTED = """
    SELECT c.relname FROM pg_class c
    WHERE (c.oid = to_regclass(%(past)s)
           OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(%(past)s)))
      AND to_regproc('public.history_stays') IS NOT NULL
      AND NOT EXISTS (SELECT FROM pg_trigger t
                      WHERE t.tgrelid = c.oid AND t.tgname = 'history_stays' AND t.tgenabled IN ('O', 'A'))
    ORDER BY c.oid
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
    followed = [_follow(connection, table) for table in filed_tables(connection)]
    return any(followed)


def lagging(connection: Connection) -> tuple[str, ...]:
    """Return the tables that have no past table, or a past table that does not follow."""
    names = (table.name for table in filed_tables(connection) if not _is_followed(connection, table))
    return tuple(names)


def unprotected(connection: Connection) -> tuple[str, ...]:
    """Return the past tables, and their partitions, whose rows are not protected."""
    return tuple(name for table in filed_tables(connection) for name in _unprotected(connection, table))


def _follow(connection: Connection, table: FiledTable) -> bool:
    if not _shape(connection, "oar_past", table):
        text = SQL("CREATE TABLE {} (month date NOT NULL, LIKE {} {}) PARTITION BY LIST (month)")
        kept = SQL("INCLUDING COMMENTS INCLUDING DEFAULTS")
        connection.execute(text.format(table.past(), table.live(), kept))
        if table.name == "jobs":
            # the planner need not look here for live jobs
            rule = SQL("ALTER TABLE {} ADD CONSTRAINT past_jobs_are_over CHECK (state IN ('Terminated', 'Error'))")
            connection.execute(rule.format(table.past()))
            connection.execute(_EXPECTED_END)
    for name in _unprotected(connection, table):
        months.protect(connection, Identifier("oar_past", name))
    steps = tuple(_steps(connection, table))
    viewed = _shape(connection, "oar_all", table)
    # further columns at its end are all that a view takes
    dropped = bool(viewed) and not _begins(_shape(connection, "public", table), viewed)
    if dropped:
        connection.execute(SQL("DROP VIEW {} CASCADE").format(Identifier("oar_all", table.name)))
    for step in steps:
        connection.execute(SQL("ALTER TABLE {} {}").format(table.past(), step))
    for name, comment in connection.execute(_COMMENTS, [_of("oar_past", table), _of("public", table)]).fetchall():
        column = Identifier("oar_past", table.name, name)
        connection.execute(SQL("COMMENT ON COLUMN {} IS {}").format(column, Literal(comment)))
    for name, unique, columns in connection.execute(_INDEXES, [_of("public", table)]).fetchall():
        _add_index(connection, table, name, columns, unique=unique)
    if dropped or len(viewed) != len(table.columns) + 1:
        _make_view(connection, table)
    return dropped


def _begins(live: Shape, viewed: Shape) -> bool:
    """Tell whether a view has the first columns of the live table as they are, after its own."""
    pairs = [(name, shape.type) for name, shape in viewed.items()][1:]
    return pairs == [(name, shape.type) for name, shape in live.items()][: len(pairs)]


def _add_index(connection: Connection, table: FiledTable, name: str, columns: list[str], *, unique: bool) -> None:
    statement = SQL("CREATE {} INDEX {} ON {} ({})").format(
        SQL("UNIQUE" if unique else ""),
        Identifier(name),
        table.past(),
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


def _steps(connection: Connection, table: FiledTable) -> Iterator[Composable]:
    """Yield the changes that give the table of the past the columns of the live one."""
    live, past = _shape(connection, "public", table), _shape(connection, "oar_past", table)
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


def _is_followed(connection: Connection, table: FiledTable) -> bool:
    columns = ["month", *_shape(connection, "public", table)]
    seen = (list(_shape(connection, schema, table)) for schema in ("oar_past", "oar_all"))
    return all(sorted(existing) == sorted(columns) for existing in seen) and not any(_steps(connection, table))


def _unprotected(connection: Connection, table: FiledTable) -> list[str]:
    """Return the past table and its partitions whose rows anybody may change by mistake."""
    return [name for (name,) in connection.execute(_UNPROTECTED, {"past": _of("oar_past", table)})]


def _shape(connection: Connection, schema: str, table: FiledTable) -> Shape:
    rows = connection.execute(_COLUMNS, [_of(schema, table)])
    return {name: ColumnShape(*rest) for name, *rest in rows}


def _of(schema: str, table: FiledTable) -> str:
    return f'{schema}."{table.name}"'
