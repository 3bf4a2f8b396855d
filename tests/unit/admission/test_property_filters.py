from __future__ import annotations

import subprocess
import sys

import pytest

from oarpy.admission.filters.filters import (
    MAXIMUM_LENGTH,
    check_condition,
    compile_filter,
    holds_condition,
    join_conditions,
)
from oarpy.admission.filters.parts import compared_with
from oarpy.model.errors import UsageError

COLUMNS = {
    "cpu": "integer",
    "mem": "bigint",
    "model": "character varying(80)",
    "host": "text",
    "drain": "boolean",
    "state": "job_state",
    "since": "timestamp with time zone",
    "walltime": "interval",
}


def refusal(text: str, columns: dict[str, str] | list[str] | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        compile_filter(text, COLUMNS if columns is None else columns)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


@pytest.mark.parametrize(
    ("text", "sql", "parameters"),
    [
        ("cpu = 2 AND host LIKE 'n%'", '(("cpu" = %s) AND ("host" LIKE %s::text))', (2, "n%")),
        ("CPU in (1, '2')", '("cpu" IN (%s, %s))', (1, 2)),
        (
            "NOT (mem - 1 > 10 / 3)",
            '(NOT (("mem"::numeric - %s::numeric) > div(%s::numeric, %s::numeric)))',
            (1, 10, 3),
        ),
        ("state <> 'Error' OR drain", '(("state"::text <> %s::text) OR "drain")', ("Error",)),
        ("drain = 'NO' AND model > 'x'", '(("drain" = FALSE) AND ("model" COLLATE "C" > %s::text))', ("x",)),
    ],
)
def test_sql_is_written_anew_with_bound_values(text: str, sql: str, parameters: tuple[object, ...]) -> None:
    assert compile_filter(text, COLUMNS).sql == (sql, parameters)


def test_columns_are_quoted_and_their_percent_signs_doubled() -> None:
    condition = compile_filter('"a%s""b" = 1', ['a%s"b'])
    assert condition.sql == ('("a%%s""b" = %s)', (1,))
    assert condition.columns == {'a%s"b'}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty filter"),
        (" \t\n", "empty filter"),
        ("cpu =", "syntax error at end of input"),
        ("host = 'n1", "a quote is missing"),
        ("cpu = 1; DROP TABLE resources", "more than one condition"),
        ("cpu = 1;", "more than one condition"),
        ("cpu = 1 -- and more", "holds a comment"),
        ("cpu /* x */ = 1", "holds a comment"),
        ("cpu = 1) OR (1 = 1", 'syntax error at or near ")"'),
        ("cpu = 1 UNION SELECT 1", "UNION"),
        ("cpu = 1 GROUP BY cpu", "GROUP BY is not allowed"),
        ("cpu = 1 HAVING true", "HAVING is not allowed"),
        ("cpu = 1 ORDER BY 1", "ORDER BY is not allowed"),
        ("cpu = 1 LIMIT 1", "LIMIT is not allowed"),
        ("cpu = 1 OFFSET 1", "OFFSET is not allowed"),
        ("cpu = 1 FOR UPDATE", "FOR UPDATE is not allowed"),
        ("cpu = 1 WINDOW w AS ()", "WINDOW is not allowed"),
        ("cpu IN (SELECT 1)", "a subselect is not allowed"),
        ("EXISTS (SELECT 1)", "a subselect is not allowed"),
        ("cpu = (SELECT 1)", "a subselect is not allowed"),
        ("pg_sleep(10) IS NULL", "function pg_sleep() is not allowed"),
        ("cpu = ANY ('{1}')", "OP ANY"),
        ("cpu = ANY (ARRAY[1])", "OP ANY"),
        ("cpu::text = '1'", "a cast to text is not allowed"),
        ("'1'::regclass = cpu", "a cast to regclass is not allowed"),
        ("host = '{a}'::text[]", "a cast to text is not allowed"),
        ("CASE WHEN true THEN true END", "CASE is not allowed"),
        ("COALESCE(drain, true)", "COALESCE is not allowed"),
        ("host = current_user", "a function of the session is not allowed"),
        ("host COLLATE \"C\" = 'a'", "COLLATE is not allowed"),
        ("cpu = $1", "a parameter ($1) is not allowed"),
        ("cpu = B'1'", "a bit string is not allowed"),
        ("(cpu, mem) = (1, 2)", "a row is not allowed"),
        ("cpu OPERATOR(pg_catalog.=) 1", "operator pg_catalog.= is not allowed"),
        ("host ~ 'n.*'", "operator ~ is not allowed"),
        ("host || 'x' = 'nx'", "operator || is not allowed"),
        ("cpu == 2", "operator == is not allowed (write =)"),
        ("cpu IS DISTINCT FROM 2", "DISTINCT"),
        ("host SIMILAR TO 'x'", "SIMILAR"),
        ("cpu BETWEEN SYMMETRIC 1 AND 2", "BETWEEN SYM"),
        ("host LIKE 'a!%' ESCAPE '!'", "ESCAPE is not allowed"),
        ("resources.cpu = 1", "'resources.cpu' is not allowed (name a column alone)"),
        ("cpus = 2", "unknown property 'cpus' (did you mean cpu?)"),
        ('host = "n1"', "text values go in single quotes"),
        ("host = 4", "'host' (text) cannot be compared with the integer (put the value in single quotes)"),
        ("cpu = host", "'cpu' (integer) cannot be compared with 'host' (text)"),
        ("cpu = 'two'", "'two' is not a value of type integer"),
        ("cpu = '2.5'", "'2.5' is not a value of type integer"),
        ("drain = 1", "'drain' (boolean) cannot be compared with the integer"),
        ("drain = 'perhaps'", "'perhaps' is not a value of type boolean"),
        ("since > 'yesterday'", "'yesterday' is not a value of type timestamp"),
        ("walltime > 'long'", "'long' is not a duration"),
        ("cpu", "'cpu' (integer) is not a condition (compare it: cpu = 2)"),
        ("host AND drain", "'host' (text) is not a condition"),
        ("cpu LIKE '2%'", "LIKE compares text and 'cpu' (integer) is not text"),
        ("host LIKE model", "LIKE needs a quoted pattern"),
        ("host LIKE 'a\\'", "ends with a backslash"),
        ("cpu / 0 = 1", "/ needs a whole number other than 0"),
        ("cpu % mem = 1", "% needs a whole number other than 0"),
        ("cpu + 1.5 = 2", "1.5 in arithmetic (arithmetic is on whole numbers)"),
        ("host + 1 = 2", "'host' (text) in arithmetic"),
        ("cpu = 1 AND 'x'", "'x' is not a value of type boolean"),
        ("cpu = " + "9" * 60, "is too long"),
        ("cpu = 1\0", "not text"),
        ("host = '\udcff'", "not text"),
        ("cpu = 1 OR " * 2000 + "cpu = 1", f"at most {MAXIMUM_LENGTH}"),
        ("NOT " * 200 + "drain", "nested too deeply"),
        ("-" + " - " * 400 + "cpu = 1", "nested too deeply"),
        ("cpu" + " + 1" * 400 + " = 1", "nested too deeply"),
    ],
)
def test_everything_else_is_refused_in_one_line(text: str, part: str) -> None:
    assert part in refusal(text)


def test_parentheses_alone_are_no_nesting() -> None:
    assert compile_filter("(" * 2000 + "cpu = 1" + ")" * 2000, COLUMNS).matches({"cpu": 1})


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("cpu = 2", {"cpu": 2}, True),
        ("cpu = '2'", {"cpu": 2}, True),
        ("cpu = '2'", {"cpu": "2"}, True),
        ("mem > 4", {"mem": "10"}, True),
        ("mem > 4", {"mem": "much"}, True),
        ("mem = 'much'", {"mem": 4}, False),
        ("mem <> 'much'", {"mem": 4}, True),
        ("mem > '9'", {"mem": "10"}, False),
        ("mem = 0.1", {"mem": 0.1}, True),
        ("mem = 4", {"mem": 4.0}, True),
        ("gpu = 'YES'", {"gpu": True}, True),
        ("gpu = 'YES'", {"gpu": "YES"}, True),
        ("gpu = 'NO'", {"gpu": False}, True),
        ("gpu = 1", {"gpu": True}, True),
        ("gpu", {"gpu": "yes"}, True),
        ("gpu", {"gpu": 0}, False),
        ("gpu", {"gpu": "H100"}, False),
        ("gpu LIKE 'tru_'", {"gpu": True}, True),
        ("mem LIKE '1%'", {"mem": 16}, True),
        ("mem + 1 = 5", {"mem": "4"}, True),
        ("mem / 2 = 2.25", {"mem": 4.5}, True),
        ("mem + 1 = 5", {"mem": "much"}, False),
        ("mem % 2 = 0", {"mem": 4.5}, False),
        ("NOT mem = 4", {}, False),
        ("mem IS NULL", {}, True),
        ("mem IS NULL OR mem = 1", {"mem": None}, True),
        ("cpu NOT IN (1, NULL)", {"cpu": 2}, False),
    ],
)
def test_rows_of_unknown_types_compare_by_what_they_look_like(
    text: str, row: dict[str, object], expected: bool
) -> None:
    assert compile_filter(text, ["cpu", "mem", "gpu"]).matches(row) is expected


def test_a_filter_over_any_columns_tells_which_it_names() -> None:
    assert check_condition("a = 'type' AND (\"B\" > 2 OR c IS NULL)") == {"a", "B", "c"}


def test_joined_conditions_keep_their_meaning() -> None:
    assert join_conditions("", "cpu = 1", " ") == "cpu = 1"
    assert join_conditions("cpu = 1 OR cpu = 2", "drain = 'NO'") == "(cpu = 1 OR cpu = 2) AND (drain = 'NO')"


def test_no_part_of_a_join_can_undo_another() -> None:
    with pytest.raises(UsageError, match="syntax error"):
        join_conditions("cpu = 1) OR (cpu = 2", "drain = 'NO'")
    with pytest.raises(UsageError, match="comment"):
        join_conditions("cpu = 1 --", "drain = 'NO'")


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("drain = 'NO'", True),
        ("(cpu = 1) AND (drain = 'NO')", True),
        ("((cpu = 1) AND (drain = 'NO')) AND (type = 'x')", True),
        ("", False),
        ("cpu = 1", False),
        ("(cpu = 1 OR (mem = 2)) AND (drain = 'NO') OR (cpu = 3)", False),
        ("(cpu = 1) OR (mem = 2) AND (drain = 'NO')", False),
        ("(cpu = 1 OR (mem = 2) AND (drain = 'NO'))", False),
        ("(host = ') AND (drain = ''NO'')", False),
        ("(cpu = 1) AND (host = 'x) AND (drain = ''NO''') AND (mem = 1)", False),
    ],
)
def test_only_a_joined_condition_counts_as_present(text: str, held: bool) -> None:
    assert holds_condition(text, "drain = 'NO'") is held


def test_hard_patterns_take_no_time() -> None:
    condition = compile_filter(f"host LIKE '{'%a' * 2000}b'", COLUMNS)
    assert not condition.matches({"host": "a" * 2500})


def test_the_parser_is_loaded_by_the_first_filter_only() -> None:
    code = (
        "import sys; from oarpy.admission.filters.filters import compile_filter; assert 'pglast' not in sys.modules;"
        "compile_filter('a = 1'); assert 'pglast' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("state = 'Foo'", {"Foo"}),
        ("'Foo' <> state", {"Foo"}),
        ("NOT (state NOT IN ('A', 'B') OR a = 1) AND (state = 'C') IS TRUE", {"A", "B", "C"}),
        ("state LIKE 'R%' AND state < 'z' AND project = 'Foo'", set()),
        ("state IS NULL OR state = project", set()),
    ],
)
def test_texts_that_a_column_is_compared_with(text: str, found: set[str]) -> None:
    assert set(compared_with(text, "state")) == found
