"""SQL queries of rules: one SELECT over the tables that an admin lists, with functions that only compute."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from oarpy.model.errors import UsageError

_COMPUTING = """
    abs age array_agg avg bool_and bool_or btrim cardinality ceil char_length concat count date_part date_trunc
    dense_rank every extract floor isempty lag lead length lower lower_inf ltrim max min mod now percentile_cont
    percentile_disc rank regexp_replace replace round row_number rtrim split_part starts_with stddev string_agg substr
    substring sum timezone to_char to_timestamp trim unnest upper upper_inf variance width_bucket
"""
FUNCTIONS = frozenset(_COMPUTING.split())
"""Functions of PostgreSQL that read nothing but their arguments."""


def check_query(statement: str, tables: Collection[str]) -> None:
    """Raise :class:`UsageError` unless ``statement`` is one SELECT that reads ``tables`` and nothing else."""
    from pglast import parser

    try:
        statements = parser.parse_sql(statement)
    except (parser.ParseError, ValueError, RecursionError) as error:
        raise UsageError(f"the query is not SQL: {error.args[0]}") from None
    if len(statements) != 1 or type(statements[0].stmt).__name__ != "SelectStmt":
        raise UsageError("a rule may ask one SELECT and nothing else", hint="its values are $1, $2")
    for kind, name in _names(statements[0].stmt):
        if kind == "table" and name not in tables:
            listed = ", ".join(sorted(tables)) or "none"
            raise UsageError(f"a rule may not read '{name}'", hint=f"submission.rule_tables: {listed}")
        if kind == "function" and name not in FUNCTIONS:
            raise UsageError(f"a rule may not call {name}()", hint="only functions that compute, such as count")
        if kind == "clause":
            raise UsageError(f"a query of a rule has no {name}", hint="write a subquery, and nothing that locks")


def _names(statement: Any) -> set[tuple[str, str]]:
    """Return the tables, the functions and the refused clauses that a statement names."""
    from pglast.visitors import Visitor

    names = set()

    class Names(Visitor):
        def visit_RangeVar(self, _: Any, node: Any) -> None:
            names.add(("table", f"{node.schemaname}.{node.relname}" if node.schemaname else node.relname))

        def visit_FuncCall(self, _: Any, node: Any) -> None:
            parts = [part.sval for part in node.funcname]
            names.add(("function", ".".join(parts[1:] if parts[0] == "pg_catalog" else parts)))

        def visit_CommonTableExpr(self, *_: Any) -> None:
            names.add(("clause", "WITH"))

        def visit_IntoClause(self, *_: Any) -> None:
            names.add(("clause", "INTO"))

        def visit_LockingClause(self, *_: Any) -> None:
            names.add(("clause", "FOR UPDATE"))

    Names()(statement)
    return names
