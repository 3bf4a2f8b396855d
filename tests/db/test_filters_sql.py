"""A filter means the same in Python, in PostgreSQL given its bound form, and in PostgreSQL given the user's text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from oarpy.admission.filters.filters import Filter, compile_filter

pytestmark = [pytest.mark.db, pytest.mark.oldest]

COLUMNS = {
    "a": "integer",
    "b": "bigint",
    "x": "numeric",
    "f": "double precision",
    "s": "text",
    "Odd %s": "text",
    "ok": "boolean",
    "state": "job_state",
    "t": "timestamptz",
    "w": "interval",
}
BASIC = [name for name in COLUMNS if name not in ("state", "t", "w")]
Connection = psycopg.Connection[tuple[Any, ...]]

LETTERS = ["a", "B", "b", "%", "_", "\\", "'", "é", "É", "ß", " ", "\n", "1", "-"]
texts = st.lists(st.sampled_from(LETTERS), max_size=4).map("".join)
integers = st.integers(-6, 6)
rows = st.fixed_dictionaries(
    {
        "a": st.none() | integers,
        "b": st.none() | integers | st.sampled_from([2**62, -(2**40)]),
        "x": st.none() | st.integers(-30, 30).map(lambda tenths: tenths / 8),
        "f": st.none() | st.integers(-30, 30).map(lambda tenths: tenths / 10),
        "s": st.none() | texts,
        "Odd %s": st.none() | texts,
        "ok": st.none() | st.booleans(),
    }
)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


pattern = texts.filter(lambda text: (len(text) - len(text.rstrip("\\"))) % 2 == 0).map(quoted)
whole_small = st.one_of(integers.map(str), st.just("a"))
whole: st.SearchStrategy[str] = st.deferred(
    lambda: st.one_of(
        integers.map(str),
        st.sampled_from(["a", "b", "NULL"]),
        st.tuples(whole_small, st.sampled_from("+-*"), whole_small).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(whole_small, st.sampled_from("/%"), st.sampled_from(["1", "2", "-3"])).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.just("(- a)"),
    )
)
numeric_columns = st.sampled_from(["a", "b", "x", "f"])
numbers = st.one_of(whole, st.sampled_from(["1.5", "-0.3", "2.50", "x", "f", "0.1"]))
strings = st.one_of(texts.map(quoted), st.sampled_from(["s", '"Odd %s"']))
operators = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])


def joined(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(" ".join)


def item_list(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(items, min_size=1, max_size=4).map(lambda some: f"({', '.join(some)})")


literal_integers = st.one_of(integers.map(str), integers.map(lambda value: f"'{value}'"), st.just("NULL"))
text_columns = st.sampled_from(["s", '"Odd %s"'])
atoms = st.one_of(
    joined(numbers, operators, numbers),
    joined(st.sampled_from(["a", "b"]), operators, integers.map(lambda value: f"' {value}'")),
    joined(strings, operators, strings),
    joined(text_columns, st.sampled_from(["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"]), pattern),
    joined(st.sampled_from(["a", "b"]), st.sampled_from(["IN", "NOT IN"]), item_list(literal_integers)),
    joined(st.just("s"), st.sampled_from(["IN", "NOT IN"]), item_list(texts.map(quoted) | st.just("NULL"))),
    joined(numeric_columns, st.sampled_from(["BETWEEN", "NOT BETWEEN"]), numbers, st.just("AND"), numbers),
    joined(text_columns, st.sampled_from(["BETWEEN", "NOT BETWEEN"]), strings, st.just("AND"), strings),
    joined(st.sampled_from([*BASIC[:5], "ok", "'x'"]), st.sampled_from(["IS NULL", "IS NOT NULL"])),
    joined(st.just("ok"), operators, st.sampled_from(["'yes'", "'F'", "TRUE", "false", "'0'", "ok"])),
    st.sampled_from(["ok", "NOT ok", "NULL", "TRUE", "'no'"]),
)
tests = st.sampled_from(["TRUE", "FALSE", "UNKNOWN", "NOT TRUE", "NOT FALSE", "NOT UNKNOWN"])
filters = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(" + " AND ".join(parts) + ")"),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(" + " or ".join(parts) + ")"),
        inner.map(lambda part: f"(NOT {part})"),
        st.tuples(inner, tests).map(lambda parts: f"(({parts[0]}) IS {parts[1]})"),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def table(server: str) -> Iterator[Connection]:
    """A connection with an empty temporary table of every kind of column; texts are ordered by code point."""
    with psycopg.connect(server, dbname="postgres") as connection:
        connection.execute("SET TimeZone TO 'UTC'")
        connection.execute("CREATE TYPE pg_temp.job_state AS ENUM ('Waiting', 'Running', 'Error')")
        connection.execute(
            "CREATE TEMP TABLE resources (id integer, a integer, b bigint, x numeric, f double precision,"
            ' s text COLLATE "C", "Odd %s" text COLLATE "C", ok boolean, state pg_temp.job_state,'
            " t timestamptz, w interval)"
        )
        yield connection
        connection.rollback()


def fill(connection: Connection, values: list[dict[str, object]]) -> None:
    connection.execute("TRUNCATE resources")
    with connection.cursor() as cursor:
        cursor.executemany(
            'INSERT INTO resources (id, a, b, x, f, s, "Odd %%s", ok) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)',
            [(number, *(row[name] for name in BASIC)) for number, row in enumerate(values)],
        )


def selected(connection: Connection, condition: str, parameters: tuple[object, ...] | None) -> set[int]:
    query = f"SELECT id FROM resources WHERE {condition}"  # noqa: S608
    return {row[0] for row in connection.execute(query, parameters)}


def by_python(condition: Filter, values: list[dict[str, object]]) -> set[int]:
    return {number for number, row in enumerate(values) if condition.matches(row)}


@settings(max_examples=300, deadline=None)
@given(text=filters, values=st.lists(rows, min_size=1, max_size=12))
@example("a / -3 = -1 OR a % 2 = -1", [{**dict.fromkeys(BASIC), "a": value} for value in range(-6, 7)])
@example("s < 'a'", [{**dict.fromkeys(BASIC), "s": value} for value in ("B", "b", "É", "é", "")])
def test_python_and_postgresql_agree(table: Connection, text: str, values: list[dict[str, object]]) -> None:
    fill(table, values)
    typed, untyped = compile_filter(text, COLUMNS), compile_filter(text, list(COLUMNS))
    wanted = selected(table, text, None)
    assert by_python(typed, values) == wanted
    assert selected(table, *typed.sql) == wanted
    assert by_python(untyped, values) == wanted
    assert selected(table, *untyped.sql) == wanted


few_letters = st.lists(st.sampled_from("abA"), max_size=6).map("".join)
few_patterns = st.lists(st.sampled_from(["a", "b", "%", "_", "\\a", "\\%", "\\\\"]), max_size=6).map("".join)


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(few_letters, min_size=5, max_size=20),
    pattern=few_patterns,
    word=st.sampled_from(["LIKE", "NOT LIKE", "ILIKE"]),
)
@example(["ab%", "ab", "a_b", "\\", ""], "a_\\%", "LIKE")
def test_patterns_agree(table: Connection, values: list[str], pattern: str, word: str) -> None:
    rows_of_text: list[dict[str, object]] = [{**dict.fromkeys(BASIC), "s": value} for value in values]
    fill(table, rows_of_text)
    condition = compile_filter(f"s {word} {quoted(pattern)}", COLUMNS)
    wanted = selected(table, condition.text, None)
    assert by_python(condition, rows_of_text) == wanted
    assert selected(table, *condition.sql) == wanted


@pytest.mark.parametrize(
    "text", ["s < 'b'", "s >= 'B' AND s <= 'b'", "s BETWEEN 'A' AND 'a'", "s ILIKE 'É'", "s NOT ILIKE 'b'", "s > 'é'"]
)
def test_texts_are_ordered_by_code_point_under_any_locale(table: Connection, text: str) -> None:
    values: list[dict[str, object]] = [{"s": value} for value in ("a", "A", "b", "B", "é", "É", "z")]
    offered = {row[0] for row in table.execute("SELECT collname FROM pg_collation")}
    # every server has ICU or, from 18 on, built-in Unicode rules (which order by code point but fold É)
    locale = "und-x-icu" if "und-x-icu" in offered else "pg_unicode_fast"
    create = sql.SQL("CREATE TEMP TABLE words (id integer, s text COLLATE {})")
    table.execute(create.format(sql.Identifier(locale)))
    for number, row in enumerate(values):
        table.execute("INSERT INTO words VALUES (%s, %s)", (number, row["s"]))
    condition = compile_filter(text, COLUMNS)
    query = f"SELECT id FROM words WHERE {condition.sql[0]}"  # noqa: S608
    found = {row[0] for row in table.execute(query, condition.sql[1])}
    table.execute("DROP TABLE words")
    assert found == by_python(condition, values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t > '2026-01-01 12:00+00'", {1}),
        ("t >= '2026-01-01T12:00:00+00:00' AND w <> '1h30m'", {1}),
        ("date '2026-01-04' > t", {0, 1}),
        ("w > 3600", {0}),
        ("w BETWEEN '1:00:00' AND '2:00:00'", {0}),
        ("w IN ('1h30m')", {0}),
        ("state = 'Running' OR state IN ('Nothing', 'Error')", {0, 1}),
        ("state < 'F'", {1}),
        ("state LIKE 'R%' AND \"Odd %s\" IS NULL", {0}),
        ("t IS NULL OR state IS NULL", {2}),
    ],
)
def test_dates_durations_and_enumerations(table: Connection, text: str, expected: set[int]) -> None:
    values: list[dict[str, object]] = [
        {"state": "Running", "t": datetime(2026, 1, 1, 12, tzinfo=UTC), "w": timedelta(minutes=90)},
        {"state": "Error", "t": datetime(2026, 1, 2, tzinfo=UTC), "w": timedelta(minutes=1)},
        {"state": None, "t": None, "w": None},
    ]
    table.execute("TRUNCATE resources")
    for number, row in enumerate(values):
        table.execute(
            "INSERT INTO resources (id, state, t, w) VALUES (%s, %s, %s, %s)",
            (number, row["state"], row["t"], row["w"]),
        )
    condition = compile_filter(text, COLUMNS)
    assert selected(table, *condition.sql) == expected
    assert by_python(condition, values) == expected


def test_values_are_bound_and_never_pasted(table: Connection) -> None:
    fill(table, [{**dict.fromkeys(BASIC), "s": "x'; DROP TABLE resources; --"}])
    condition = compile_filter("s = 'x''; DROP TABLE resources; --'", COLUMNS)
    assert "DROP" not in condition.sql[0]
    assert selected(table, *condition.sql) == {0}
