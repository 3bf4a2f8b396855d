"""Tables, CSV, JSON and dates as text."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.client.rendering import Column, Table, elapsed, json_text, local_date, one_line


def test_columns_widen_for_long_cells_and_the_last_is_not_padded() -> None:
    table = Table((Column("id", 3), Column("message", 9)), (("1", "a"), ("12345", "much longer than the title")))
    assert table.text() == "id    message\n----- ---------\n1     a\n12345 much longer than the title\n"


def test_an_empty_table_has_its_titles() -> None:
    assert Table((Column("a"), Column("b")), ()).text() == "a b\n- -\n"


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5))
def test_every_row_is_one_line(rows: list[tuple[str, str]]) -> None:
    text = Table((Column("a"), Column("b")), tuple(rows)).text()
    assert len(text.splitlines()) == 2 + len(rows)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"))


@given(st.lists(st.tuples(texts, texts), max_size=5))
def test_csv_can_be_read_back(rows: list[tuple[str, str]]) -> None:
    text = Table((Column("a"), Column("b")), tuple(rows)).csv()
    assert [tuple(row) for row in csv.reader(io.StringIO(text, newline=""))] == [("a", "b"), *rows]


def test_json_keeps_order_and_letters() -> None:
    assert json_text({"b": 1, "a": ["é", None]}) == '{\n  "b": 1,\n  "a": [\n    "é",\n    null\n  ]\n}\n'


def test_nothing_that_moves_the_cursor_is_printed() -> None:
    assert one_line("a\x1b[2Jb\u2028c\x85d") == "a [2Jb c d"


def test_dates_and_durations(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_date(None) == ""
    assert len(local_date(0.9)) == 19
    assert (elapsed(-5), elapsed(59.9), elapsed(90061)) == ("0:00:00", "0:00:59", "25:01:01")
