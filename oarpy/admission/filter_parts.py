"""The conditions that a filter joins with AND, each as a filter of its own."""

from __future__ import annotations

from typing import Any

from oarpy.admission.filters import check_condition


def conjuncts(text: str) -> tuple[str, ...]:
    """Return the parts of a filter that must all hold, ANDs inside ANDs taken apart; the filter alone if it has none.

    Raises :class:`oarpy.model.errors.UsageError` for what is not a filter.

    >>> conjuncts("(gpu = 1) AND (mem > 4 AND host LIKE 'n%')")
    ('gpu = 1', 'mem > 4', "host LIKE 'n%'")
    """
    from pglast import ast, enums, parser
    from pglast.stream import RawStream

    check_condition(text)
    statement: Any = parser.parse_sql(f"SELECT 1 WHERE {text}")[0].stmt
    pending: list[Any] = [statement.whereClause]
    parts = []
    while pending:
        node: Any = pending.pop()
        if type(node) is ast.BoolExpr and node.boolop == enums.BoolExprType.AND_EXPR:
            pending += reversed(node.args or ())
        else:
            parts.append(RawStream()(node))
    return tuple(parts) if len(parts) > 1 else (text,)
