"""Tables on a terminal: whole for programs, cut and coloured for people."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.client.past import gantt_chart
from oarpy.client.rendering import PLAIN, Column, Look, Table, cut, look, width
from oarpy.model.errors import UsageError
from oarpy.store.passes.gantt import GanttBar

TABLE = Table(
    (Column("Id", 4), Column("S", colour=lambda cell: "32" if cell == "R" else ""), Column("Message", 20)),
    (("1", "R", "a long message that does not fit"), ("12", "W", "漢字")),
)


def test_nothing_is_cut_for_a_program() -> None:
    assert TABLE.text(PLAIN) == (
        "Id   S Message\n---- - --------------------\n1    R a long message that does not fit\n12   W 漢字\n"
    )


def test_lines_fit_a_terminal() -> None:
    assert TABLE.text(Look(20)) == (
        "Id S Message\n"
        "-- - ---------------\n"
        "1  R a long message~\n"
        "12 W 漢字\n"
    )  # fmt: skip


def test_colours_are_around_cells_and_change_no_width() -> None:
    plain, painted = TABLE.text(Look(80)), TABLE.text(Look(80, colours=True))
    assert "\x1b[32mR\x1b[0m" in painted
    assert painted.replace("\x1b[32m", "").replace("\x1b[0m", "") == plain


@given(
    st.lists(st.tuples(*[st.text(st.characters(codec="utf-8"), max_size=60)] * 4), max_size=5),
    st.integers(min_value=20, max_value=200),
)
def test_no_line_is_longer_than_the_terminal(rows: list[tuple[str, ...]], columns: int) -> None:
    table = Table((Column("Job id", 9), Column("S"), Column("User", 8), Column("Message", 48)), tuple(rows))
    assert max(map(width, table.text(Look(columns)).splitlines())) <= columns


@given(st.text(), st.integers(min_value=0, max_value=30))
def test_what_is_cut_fits(text: str, columns: int) -> None:
    assert width(cut(text, columns)) <= columns


class Terminal(io.StringIO):
    """An output that is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "wish", "coloured"),
    [
        (Terminal, {}, "auto", True),
        (io.StringIO, {}, "auto", False),
        (io.StringIO, {}, "always", True),
        (Terminal, {"NO_COLOR": "1"}, "auto", False),
        (Terminal, {"NO_COLOR": ""}, "auto", True),
        (Terminal, {"NO_COLOR": "1"}, "always", True),
        (Terminal, {"TERM": "dumb"}, "auto", False),
        (Terminal, {}, "never", False),
    ],
)
def test_colours_are_for_terminals(
    stream: Callable[[], io.StringIO],
    variables: dict[str, str],
    wish: str,
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"COLUMNS": "77", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stream())
    seen = look(wish)
    assert (seen.colours, seen.columns) == (coloured, 77 if stream is Terminal else None)


def test_another_wish_is_refused() -> None:
    with pytest.raises(UsageError, match="'blue' is no wish for colours"):
        look("blue")


def test_the_legend_of_a_gantt_chart_has_every_symbol() -> None:
    begin, end = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC)
    bars = [GanttBar(n, "ann", "default", "Running", begin.timestamp(), end.timestamp(), (1,)) for n in (1, 2)]
    chart = gantt_chart.chart(bars, {1: "n1", 2: "n2"}, begin, end)
    assert ". = free, # = several jobs\n" in chart
    assert f"n1 {'#' * gantt_chart.WIDTH}\nn2 {'.' * gantt_chart.WIDTH}\n" in chart
    assert "more jobs" not in chart
    narrow = gantt_chart.chart(bars, {1: "n1", 2: "n2"}, begin, end, 50)
    assert max(map(len, narrow.splitlines()[:3])) == 50


def test_many_jobs_on_a_gantt_chart_share_a_symbol_and_nodes_stand_by_number() -> None:
    begin, end = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC)
    bars = [GanttBar(n, "ann", "default", "Waiting", begin.timestamp(), end.timestamp(), (n,)) for n in range(1, 101)]
    lines = gantt_chart.chart(bars, {n: f"n{n}" for n in range(100, 0, -1)}, begin, end).splitlines()
    assert [line.split()[0] for line in lines[1:101]] == [f"n{n}" for n in range(1, 101)]
    assert lines[1].split()[1] == "a" * gantt_chart.WIDTH
    assert lines[63].split()[1] == "+" * gantt_chart.WIDTH
    assert len(lines) == 1 + 100 + 1 + 62 + 1
    assert lines[-1] == "+ = 38 more jobs: a shorter period, or -u USER, shows which"
