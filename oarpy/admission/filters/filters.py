"""Property filters (``oarsub -p``, ``{...}`` in a request, ``oarstat --sql``): one boolean SQL expression over columns.

PostgreSQL's own grammar reads the text, and a list of allowed constructs checks it. The :class:`Filter` that comes out
can be evaluated on a row in Python, or sent to PostgreSQL with every value bound. Allowed are AND, OR, NOT,
comparisons, LIKE, ILIKE, IN, BETWEEN, IS [NOT] NULL, IS [NOT] TRUE/FALSE/UNKNOWN, whole-number arithmetic, column names
and literals. Anything else (functions, subselects, casts of columns, comments, several statements) is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from oarpy.admission.filters.values import Value
from oarpy.model.errors import UsageError

MAXIMUM_LENGTH = 10_000
"""Longest filter accepted, in characters."""

Columns = Collection[str] | Mapping[str, str] | None

_HEAD = "SELECT 1 FROM resources WHERE "


@dataclass(frozen=True, slots=True)
class Filter:
    """A checked condition. ``columns`` are the names it uses; ``sql`` is its text and the values of its ``%s``."""

    text: str
    columns: frozenset[str]
    sql: tuple[str, tuple[Value, ...]]
    _evaluate: Callable[[Mapping[str, object]], Value] = field(repr=False, compare=False)

    def matches(self, row: Mapping[str, object]) -> bool:
        """Tell whether ``row`` satisfies the condition; a missing key is NULL, and unknown is not satisfied.

        Times in a row must carry their time zone.
        """
        return self._evaluate(row) is True


def compile_filter(text: str, columns: Columns = None, now: datetime | None = None) -> Filter:
    """Check ``text`` and return its :class:`Filter`; raise :class:`UsageError` naming the error in it.

    ``columns`` are the names allowed. With a mapping to SQL types, PostgreSQL's type checks apply (``mem = 4`` on a
    text column is refused). With plain names, values compare by what they look like. None allows every name. With
    ``now``, dates may count from there (``start_time > '-1h'``). A filter that is stored must mean the same later, so
    it has no ``now``.

    >>> compile_filter("cpu > 1 and model like 'x%'", ["cpu", "model"]).matches({"cpu": 2, "model": "x1"})
    True
    """
    types = _types(columns)
    if now is not None:
        return _compile(text, types, now)
    return _compiled(text, None if types is None else frozenset(types.items()))


@functools.lru_cache(maxsize=1024)
def _compiled(text: str, types: frozenset[tuple[str, str]] | None) -> Filter:
    return _compile(text, None if types is None else dict(types), None)


def _compile(text: str, types: dict[str, str] | None, now: datetime | None) -> Filter:
    from oarpy.admission.filters.tree import Compiler  # loads pglast, which only filters need

    where = _parse(_checked_text(text))
    compiler = Compiler(types, now)
    try:
        term = compiler.condition(where)
    except UsageError as error:
        raise UsageError(f"filter '{_short(text)}': {error.message}", hint=error.hint) from None
    return Filter(text, frozenset(compiler.used), (term.sql, term.parameters), term.evaluate)


def check_condition(text: str, columns: Columns = None) -> frozenset[str]:
    """Raise :class:`UsageError` unless ``text`` is a filter over ``columns``; return the columns it names."""
    return _names(text) if columns is None else compile_filter(text, columns).columns


def join_conditions(*texts: str) -> str:
    """AND filters into one text, leaving empty ones out. Each is checked alone first, so none can undo another."""
    kept = [text.strip() for text in texts if text.strip()]
    for text in kept:
        check_condition(text)
    return kept[0] if len(kept) == 1 else " AND ".join(f"({text})" for text in kept)


def holds_condition(text: str, condition: str) -> bool:
    """Tell whether :func:`join_conditions` has put ``condition`` into ``text`` already.

    Only its own form counts, with both sides of each AND valid alone: a text that merely contains the words does not.
    """
    while text != condition:
        head, joint, last = text.rpartition(") AND (")
        if not (joint and head.startswith("(") and last.endswith(")")):
            return False
        text, last = head[1:], last[:-1]
        try:
            check_condition(text)
            check_condition(last)
        except UsageError:
            return False
        if last == condition:
            return True
    return True


@functools.lru_cache(maxsize=4096)
def _names(text: str) -> frozenset[str]:
    return compile_filter(text).columns


def _short(text: str) -> str:
    """Return as much of a filter as an error shows."""
    return text if len(text) <= 60 else text[:60] + "..."


def _types(columns: Columns) -> dict[str, str] | None:
    """Return the SQL type of each column, an empty text where it is not known; None for any column."""
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        return dict(cast("Mapping[str, str]", columns))
    return dict.fromkeys(columns, "")


def _checked_text(text: str) -> str:
    """Return ``text``. Raises :class:`UsageError` if it is empty, too long or no text."""
    if not text.strip():
        raise UsageError("empty filter", hint="write a condition such as cpu = 2, or leave it out")
    if len(text) > MAXIMUM_LENGTH:
        raise UsageError(f"filter of {len(text)} characters", hint=f"at most {MAXIMUM_LENGTH}")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError("filter with bytes that are not text", hint="use UTF-8 without NUL")
    return text


def _parse(text: str) -> Any:
    """Return the parse tree of the WHERE clause that consists of exactly ``text``."""
    from pglast import parser

    try:
        tokens = {token.name for token in parser.scan(_HEAD + text)}
        statements = parser.parse_sql(_HEAD + text)
    except parser.ParseError as error:
        raise UsageError(f"filter '{_short(text)}': {error.args[0]}", hint=_syntax_hint(text)) from None
    except RecursionError:
        raise UsageError(f"filter '{_short(text)}' is nested too deeply") from None
    if tokens & {"SQL_COMMENT", "C_COMMENT"}:
        raise UsageError(f"filter '{_short(text)}' holds a comment", hint="remove it")
    statement: Any = statements[0].stmt
    if len(statements) > 1 or "ASCII_59" in tokens or type(statement).__name__ != "SelectStmt":
        raise UsageError(f"filter '{_short(text)}' is more than one condition", hint="remove what follows ';'")
    for part, name in _FORBIDDEN_CLAUSES.items():
        if getattr(statement, part):
            raise UsageError(f"filter '{_short(text)}': {name} is not allowed", hint="a filter is one condition")
    return statement.whereClause


_FORBIDDEN_CLAUSES = {
    "larg": "UNION, INTERSECT or EXCEPT",
    "groupClause": "GROUP BY",
    "havingClause": "HAVING",
    "windowClause": "WINDOW",
    "sortClause": "ORDER BY",
    "limitCount": "LIMIT",
    "limitOffset": "OFFSET",
    "lockingClause": "FOR UPDATE",
    "intoClause": "INTO",
    "withClause": "WITH",
    "valuesLists": "VALUES",
}


def _syntax_hint(text: str) -> str:
    if text.count("'") % 2:
        return "a quote is missing"
    return "for example cpu > 2 AND host = 'n1'"
