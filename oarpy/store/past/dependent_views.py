"""Views that read ``oar_all`` or are in ``oar_compat``, put away while revisions change tables, and made again."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import psycopg
from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Composable, Identifier, Literal

from oarpy.model.errors import OarpyError
from oarpy.store.database import Connection
from oarpy.store.past import structure


@dataclass(frozen=True, slots=True)
class Right:
    """A right of a role on a view, or on one of its columns, and whether the role may pass it on."""

    role: str
    privilege: str
    passed_on: bool
    column: str


@dataclass(frozen=True, slots=True)
class StoredView:
    """A view with its text, its comments by column (empty: its own), owner, options, and the rights of roles on it.

    Options are as in ``WITH (...)``. ``hanging`` has the statements that make its rules, triggers and defaults.
    """

    schema: str
    name: str
    text: str
    comments: dict[str, str]
    owner: str
    options: str
    rights: tuple[Right, ...]
    rules: tuple[str, ...]
    hanging: tuple[str, ...]

    def is_ours(self) -> bool:
        """Tell whether a revision may take it away."""
        return self.schema in _OURS

    def reads_past(self) -> bool:
        """Tell whether the view unites live and past rows, or reads such a view."""
        return self.schema == "oar_all" or "oar_all." in self.text

    def reads(self, tables: Iterable[str]) -> bool:
        """Tell whether the view unites live and past rows of one of these tables, or reads such a view."""
        if self.schema == "oar_all":
            return self.name in tables
        return any(re.search(rf"\boar_all\.{table}\b", self.text) for table in tables)

    def identifier(self) -> Identifier:
        """Return its name as SQL."""
        return Identifier(self.schema, self.name)


_OURS = ("oar_all", "oar_compat", "oar_report")

# The views of oar_all and oar_compat, or the only one asked for, depth 0, then the views that read them, and so on.
_VIEWS = """
    WITH RECURSIVE found (oid, depth) AS (
        SELECT c.oid, 0 FROM pg_class c
        WHERE CASE WHEN %(only)s::text IS NULL
            THEN c.relnamespace IN (to_regnamespace('oar_all'), to_regnamespace('oar_compat'))
            ELSE c.oid = to_regclass(%(only)s) END
        UNION
        SELECT r.ev_class, f.depth + 1
        FROM found f JOIN pg_depend d ON d.refobjid = f.oid AND d.refclassid = 'pg_class'::regclass
            JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
        WHERE r.ev_class <> f.oid AND r.rulename = '_RETURN'
    )
    SELECT CASE WHEN c.relkind <> 'v' THEN pg_describe_object('pg_class'::regclass, c.oid, 0) END, c.oid,
           n.nspname, c.relname, pg_get_viewdef(c.oid), coalesce((
               SELECT jsonb_object_agg(coalesce(a.attname, ''), d.description)
               FROM pg_description d LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid
                   AND d.objsubid > 0
               WHERE d.objoid = c.oid AND d.classoid = 'pg_class'::regclass), '{}'),
           pg_get_userbyid(c.relowner), coalesce(array_to_string(c.reloptions, ', '), '')
    FROM (SELECT oid, max(depth) AS depth FROM found GROUP BY oid) f JOIN pg_class c USING (oid)
        JOIN pg_namespace n ON n.oid = c.relnamespace
    ORDER BY f.depth, c.oid
"""
_RIGHTS = """
    SELECT CASE g.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(g.grantee) END, g.privilege_type,
           bool_or(g.is_grantable), r.attname
    FROM (SELECT '' AS attname, coalesce(relacl, acldefault('r', relowner)) AS acl FROM pg_class WHERE oid = %(view)s
          UNION ALL
          SELECT attname, attacl FROM pg_attribute WHERE attrelid = %(view)s AND NOT attisdropped) r,
        aclexplode(r.acl) g
    GROUP BY g.grantee, g.privilege_type, r.attname ORDER BY 1, 2, 4
"""
_ROLES = """
    SELECT DISTINCT CASE g.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(g.grantee) END
    FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) g WHERE c.oid = to_regclass(%s)
"""
_RULES = "SELECT rulename FROM pg_rewrite WHERE ev_class = %s AND rulename <> '_RETURN'"
# Their comments come after them.
_HANGING = """
    SELECT statement FROM (
        SELECT 1, pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = %(view)s AND rulename <> '_RETURN'
        UNION ALL SELECT 2, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = %(view)s AND NOT tgisinternal
        UNION ALL SELECT 3, format('ALTER VIEW %%s ALTER COLUMN %%I SET DEFAULT %%s', a.attrelid::regclass, a.attname,
                                   pg_get_expr(d.adbin, d.adrelid))
            FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
            WHERE d.adrelid = %(view)s
        UNION ALL SELECT 4, format('COMMENT ON RULE %%I ON %%s IS %%L', r.rulename, r.ev_class::regclass, d.description)
            FROM pg_rewrite r JOIN pg_description d ON d.objoid = r.oid AND d.classoid = 'pg_rewrite'::regclass
            WHERE r.ev_class = %(view)s
        UNION ALL SELECT 5, format('COMMENT ON TRIGGER %%I ON %%s IS %%L', t.tgname, t.tgrelid::regclass, d.description)
            FROM pg_trigger t JOIN pg_description d ON d.objoid = t.oid AND d.classoid = 'pg_trigger'::regclass
            WHERE t.tgrelid = %(view)s
    ) hanging (place, statement) ORDER BY place, statement
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
ANEW = "drop it first, and make it again afterwards"
"""The advice for a view that stands in the way of a change of tables."""

_GONE = "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(format('public.%%I', name)) IS NULL"


class DependentViews:
    """Remembers the views that it put away, the newest text of each."""

    def __init__(self, connection: Connection, only: str | None = None) -> None:
        """Remember the connection; ``only`` names a view in SQL, which alone is put away, with its readers."""
        self._connection = connection
        self._only = only
        self._stored: dict[tuple[str, str], StoredView] = {}

    def put_away(self) -> None:
        """Drop the views of ``oar_all`` and the views that read them.

        Raises when something else depends on one of them.
        """
        rows = self._connection.execute(_VIEWS, {"only": self._only}).fetchall()
        for other in filter(None, (row[0] for row in rows)):
            raise OarpyError(f"{other} depends on views that must be made anew", hint=ANEW)
        views = [self._stored_view(oid, *about) for _, oid, *about in rows]
        for view in views:
            for rule in view.rules:
                with _permitted(view):
                    self._connection.execute(SQL("DROP RULE {} ON {}").format(Identifier(rule), view.identifier()))
        for view in reversed(views):
            with _permitted(view):
                self._connection.execute(SQL("DROP VIEW {}").format(view.identifier()))
        # views that were put away before are not there now, so none of them reads this
        there = {(view.schema, view.name): self._as_before(view) for view in views}
        self._stored = there | {key: view for key, view in self._stored.items() if key not in there}

    def _stored_view(
        self, oid: int, schema: str, name: str, text: str, comments: dict[str, str], owner: str, options: str
    ) -> StoredView:
        rights = tuple(Right(*row) for row in self._connection.execute(_RIGHTS, {"view": oid}).fetchall())
        rules = tuple(rule for (rule,) in self._connection.execute(_RULES, [oid]).fetchall())
        hanging = tuple(statement for (statement,) in self._connection.execute(_HANGING, {"view": oid}).fetchall())
        return StoredView(schema, name, text, comments, owner, options, rights, rules, hanging)

    def _as_before(self, view: StoredView) -> StoredView:
        """Give a view that a revision has made again the owner, options, rights and dependants of the former view."""
        former = self._stored.get((view.schema, view.name))
        if former is None:
            return view
        of_others = (right for right in view.rights if right.role != view.owner)
        rights = tuple(dict.fromkeys((*former.rights, *of_others)))
        hanging = tuple(dict.fromkeys((*former.hanging, *view.hanging)))
        return replace(view, owner=former.owner, options=former.options, rights=rights, hanging=hanging)

    def put_back(self) -> None:
        """Make the views again, if their tables are still there.

        A view that a revision has made meanwhile stays as it is. Raises when a view of the site cannot be made as it
        was.
        """
        has_past = bool(self._connection.execute("SELECT FROM pg_namespace WHERE nspname = 'oar_past'").fetchall())
        if has_past and self._only is None:
            structure.follow(self._connection)
        gone = self._gone()
        for view in self._stored.values():
            if self._columns(view) or (view.is_ours() and (view.reads(gone) or (view.reads_past() and not has_past))):
                continue
            with _as_it_was(view):
                text = SQL(view.text)
                self._connection.execute(SQL("CREATE VIEW {} AS {}").format(view.identifier(), text))
                self._forget_rights(view)
        # a rule may name any of them
        for view in self._stored.values():
            columns = self._columns(view)
            if columns:
                with _as_it_was(view):
                    for statement in view.hanging:
                        self._connection.execute(SQL(statement))
                self._describe(view, columns)
                self._entitle(view, columns)

    def _gone(self) -> list[str]:
        """Return the tables that a revision has dropped meanwhile."""
        tables = [name for schema, name in self._stored if schema == "oar_all"]
        rows = self._connection.execute(_GONE, [tables])
        return [table for (table,) in rows]

    def _describe(self, view: StoredView, columns: frozenset[str]) -> None:
        """Give a view the comments that it had. A comment that a revision has given it stays."""
        name = view.identifier()
        described = {column for (column,) in self._connection.execute(_DESCRIBED, [name.as_string(self._connection)])}
        statements = []
        for column, comment in view.comments.items():
            if column not in described and column in {"", *columns}:
                what = SQL("VIEW {}").format(name)
                if column:
                    what = SQL("COLUMN {}").format(Identifier(view.schema, view.name, column))
                statements.append(SQL("COMMENT ON {} IS {}").format(what, Literal(comment)))
        self._execute_together(statements)

    def _forget_rights(self, view: StoredView) -> None:
        """Revoke the rights that a new view has by default: its owner's, and other roles' by default privileges."""
        roles = self._connection.execute(_ROLES, [view.identifier().as_string(self._connection)]).fetchall()
        revoke = SQL("REVOKE ALL ON {} FROM {}")
        self._execute_together([revoke.format(view.identifier(), _named(role)) for (role,) in roles])

    def _entitle(self, view: StoredView, columns: frozenset[str]) -> None:
        """Give a view the rights, options and owner that it had."""
        name = view.identifier()
        granted: defaultdict[tuple[str, str, bool], list[Composable]] = defaultdict(list)
        for right in view.rights:
            if right.column in {"", *columns}:
                column = SQL(" ({})").format(Identifier(right.column)) if right.column else SQL("")
                granted[right.role, right.column, right.passed_on].append(SQL(right.privilege) + column)
        # one statement for all privileges of a role: each writes the rights of the view anew
        statements: list[Composable] = [
            SQL("GRANT {} ON {} TO {} {}").format(
                SQL(", ").join(privileges), name, _named(role), SQL("WITH GRANT OPTION" if passed_on else "")
            )
            for (role, _, passed_on), privileges in granted.items()
        ]
        if view.options:
            statements.append(SQL("ALTER VIEW {} SET ({})").format(name, SQL(view.options)))
        self._execute_together(statements)
        with _permitted(view):
            self._connection.execute(SQL("ALTER VIEW {} OWNER TO {}").format(name, Identifier(view.owner)))

    def _execute_together(self, statements: Sequence[Composable]) -> None:
        """Execute statements in one trip to the server: views have hundreds of rights and comments."""
        if statements:
            self._connection.execute(SQL("; ").join(statements))

    def _columns(self, view: StoredView) -> frozenset[str]:
        rows = self._connection.execute(_COLUMNS, [view.identifier().as_string(self._connection)])
        return frozenset(name for (name,) in rows)


def _named(role: str) -> Composable:
    return SQL("PUBLIC") if role == "public" else Identifier(role)


@contextmanager
def _permitted(view: StoredView) -> Iterator[None]:
    """Turn a missing right into an error that names the view and its owner."""
    try:
        yield
    except InsufficientPrivilege as error:
        raise OarpyError(
            f"view {view.schema}.{view.name} must be made anew, and belongs to role {view.owner}", hint=ANEW
        ) from error


@contextmanager
def _as_it_was(view: StoredView) -> Iterator[None]:
    """Turn an error into one that names a view that does not fit its tables any more, or would lose a dependant."""
    try:
        yield
    except psycopg.ProgrammingError as error:
        reason = str(error).splitlines()[0]
        raise OarpyError(f"view {view.schema}.{view.name} cannot be made again: {reason}", hint=ANEW) from error
