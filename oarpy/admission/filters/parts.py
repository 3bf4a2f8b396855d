"""The parts of a filter: the conditions that it joins with AND, and the texts that it compares a column with."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from oarpy.admission.filters.filters import check_condition, join_conditions
from oarpy.model.request import ResourceRequest


def conjuncts(text: str) -> tuple[str, ...]:
    """Return the parts of a filter that must all hold, also of nested ANDs; the filter alone if it has no AND.

    Raises :class:`oarpy.model.errors.UsageError` for an invalid filter.

    >>> conjuncts("(gpu = 1) AND (mem > 4 AND host LIKE 'n%')")
    ('gpu = 1', 'mem > 4', "host LIKE 'n%'")
    """
    from pglast import ast, enums
    from pglast.stream import RawStream

    pending = [_tree(text)]
    parts = []
    while pending:
        node: Any = pending.pop()
        if type(node) is ast.BoolExpr and node.boolop == enums.BoolExprType.AND_EXPR:
            pending += reversed(node.args or ())
        else:
            parts.append(RawStream()(node))
    return tuple(parts) if len(parts) > 1 else (text,)


def parts_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the parts of some filters in the spelling of PostgreSQL, whatever theirs is."""
    return frozenset(part for text in texts if text for part in _plain_conjuncts(text))


def split(text: str, added: Collection[str], typed: str = "") -> tuple[str, str]:
    """Split a filter into its own part and the parts ``added`` to it, to be joined by AND; ``""`` if one is empty.

    The first is spelled as it was ``typed``, if it is the same.

    >>> split("(gpu=1) AND (drain = 'NO')", parts_of(["drain='NO'"]))
    ('gpu = 1', "drain = 'NO'")
    """
    parts = _plain_conjuncts(text) if text else []
    kept = [part for part in parts if part not in added]
    if len(kept) == len(parts):
        return text, ""
    rest = join_conditions(*(part for part in parts if part in added))
    return (typed if typed and _plain_conjuncts(typed) == kept else join_conditions(*kept)), rest


@functools.lru_cache(maxsize=4096)
def without_usual(text: str) -> str:
    """Return a filter without the conditions that the site adds to all: not drained, and of the usual type.

    >>> without_usual("((gpu=1) AND (drain = 'NO')) AND (type = 'default')")
    'gpu = 1'
    """
    parts = _plain_conjuncts(text)
    kept = [part for part in parts if part != "type = 'default'" and check_condition(part) != {"drain"}]
    return text if len(kept) == len(parts) else join_conditions(*kept)


def as_asked(request: ResourceRequest) -> ResourceRequest:
    """Return a request without the conditions that the site adds to all requests."""
    groups = (replace(group, filter=without_usual(group.filter)) if group.filter else group for group in request.groups)
    return replace(request, groups=tuple(groups))


def _plain_conjuncts(text: str) -> list[str]:
    from pglast.stream import RawStream

    return [RawStream()(_tree(part)) for part in conjuncts(text)]


def is_word_of_sql(name: str) -> bool:
    """Tell whether a filter has to put a property of that name in double quotes.

    >>> is_word_of_sql("order"), is_word_of_sql("cluster")
    (True, False)
    """
    from pglast import keywords

    return name in keywords.RESERVED_KEYWORDS or name in keywords.TYPE_FUNC_NAME_KEYWORDS


def compared_with(text: str, column: str) -> tuple[str, ...]:
    """Return the texts that a filter compares ``column`` with, by ``=``, ``<>`` or IN, in no order.

    Raises :class:`oarpy.model.errors.UsageError` for an invalid filter.

    >>> compared_with("state = 'Running' OR NOT (state IN ('Hold') AND project <> 'x')", "state")
    ('Running', 'Hold')
    """
    from pglast import ast

    pending = [_tree(text)]
    texts = []
    while pending:
        node: Any = pending.pop()
        if isinstance(node, ast.BoolExpr):
            pending += reversed(node.args or ())
        elif isinstance(node, ast.BooleanTest):
            pending.append(node.arg)
        elif type(node).__name__ == "A_Expr" and node.name[-1].sval in ("=", "<>"):
            texts += _texts_beside(node, column)
    return tuple(texts)


def _tree(text: str) -> Any:
    """Return a filter as PostgreSQL's own parser reads it."""
    from pglast import parser

    check_condition(text)
    statement: Any = parser.parse_sql(f"SELECT 1 WHERE {text}")[0].stmt
    return statement.whereClause


def _texts_beside(node: Any, column: str) -> list[str]:
    """Return the literals on one side of a comparison with ``column`` on the other."""
    sides = [side if isinstance(side, tuple) else (side,) for side in (node.lexpr, node.rexpr)]
    for side, other in (sides, sides[::-1]):
        if len(side) == 1 and type(side[0]).__name__ == "ColumnRef" and side[0].fields[-1].sval == column:
            return [
                str(item.val.sval)
                for item in other
                if type(item).__name__ == "A_Const" and type(item.val).__name__ == "String"
            ]
    return []
