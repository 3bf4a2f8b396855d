"""From PostgreSQL's parse tree to terms that can be evaluated in Python and written back as SQL with bound values.

A :class:`Compiler` has a method for each kind of node that is allowed; any other kind is refused. Truth is
three-valued, as in SQL: None stands for unknown.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, cast

from pglast.enums import A_Expr_Kind, BoolExprType, BoolTestType, NullTestType

from oarpy.admission.filters.values import (
    COMPARISONS,
    Kind,
    Value,
    as_text,
    calculate,
    compare_values,
    kind_of_type,
    like,
    literal_as,
    read_pattern,
    truth,
)
from oarpy.model.errors import UsageError

MAXIMUM_DEPTH = 100
"""Deepest nesting of operators and parentheses."""

Row = Mapping[str, object]
Evaluate = Callable[[Row], Value]

_NUMERIC = (Kind.INTEGER, Kind.NUMBER)
_OPEN = (Kind.ANY, Kind.NULL)
_BOOLEAN_TESTS = {
    BoolTestType.IS_TRUE: ("TRUE", True, True),
    BoolTestType.IS_NOT_TRUE: ("NOT TRUE", True, False),
    BoolTestType.IS_FALSE: ("FALSE", False, True),
    BoolTestType.IS_NOT_FALSE: ("NOT FALSE", False, False),
    BoolTestType.IS_UNKNOWN: ("UNKNOWN", None, True),
    BoolTestType.IS_NOT_UNKNOWN: ("NOT UNKNOWN", None, False),
}
_NAMES = {
    "SubLink": "a subselect",
    "CaseExpr": "CASE",
    "CollateClause": "COLLATE",
    "ParamRef": "a parameter ($1)",
    "RowExpr": "a row",
    "A_ArrayExpr": "an array",
    "CoalesceExpr": "COALESCE",
    "MinMaxExpr": "GREATEST or LEAST",
    "SQLValueFunction": "a function of the session",
    "A_Indirection": "a subscript",
    "XmlExpr": "XML",
    "CurrentOfExpr": "CURRENT OF",
}


@dataclass(frozen=True, slots=True)
class Term:
    """A checked expression: its kind, its value for a row, and its SQL. ``literal`` holds the value of a constant.

    ``now`` is the instant that the dates of a quoted literal may count from.
    """

    kind: Kind
    evaluate: Evaluate
    sql: str
    parameters: tuple[Value, ...] = ()
    literal: Value = None
    subject: str = ""
    now: datetime | None = None


class Compiler:
    """Checks one tree. ``types`` maps allowed columns to SQL types (``""`` = not known); None allows every name.

    ``now`` is the instant that dates may count from, None if a filter must mean the same later.
    """

    def __init__(self, types: dict[str, str] | None, now: datetime | None = None) -> None:
        self.types = types
        self._now = now
        self.used: set[str] = set()
        self._depth = 0

    def condition(self, node: Any) -> Term:
        """Return the term of a node that stands where a truth value is expected."""
        return _as_condition(self.term(node))

    def term(self, node: Any) -> Term:
        """Return the term of any node; raise :class:`UsageError` for a node that is not allowed."""
        name = type(node).__name__
        handler = _HANDLERS.get(name)
        if name == "SQLValueFunction" and _OWNER in (self.types or ()):
            raise UsageError("'user' is no column", hint=f"did you mean {_OWNER}?")
        if handler is None:
            raise _not_allowed(_NAMES.get(name, f"{name} expression"))
        self._depth += 1
        if self._depth > MAXIMUM_DEPTH:
            raise UsageError("nested too deeply", hint=f"at most {MAXIMUM_DEPTH} levels")
        try:
            return handler(self, node)
        finally:
            self._depth -= 1

    def _boolean(self, node: Any) -> Term:
        """Make a term of AND, OR or NOT."""
        parts = [self.condition(argument) for argument in node.args]
        parameters = tuple(value for part in parts for value in part.parameters)
        tests = tuple(part.evaluate for part in parts)
        if node.boolop == BoolExprType.NOT_EXPR:
            return Term(Kind.BOOLEAN, _negation(tests[0]), f"(NOT {parts[0].sql})", parameters)
        word, stop = (" AND ", False) if node.boolop == BoolExprType.AND_EXPR else (" OR ", True)
        return Term(Kind.BOOLEAN, _chain(tests, stop), f"({word.join(part.sql for part in parts)})", parameters)

    def _column(self, node: Any) -> Term:
        """Make a term of a column; refuse a column that is not allowed."""
        fields = [getattr(part, "sval", None) for part in node.fields]
        if len(fields) != 1 or fields[0] is None:
            raise _not_allowed("'" + ".".join(part or "*" for part in fields) + "'", "name a column alone")
        name: str = fields[0]
        if self.types is not None and name not in self.types:
            raise _unknown_column(name, self.types)
        self.used.add(name)
        declared = (self.types or {}).get(name, "")
        kind, cast_to_text = kind_of_type(declared) if declared else (Kind.ANY, False)
        quoted = '"' + name.replace('"', '""').replace("%", "%%") + '"' + ("::text" if cast_to_text else "")
        return Term(kind, lambda row: cast("Value", row.get(name)), quoted, subject=name)

    def _constant(self, node: Any) -> Term:
        """Make a term of a literal; a quoted literal takes its kind from the other operand."""
        if node.isnull:
            return Term(Kind.NULL, lambda _: None, "NULL")
        form, value = type(node.val).__name__, node.val
        if form == "Integer":
            return _literal(Kind.INTEGER, int(value.ival))
        if form == "Float":
            return _number(str(value.fval))
        if form == "Boolean":
            return _literal(Kind.BOOLEAN, bool(value.boolval))
        if form == "String":
            return replace(_literal(Kind.LITERAL, str(value.sval)), now=self._now)
        raise _not_allowed("a bit string")

    def _cast(self, node: Any) -> Term:
        """Make a term of a typed literal such as ``date '2026-01-31'``; a cast of a column is refused."""
        term = self.term(node.arg)
        names = [part.sval for part in node.typeName.names]
        kind, unknown = kind_of_type(names[-1])
        if term.kind is not Kind.LITERAL or unknown or node.typeName.arrayBounds or node.typeName.typmods:
            raise _not_allowed(f"a cast to {names[-1]}")
        return _coerce(term, kind)

    def _expression(self, node: Any) -> Term:
        """Make a term of an operator expression, by its kind."""
        symbol = node.name[-1].sval
        if len(node.name) > 1:
            raise _not_allowed(f"operator {'.'.join(part.sval for part in node.name)}")
        kind = node.kind
        if kind == A_Expr_Kind.AEXPR_IN:
            return self._membership(node, negated=symbol == "<>")
        if kind in (A_Expr_Kind.AEXPR_BETWEEN, A_Expr_Kind.AEXPR_NOT_BETWEEN):
            return self._between(node, negated=kind == A_Expr_Kind.AEXPR_NOT_BETWEEN)
        if kind in (A_Expr_Kind.AEXPR_LIKE, A_Expr_Kind.AEXPR_ILIKE):
            return self._like(node, symbol)
        if kind != A_Expr_Kind.AEXPR_OP:
            raise _not_allowed(f"{str(kind.name).removeprefix('AEXPR_').replace('_', ' ')} with operator {symbol}")
        if symbol in COMPARISONS and node.lexpr is not None:
            left, right = _matched(self.term(node.lexpr), self.term(node.rexpr))
            return _comparison(symbol, left, right)
        if symbol in ("+", "-", "*", "/", "%"):
            left = self.term(node.lexpr) if node.lexpr is not None else _literal(Kind.INTEGER, 0)
            return _arithmetic(symbol, left, self.term(node.rexpr))
        hint = "write =" if symbol == "==" else "use = <> < <= > >="
        raise UsageError(f"operator {symbol} is not allowed", hint=hint)

    def _membership(self, node: Any, *, negated: bool) -> Term:
        """Make a term of ``IN (...)``."""
        if not isinstance(node.rexpr, tuple):
            raise _not_allowed("IN with a subselect")
        left = self.term(node.lexpr)
        pairs = [_matched(left, self.term(item)) for item in node.rexpr]
        left = pairs[0][0]
        tests = tuple(_equality(first.evaluate, second.evaluate) for first, second in pairs)
        items = ", ".join(item.sql for _, item in pairs)
        sql = f"({left.sql} {'NOT IN' if negated else 'IN'} ({items}))"
        parameters = (*left.parameters, *(value for _, item in pairs for value in item.parameters))
        membership = _constant_membership(left, [item for _, item in pairs]) or _chain(tests, stop=True)
        return Term(Kind.BOOLEAN, _negation(membership) if negated else membership, sql, parameters)

    def _between(self, node: Any, *, negated: bool) -> Term:
        """Make a term of ``BETWEEN``."""
        left = self.term(node.lexpr)
        left_low, low = _matched(left, self.term(node.rexpr[0]))
        left_high, high = _matched(left, self.term(node.rexpr[1]))
        if left_low.kind != left_high.kind:
            raise UsageError("BETWEEN with bounds of two types", hint="write both bounds alike")
        inside = _range(left_low.evaluate, low.evaluate, high.evaluate)
        sql = f"({_ordered(left_low)} {'NOT BETWEEN' if negated else 'BETWEEN'} {low.sql} AND {high.sql})"
        parameters = (*left_low.parameters, *low.parameters, *high.parameters)
        return Term(Kind.BOOLEAN, _negation(inside) if negated else inside, sql, parameters)

    def _like(self, node: Any, symbol: str) -> Term:
        """Make a term of ``LIKE`` or ``ILIKE`` with a quoted pattern."""
        if type(node.rexpr).__name__ == "FuncCall":
            raise _not_allowed("ESCAPE", "write a backslash before % or _")
        left, pattern = self.term(node.lexpr), self.term(node.rexpr)
        if left.kind is Kind.LITERAL:
            left = _coerce(left, Kind.TEXT)
        if left.kind not in (Kind.TEXT, *_OPEN):
            raise UsageError(f"LIKE compares text and {_described(left)} is not text", hint="use = or IN")
        if pattern.kind not in (Kind.LITERAL, Kind.TEXT) or not isinstance(pattern.literal, str):
            raise UsageError("LIKE needs a quoted pattern", hint="for example model LIKE 'x%'")
        negated, folded = symbol.startswith("!"), symbol.endswith("*")
        test = _pattern_test(left.evaluate, pattern.literal, folded=folded)
        word = f"{'NOT ' if negated else ''}{'ILIKE' if folded else 'LIKE'}"
        subject = _ordered(left) if folded else left.sql
        sql = f"({subject} {word} %s::text)"
        return Term(Kind.BOOLEAN, _negation(test) if negated else test, sql, (*left.parameters, pattern.literal))

    def _null_test(self, node: Any) -> Term:
        """Make a term of ``IS [NOT] NULL``."""
        term = self.term(node.arg)
        if term.kind is Kind.LITERAL:
            term = _coerce(term, Kind.TEXT)
        wanted, evaluate = node.nulltesttype == NullTestType.IS_NULL, term.evaluate
        sql = f"({term.sql} IS {'NULL' if wanted else 'NOT NULL'})"
        return Term(Kind.BOOLEAN, lambda row: (evaluate(row) is None) is wanted, sql, term.parameters)

    def _boolean_test(self, node: Any) -> Term:
        """Make a term of ``IS [NOT] TRUE``, ``FALSE`` or ``UNKNOWN``."""
        term = self.condition(node.arg)
        words, value, wanted = _BOOLEAN_TESTS[node.booltesttype]
        evaluate = term.evaluate
        sql = f"({term.sql} IS {words})"
        return Term(Kind.BOOLEAN, lambda row: (evaluate(row) is value) is wanted, sql, term.parameters)

    def _function(self, node: Any) -> Term:
        """Refuse a function by its name."""
        raise _not_allowed(f"function {node.funcname[-1].sval}()")


_HANDLERS: dict[str, Callable[[Compiler, Any], Term]] = {
    "A_Const": Compiler._constant,
    "A_Expr": Compiler._expression,
    "BoolExpr": Compiler._boolean,
    "BooleanTest": Compiler._boolean_test,
    "ColumnRef": Compiler._column,
    "FuncCall": Compiler._function,
    "NullTest": Compiler._null_test,
    "TypeCast": Compiler._cast,
}


_OWNER = "job_user"
"""The column of jobs that people call the owner, or the user."""


def _not_allowed(what: str, hint: str = "use comparisons, AND, OR, NOT, IN, LIKE, BETWEEN, IS NULL") -> UsageError:
    return UsageError(f"{what} is not allowed", hint=hint)


def _unknown_column(name: str, columns: Collection[str]) -> UsageError:
    """Return the error for a name that is no column, with close names or the usual mistake as the hint."""
    close = difflib.get_close_matches(name, columns, n=3, cutoff=0.6)
    close += [_OWNER] if name == "owner" and _OWNER in columns else []
    hint = f"did you mean {' or '.join(close)}?" if close else "text values go in single quotes: host = 'n1'"
    return UsageError(f"unknown property '{name[:60]}'", hint=hint)


def _described(term: Term) -> str:
    """Name a term in an error: by its column if it is one."""
    return f"'{term.subject}' ({term.kind.value})" if term.subject else f"the {term.kind.value}"


def _number(text: str) -> Term:
    """Make a term of a number as it was written: whole, or a decimal fraction."""
    digits = text.replace("_", "")
    if len(digits) > 40:
        raise UsageError(f"number {digits[:20]}... is too long", hint="at most 40 digits")
    try:
        return _literal(Kind.INTEGER, int(digits, 0))
    except ValueError:
        return _literal(Kind.NUMBER, literal_as(digits, Kind.NUMBER))


def _literal(kind: Kind, value: Value) -> Term:
    """Make a term of a value that is bound, so that no text of a user becomes SQL."""
    if isinstance(value, bool):
        return Term(kind, lambda _: value, "TRUE" if value else "FALSE", (), value)
    sql = "%s::text" if kind is Kind.TEXT else "%s::numeric" if isinstance(value, Decimal) else "%s"
    return Term(kind, lambda _: value, sql, (value,), value)


def _coerce(term: Term, kind: Kind) -> Term:
    """Give a quoted literal the kind of the other operand."""
    return _literal(kind, literal_as(str(term.literal), kind, term.now))


def _as_condition(term: Term) -> Term:
    """Return a term as a truth value. Raises :class:`UsageError` if it cannot be one."""
    if term.kind in (Kind.BOOLEAN, Kind.NULL):
        return term
    if term.kind is Kind.LITERAL:
        return _coerce(term, Kind.BOOLEAN)
    if term.kind is Kind.ANY:
        evaluate = term.evaluate
        return Term(Kind.BOOLEAN, lambda row: truth(evaluate(row)), term.sql, term.parameters)
    raise UsageError(f"{_described(term)} is not a condition", hint="compare it: cpu = 2")


def _matched(left: Term, right: Term) -> tuple[Term, Term]:
    """Bring two sides of a comparison to kinds that PostgreSQL compares."""
    if left.kind is Kind.LITERAL and right.kind is Kind.LITERAL:
        return _coerce(left, Kind.TEXT), _coerce(right, Kind.TEXT)
    if left.kind is Kind.LITERAL:
        right, left = _matched(right, left)
        return left, right
    if right.kind is Kind.LITERAL:
        return left, right if left.kind in _OPEN else _coerce(right, left.kind)
    if left.kind == right.kind or left.kind in _OPEN or right.kind in _OPEN:
        return left, right
    if left.kind in _NUMERIC and right.kind in _NUMERIC:
        return left, right
    if left.kind is Kind.INTERVAL and right.kind is Kind.INTEGER and isinstance(right.literal, int):
        return left, _literal(Kind.INTERVAL, _seconds(right.literal))
    if left.kind is Kind.TIMESTAMP and right.kind is Kind.INTEGER and isinstance(right.literal, int):
        return left, _literal(Kind.TIMESTAMP, literal_as(str(right.literal), Kind.TIMESTAMP))
    if right.kind in (Kind.INTERVAL, Kind.TIMESTAMP) and left.kind is Kind.INTEGER:
        right, left = _matched(right, left)
        return left, right
    hint = "put the value in single quotes" if Kind.TEXT in (left.kind, right.kind) else "compare values of one type"
    raise UsageError(f"{_described(left)} cannot be compared with {_described(right)}", hint=hint)


def _seconds(count: int) -> timedelta:
    """Return an interval of whole seconds."""
    try:
        return timedelta(seconds=count)
    except OverflowError:
        raise UsageError(f"{count} seconds is out of range") from None


def _ordered(term: Term) -> str:
    """Return the SQL of a term to be ordered or case-folded: texts by code point whatever the database's locale."""
    return f'{term.sql} COLLATE "C"' if term.kind is Kind.TEXT else term.sql


def _comparison(symbol: str, left: Term, right: Term) -> Term:
    """Make a term of two sides and an operator; texts are ordered by code point."""
    first, second = left.evaluate, right.evaluate
    shown = left.sql if symbol in ("=", "<>") else _ordered(left)
    sql = f"({shown} {symbol} {right.sql})"
    return Term(
        Kind.BOOLEAN,
        _equality(first, second) if symbol == "=" else lambda row: compare_values(symbol, first(row), second(row)),
        sql,
        (*left.parameters, *right.parameters),
    )


def _arithmetic(symbol: str, left: Term, right: Term) -> Term:
    """Make a term of whole-number arithmetic. Divisors are literals other than 0.

    SQL does it on numeric, so that nothing overflows.
    """
    for term in (left, right):
        if term.kind not in (Kind.INTEGER, *_OPEN) and not isinstance(term.literal, Decimal):
            raise UsageError(f"{_described(term)} in arithmetic", hint="arithmetic is on whole numbers")
        if isinstance(term.literal, Decimal):
            raise UsageError(f"{term.literal} in arithmetic", hint="arithmetic is on whole numbers")
    if symbol in "/%" and (right.kind is not Kind.INTEGER or not right.literal):
        raise UsageError(f"{symbol} needs a whole number other than 0 on its right")
    first, second = left.evaluate, right.evaluate
    parts = [f"{term.sql}::numeric" for term in (left, right)]
    if symbol in "/%":
        sql = f"{'div' if symbol == '/' else 'mod'}({parts[0]}, {parts[1]})"
    else:
        sql = f"({parts[0]} {symbol} {parts[1]})"
    kind = Kind.ANY if Kind.ANY in (left.kind, right.kind) else Kind.INTEGER
    parameters = (*left.parameters, *right.parameters)
    return Term(kind, lambda row: calculate(symbol, first(row), second(row)), sql, parameters)


def _negation(test: Evaluate) -> Evaluate:
    def evaluate(row: Row) -> Value:
        value = test(row)
        return None if value is None else not value

    return evaluate


def _chain(tests: tuple[Evaluate, ...], stop: bool) -> Evaluate:
    """Return the test of AND (``stop`` False) or OR (``stop`` True) with three-valued logic."""

    def evaluate(row: Row) -> Value:
        result: Value = not stop
        for test in tests:
            value = test(row)
            if value is stop:
                return stop
            if value is None:
                result = None
        return result

    return evaluate


def _equality(first: Evaluate, second: Evaluate) -> Evaluate:
    return lambda row: compare_values("=", first(row), second(row))


def _range(subject: Evaluate, low: Evaluate, high: Evaluate) -> Evaluate:
    """Return the test of BETWEEN: unknown unless one side settles it."""

    def evaluate(row: Row) -> Value:
        value = subject(row)
        above, below = compare_values(">=", value, low(row)), compare_values("<=", value, high(row))
        if above is False or below is False:
            return False
        return None if above is None or below is None else True

    return evaluate


def _constant_membership(left: Term, items: list[Term]) -> Evaluate | None:
    """Return a set lookup for ``column IN (literals)`` of one declared kind, or None when it does not apply."""
    values = [item.literal for item in items]
    wanted = {Kind.INTEGER: int, Kind.TEXT: str}.get(left.kind)
    if wanted is None or any(type(value) is not wanted for value in values):
        return None
    known, subject = frozenset(values), left.evaluate

    def evaluate(row: Row) -> Value:
        value = subject(row)
        return None if value is None else value in known

    return evaluate


def _pattern_test(subject: Evaluate, pattern: str, *, folded: bool) -> Evaluate:
    """Return the test of LIKE; ``folded`` is ILIKE."""
    parts = read_pattern(_lower(pattern) if folded else pattern)

    def evaluate(row: Row) -> Value:
        value = subject(row)
        if value is None:
            return None
        text = as_text(value)
        return like(_lower(text) if folded else text, parts)

    return evaluate


def _lower(text: str) -> str:
    """Fold ASCII letters only, as PostgreSQL does under the C collation."""
    return text.translate(_ASCII_LOWER)


_ASCII_LOWER = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}
