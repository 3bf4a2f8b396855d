"""Views that read ``oar_all`` or are in ``oar_compat``, put away while revisions change tables, and made again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from psycopg.sql import SQL, Identifier, Literal

from oarpy.store.database import Connection
from oarpy.store.past import structure


@dataclass(frozen=True, slots=True)
class StoredView:
    """A view with its text, its comments by column (empty: its own), and who may read it."""

    schema: str
    name: str
    text: str
    comments: dict[str, str]
    readers: tuple[str, ...]

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
    SELECT n.nspname, c.relname, pg_get_viewdef(c.oid), coalesce((
               SELECT jsonb_object_agg(coalesce(a.attname, ''), d.description)
               FROM pg_description d LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid
                   AND d.objsubid > 0
               WHERE d.objoid = c.oid AND d.classoid = 'pg_class'::regclass), '{}'), ARRAY(
               SELECT DISTINCT CASE g.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(g.grantee) END
               FROM aclexplode(c.relacl) g WHERE g.privilege_type = 'SELECT' AND g.grantee <> c.relowner)
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
_GONE = "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(format('public.%%I', name)) IS NULL"


class DependentViews:
    """Remembers what it put away, the newest text of each view."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stored: dict[tuple[str, str], StoredView] = {}

    def put_away(self) -> None:
        """Drop the views of ``oar_all`` and those that read them. Raises when something else depends on one."""
        rows = self._connection.execute(_VIEWS).fetchall()
        views = [
            StoredView(schema, name, text, comments, tuple(readers)) for schema, name, text, comments, readers in rows
        ]
        for view in reversed(views):
            self._connection.execute(SQL("DROP VIEW {}").format(view.identifier()))
        # what is put away since before is not there now, so nothing of this reads it
        there = {(view.schema, view.name): self._with_former_readers(view) for view in views}
        self._stored = there | {key: view for key, view in self._stored.items() if key not in there}

    def _with_former_readers(self, view: StoredView) -> StoredView:
        """Let those read a view that a revision has made anew who could read the one before it."""
        former = self._stored.get((view.schema, view.name), view)
        return replace(view, readers=tuple(dict.fromkeys((*former.readers, *view.readers))))

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
            self._describe(view)

    def _gone(self) -> list[str]:
        """Return the tables that a revision took away meanwhile."""
        tables = [name for schema, name in self._stored if schema == "oar_all"]
        rows = self._connection.execute(_GONE, [tables])
        return [table for (table,) in rows]

    def _describe(self, view: StoredView) -> None:
        """Give a view the comments and readers that it had. A comment that a revision has given it stays."""
        columns = self._columns(view)
        if not columns:
            return
        name = view.identifier()
        described = {column for (column,) in self._connection.execute(_DESCRIBED, [name.as_string(self._connection)])}
        for column, comment in view.comments.items():
            if column not in described and column in {"", *columns}:
                what = SQL("VIEW {}").format(name)
                if column:
                    what = SQL("COLUMN {}").format(Identifier(view.schema, view.name, column))
                self._connection.execute(SQL("COMMENT ON {} IS {}").format(what, Literal(comment)))
        for reader in view.readers:
            who = SQL("PUBLIC") if reader == "public" else Identifier(reader)
            self._connection.execute(SQL("GRANT SELECT ON {} TO {}").format(name, who))

    def _columns(self, view: StoredView) -> frozenset[str]:
        rows = self._connection.execute(_COLUMNS, [view.identifier().as_string(self._connection)])
        return frozenset(name for (name,) in rows)
