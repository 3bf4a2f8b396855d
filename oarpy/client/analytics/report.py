"""``oarpy report``: a period as a page of HTML with plots, and as CSV files."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from jinja2 import Environment, PackageLoader, select_autoescape

from oarpy.client.past.past_months import month_after, parse_month
from oarpy.client.past.periods import parse_period
from oarpy.client.plot_axes import grouped, scale
from oarpy.client.rendering import Column, JsonValue, Table, elapsed
from oarpy.model.errors import OarpyError, UsageError
from oarpy.store.analytics.report_rows import ReportTable, report_tables
from oarpy.store.database import Connection

_MONTH = re.compile(r"\d{4}-\d\d?", re.ASCII)
_TITLES = {
    "days": "Days",
    "users": "Users",
    "projects": "Projects",
    "queues": "Queues",
    "causes_of_failures": "Failures by cause",
    "nodes_of_failures": "Failures by node",
    "besteffort_waste": "Best-effort jobs that gave way",
    "predictions": "Accuracy of predictions",
}
_HEADINGS = {
    "user_name": "User",
    "queue_name": "Queue",
    "network_address": "Node",
    "mean_wait_seconds": "Mean wait",
    "longest_wait_seconds": "Longest wait",
}
"""Headings of columns whose names are not words, or whose unit does not show."""
_PARTS = frozenset(("utilisation", "coverage"))
"""Columns that are parts of a whole, 0 to 1."""
_PLOTS = (
    ("utilisation", "Part of the capacity that was used, %"),
    ("jobs", "Jobs that ended"),
    ("mean_wait_seconds", "Mean wait, hours"),
    ("mean_bounded_slowdown", "Mean bounded slowdown (bound 10 seconds)"),
)
_UNITS = {"utilisation": 0.01, "mean_wait_seconds": 3600.0}
"""The unit on the axis of a plot, where it is not 1."""
_LEAST = {"utilisation": 100.0, "jobs": 5.0}
"""The least ends of the axes of plots: the whole, and a few jobs."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 895.0, 8.0, 150.0
_DATES = 10
"""The most dates below a plot."""


@dataclass(frozen=True, slots=True)
class DayBar:
    """A day in a plot: its value in words, and where its bar is."""

    label: str
    value: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class DayPlot:
    """Bars of days, values at heights and dates at places."""

    title: str
    bars: tuple[DayBar, ...]
    ticks: tuple[tuple[float, str], ...]
    dates: tuple[tuple[float, str], ...]


def period(text: str) -> tuple[date, date]:
    """Return the first day, and the day after the last, of a month ``YYYY-MM`` or of another period.

    Raises :class:`UsageError`.
    """
    if _MONTH.fullmatch(text):
        month = parse_month(text)
        return month, month_after(month)
    begin, end = (moment.astimezone(UTC) for moment in parse_period(text))
    last = end.date() if end.time() == datetime.min.time() else end.date() + timedelta(days=1)
    return begin.date(), last


def tables(connection: Connection, begin: date, end: date, project: str | None = None) -> dict[str, ReportTable]:
    """Return the tables of the report by name, those of one project if it is given."""
    return report_tables(connection, begin, end, project)


def document(by_name: Mapping[str, ReportTable]) -> JsonValue:
    """Return the tables as JSON: a list of objects each."""
    return {
        name: [{key: _plain(value) for key, value in zip(table.columns, row, strict=True)} for row in table.rows]
        for name, table in by_name.items()
    }


def page(by_name: Mapping[str, ReportTable], begin: date, end: date) -> str:
    """Return the report as one page of HTML that needs no other file."""
    environment = Environment(loader=PackageLoader("oarpy.client.analytics"), autoescape=select_autoescape())
    plots = [_plot(by_name["days"], column, title) for column, title in _PLOTS if "days" in by_name]
    return environment.get_template("report.html").render(
        begin=begin, last=end - timedelta(days=1), plots=[plot for plot in plots if plot.bars], tables=_shown(by_name)
    )


def text(by_name: Mapping[str, ReportTable]) -> str:
    """Return the tables that have rows as text, each under its title."""
    return "\n".join(
        f"{title}\n\n{Table(tuple(map(Column, headings)), tuple(map(tuple, rows))).text()}"
        for title, headings, rows in _shown(by_name)
    )


def _shown(by_name: Mapping[str, ReportTable]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return title, headings and cells of each table that has rows."""
    return [
        (
            _TITLES[name],
            [_words(column) for column in table.columns],
            [list(map(_cell, table.columns, row)) for row in table.rows],
        )
        for name, table in by_name.items()
        if table.rows
    ]


def write_page(path: Path, text: str) -> None:
    """Write the page. Raises :class:`OarpyError` when the file cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OarpyError(f"cannot write '{path}': {error.strerror or error}", hint="another place?") from error


def write_csv(folder: Path, by_name: Mapping[str, ReportTable]) -> None:
    """Write a file for each table. Raises :class:`OarpyError` when one cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in by_name.items():
            with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(table.columns)
                writer.writerows(table.rows)
    except OSError as error:
        raise OarpyError(f"cannot write to '{folder}': {error.strerror or error}", hint="another place?") from error


def require_one_place(to: Path | None, folder: Path | None, as_json: bool) -> None:
    """Raise :class:`UsageError` if no output is requested."""
    if to is None and folder is None and not as_json:
        raise UsageError("nothing to write", hint="--to FILE.html, --csv DIR, or -J")


def _plot(table: ReportTable, column: str, title: str) -> DayPlot:
    """Return the plot of a column."""
    place = table.columns.index(column)
    unit = _UNITS.get(column, 1.0)
    values = [None if row[place] is None else float(str(row[place])) / unit for row in table.rows]
    most = max((value for value in values if value is not None), default=0)
    highest, step = scale(max(most, _LEAST.get(column, 1.0)))
    width = (_RIGHT - _LEFT) / max(len(values), 1)
    bars = []
    for number, (row, value) in enumerate(zip(table.rows, values, strict=True)):
        height = (value or 0) / highest * (_BOTTOM - _TOP)
        value_text = _cell(column, row[place]) or "none"
        bars.append(DayBar(str(row[0]), value_text, _LEFT + number * width, _BOTTOM - height, width * 0.9, height))
    lines = int(highest / step + 0.5) + 1
    every = max(1, -(-len(values) // _DATES))
    return DayPlot(
        title,
        tuple(bars),
        tuple((_BOTTOM - line * step / highest * (_BOTTOM - _TOP), grouped(line * step)) for line in range(lines)),
        tuple((_LEFT + (day + 0.45) * width, _date(table.rows[day][0])) for day in range(0, len(values), every)),
    )


def _date(day: object) -> str:
    return f"{day.day} {day:%b}" if isinstance(day, date) else str(day)


def _cell(column: str, value: object) -> str:
    """Return a value as people read it: parts in percent, waits as h:mm:ss, thousands apart."""
    if value is None:
        return ""
    if not isinstance(value, int | float | Decimal):
        return str(value)
    if column in _PARTS:
        return f"{100 * value:.1f} %"
    if column.endswith("_seconds"):
        return elapsed(float(value))
    return (f"{value:,}" if isinstance(value, int) else f"{value:,.2f}").replace(",", " ")


def _words(column: str) -> str:
    return _HEADINGS.get(column) or column.replace("_", " ").capitalize()


def _plain(value: object) -> JsonValue:
    return value if value is None or isinstance(value, str | int | float) else str(value)
