"""Views that read ``oar_all`` or are in ``oar_compat``, put away while revisions change tables, and made again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Identifier, Literal

from oarpy.model.errors import OarpyError
from oarpy.store.database import Connection
from oarpy.store.past import structure


@dataclass(frozen=True, slots=True)
class StoredView:
    """A view with its text, its comments by column (empty: its own), owner, options, and who may read it.

    Options are as in ``WITH (...)``. Readers have the column that they may read, empty for all of them.
    """

    schema: str
    name: str
    text: str
    comments: dict[str, str]
    owner: str
    options: str
    readers: tuple[tuple[str, str], ...]

    def reads_past(self) -> bool:
        """Tell whether it is one of the views of both, or reads one."""
        return self.schema == "oar_all" or "oar_all." in self.text

    def reads(self, tables: Iterable[str]) -> bool:
        """Tell whether it is the view of live and past rows of one of these tables, or reads one."""
        if self.schema == "oar_all":
            return self.name in tables
        return any(re.search(rf"\boar_all\.{table}\b", self.text) for table in tables)

    def identifier(self) -> Identifier:
        """Return its name as SQL."""
        return Identifier(self.schema, self.name)


# Those of oar_all and oar_compat, depth 0, then what reads them, and what reads that.
_VIEWS = """
    WITH RECURSIVE found (oid, depth) AS (
        SELECT c.oid, 0 FROM pg_class c
        WHERE c.relnamespace IN (to_regnamespace('oar_all'), to_regnamespace('oar_compat'))
        UNION
        SELECT r.ev_class, f.depth + 1
        FROM found f JOIN pg_depend d ON d.refobjid = f.oid AND d.refclassid = 'pg_class'::regclass
            JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
        WHERE r.ev_class <> f.oid
    )
    SELECT CASE WHEN c.relkind <> 'v' THEN pg_describe_object('pg_class'::regclass, c.oid, 0) END,
           n.nspname, c.relname, pg_get_viewdef(c.oid), coalesce((
               SELECT jsonb_object_agg(coalesce(a.attname, ''), d.description)
               FROM pg_description d LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid
                   AND d.objsubid > 0
               WHERE d.objoid = c.oid AND d.classoid = 'pg_class'::regclass), '{}'),
           pg_get_userbyid(c.relowner), coalesce(array_to_string(c.reloptions, ', '), ''), coalesce((
               SELECT jsonb_agg(DISTINCT jsonb_build_array(
                   CASE g.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(g.grantee) END, r.attname))
               FROM (SELECT '' AS attname, c.relacl AS acl UNION ALL
                     SELECT attname, attacl FROM pg_attribute WHERE attrelid = c.oid AND NOT attisdropped) r,
                   aclexplode(r.acl) g
               WHERE g.privilege_type = 'SELECT' AND g.grantee <> c.relowner), '[]')
    FROM (SELECT oid, max(depth) AS depth FROM found GROUP BY oid) f JOIN pg_class c USING (oid)
        JOIN pg_namespace n ON n.oid = c.relnamespace
    ORDER BY f.depth, c.oid
"""
_COLUMNS = """
    SELECT a.attname FROM pg_attribute a
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""
_DESCRIBED = """
    SELECT coalesce(a.attname, '')
    FROM pg_description d LEFT JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0
    WHERE d.objoid = to_regclass(%s) AND d.classoid = 'pg_class'::regclass
"""
ANEW = "drop it, upgrade, make it again"
"""What to do with what stands in the way of a change of tables."""

_GONE = "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(format('public.%%I', name)) IS NULL"


class DependentViews:
    """Remembers what it put away, the newest text of each view."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stored: dict[tuple[str, str], StoredView] = {}

    def put_away(self) -> None:
        """Drop the views of ``oar_all`` and those that read them. Raises when something else depends on one."""
        rows = self._connection.execute(_VIEWS).fetchall()
        for other in filter(None, (row[0] for row in rows)):
            raise OarpyError(f"{other} depends on views that must be made anew", hint=ANEW)
        views = [
            StoredView(schema, name, text, comments, owner, options, tuple((role, column) for role, column in readers))
            for _, schema, name, text, comments, owner, options, readers in rows
        ]
        for view in reversed(views):
            with _permitted(view):
                self._connection.execute(SQL("DROP VIEW {}").format(view.identifier()))
        # what is put away since before is not there now, so nothing of this reads it
        there = {(view.schema, view.name): self._as_before(view) for view in views}
        self._stored = there | {key: view for key, view in self._stored.items() if key not in there}

    def _as_before(self, view: StoredView) -> StoredView:
        """Give a view that a revision has made anew the owner, options and readers of the one before it."""
        former = self._stored.get((view.schema, view.name), view)
        readers = tuple(dict.fromkeys((*former.readers, *view.readers)))
        return replace(view, owner=former.owner, options=former.options, readers=readers)

    def put_back(self) -> None:
        """Make them again, if what they read is still there; one that a revision has made meanwhile stays as it is."""
        has_past = bool(self._connection.execute("SELECT FROM pg_namespace WHERE nspname = 'oar_past'").fetchall())
        if has_past:
            structure.follow(self._connection)
        gone = self._gone()
        for view in self._stored.values():
            if not self._columns(view) and not view.reads(gone) and (has_past or not view.reads_past()):
                text = SQL(view.text)
                self._connection.execute(SQL("CREATE VIEW {} AS {}").format(view.identifier(), text))
            columns = self._columns(view)
            if columns:
                self._describe(view, columns)
                self._entitle(view, columns)

    def _gone(self) -> list[str]:
        """Return the tables that a revision took away meanwhile."""
        tables = [name for schema, name in self._stored if schema == "oar_all"]
        rows = self._connection.execute(_GONE, [tables])
        return [table for (table,) in rows]

    def _describe(self, view: StoredView, columns: frozenset[str]) -> None:
        """Give a view the comments that it had. A comment that a revision has given it stays."""
        name = view.identifier()
        described = {column for (column,) in self._connection.execute(_DESCRIBED, [name.as_string(self._connection)])}
        for column, comment in view.comments.items():
            if column not in described and column in {"", *columns}:
                what = SQL("VIEW {}").format(name)
                if column:
                    what = SQL("COLUMN {}").format(Identifier(view.schema, view.name, column))
                self._connection.execute(SQL("COMMENT ON {} IS {}").format(what, Literal(comment)))

    def _entitle(self, view: StoredView, columns: frozenset[str]) -> None:
        """Give a view the readers, options and owner that it had."""
        name = view.identifier()
        for reader, column in view.readers:
            if column in {"", *columns}:
                what = SQL("({})").format(Identifier(column)) if column else SQL("")
                who = SQL("PUBLIC") if reader == "public" else Identifier(reader)
                self._connection.execute(SQL("GRANT SELECT {} ON {} TO {}").format(what, name, who))
        if view.options:
            self._connection.execute(SQL("ALTER VIEW {} SET ({})").format(name, SQL(view.options)))
        with _permitted(view):
            self._connection.execute(SQL("ALTER VIEW {} OWNER TO {}").format(name, Identifier(view.owner)))

    def _columns(self, view: StoredView) -> frozenset[str]:
        rows = self._connection.execute(_COLUMNS, [view.identifier().as_string(self._connection)])
        return frozenset(name for (name,) in rows)


@contextmanager
def _permitted(view: StoredView) -> Iterator[None]:
    """Name a view of another role, when this one may not drop it or not give it back."""
    try:
        yield
    except InsufficientPrivilege as error:
        raise OarpyError(
            f"view {view.schema}.{view.name} must be made anew, and belongs to role {view.owner}", hint=ANEW
        ) from error
