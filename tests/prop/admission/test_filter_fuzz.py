"""Whatever is typed as a filter is either compiled or refused in one line."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from oarpy.admission.filters.filters import Columns, Filter, compile_filter
from oarpy.model.errors import UsageError
from tests.harness.examples import examples

COLUMNS = {"cpu": "integer", "host": "text", "drain": "boolean", "t": "timestamptz", "w": "interval", "x": "numeric"}
WORDS = r"""
    cpu host drain t w x nosuch and or not = <> < >= + - * / % ( ) ((( , 1 0 -1 1.5 1e999 0x1f 99999999999999 'a' '1'
    '' 'yes' '2026-01-01' '1h' "cpu" " ' ; -- /* */ is null true false unknown in (1,2) ('a') between like ilike 'a%'
    '\' select case when end cast as int :: ::int ::text any all array[1] $1 @ ~ || . * e'\x' u&'\0041' b'1' x'1'
    interval date timestamp current_date now() limit union with for update group by distinct from row(1) exists
"""
mixed = st.lists(st.sampled_from(WORDS.split()) | st.text(max_size=3), max_size=12).map(" ".join)
ROW = {"cpu": 1, "host": "a", "drain": False}


@settings(max_examples=examples(400), deadline=None)
@given(text=mixed)
@example("1e999 = x")
@example("x = '1e999'")
@example("'9999-12-31' < t")
@example("w > 99999999999999")
def test_a_filter_is_compiled_or_refused_in_one_line(text: str) -> None:
    for columns in (COLUMNS, list(COLUMNS), None):
        condition, refusal = attempt(text, columns)
        assert "\n" not in refusal
        assert condition is None or condition.matches(ROW) in (True, False)
        assert condition is None or condition.sql[0].replace("%%", "").count("%s") == len(condition.sql[1])


def attempt(text: str, columns: Columns) -> tuple[Filter | None, str]:
    try:
        return compile_filter(text, columns), ""
    except UsageError as error:
        return None, str(error)
