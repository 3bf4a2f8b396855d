"""``oarpy report``: a period as a page of HTML with plots, and as CSV files."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from jinja2 import Environment, PackageLoader, select_autoescape

from oarpy.client.past.past_months import parse_month
from oarpy.client.past.periods import parse_period
from oarpy.client.rendering import JsonValue
from oarpy.model.errors import OarpyError, UsageError
from oarpy.store.analytics.report_rows import ReportTable, report_tables
from oarpy.store.database import Connection

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
_HEADINGS = {"user_name": "User", "queue_name": "Queue", "network_address": "Node"}
"""Headings of columns whose names are not words."""
_PLOTS = (
    ("utilisation", "Part of the capacity that was used"),
    ("jobs", "Jobs that ended"),
    ("mean_wait_seconds", "Mean wait, seconds"),
    ("mean_bounded_slowdown", "Mean bounded slowdown (bound 10 seconds)"),
)


@dataclass(frozen=True, slots=True)
class DayBar:
    """A day in a plot: its value, and where its bar is, in percent of the plot's width and height."""

    label: str
    value: float | None
    left: float
    width: float
    height: float


def period(text: str) -> tuple[date, date]:
    """Return the first day, and the day after the last: of a month ``YYYY-MM``, or between two dates.

    Raises :class:`UsageError`.
    """
    if "," not in text:
        month = parse_month(text, "a month such as 2026-03, or two dates: 'yesterday, tomorrow'")
        return month, (month.replace(day=28) + timedelta(days=4)).replace(day=1)
    begin, end = (moment.astimezone(UTC) for moment in parse_period(text))
    last = end.date() if end.time() == datetime.min.time() else end.date() + timedelta(days=1)
    return begin.date(), last


def tables(connection: Connection, begin: date, end: date) -> dict[str, ReportTable]:
    """Return the tables of the report by name."""
    return report_tables(connection, begin, end)


def document(found: Mapping[str, ReportTable]) -> JsonValue:
    """Return the tables as JSON: a list of objects each."""
    return {
        name: [{key: _plain(value) for key, value in zip(table.columns, row, strict=True)} for row in table.rows]
        for name, table in found.items()
    }


def page(found: Mapping[str, ReportTable], begin: date, end: date) -> str:
    """Return the report as one page of HTML that needs no other file."""
    environment = Environment(loader=PackageLoader("oarpy.client.analytics"), autoescape=select_autoescape())
    plots = [(title, _bars(found["days"], column)) for column, title in _PLOTS]
    shown = [
        (_TITLES[name], [_words(column) for column in table.columns], [list(map(_cell, row)) for row in table.rows])
        for name, table in found.items()
        if table.rows
    ]
    return environment.get_template("report.html").render(
        begin=begin, last=end - timedelta(days=1), plots=[(title, bars) for title, bars in plots if bars], tables=shown
    )


def write_page(path: Path, text: str) -> None:
    """Write the page. Raises :class:`OarpyError` when the file cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OarpyError(f"cannot write '{path}': {error.strerror or error}", hint="another place?") from error


def write_csv(folder: Path, found: Mapping[str, ReportTable]) -> None:
    """Write a file for each table. Raises :class:`OarpyError` when one cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in found.items():
            with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(table.columns)
                writer.writerows(table.rows)
    except OSError as error:
        raise OarpyError(f"cannot write to '{folder}': {error.strerror or error}", hint="another place?") from error


def require_one_place(to: Path | None, folder: Path | None, as_json: bool) -> None:
    """Raise :class:`UsageError` when nothing is to be written anywhere."""
    if to is None and folder is None and not as_json:
        raise UsageError("nothing to write", hint="--to FILE.html, --csv DIR, or -J")


def _bars(table: ReportTable, column: str) -> list[DayBar]:
    place = table.columns.index(column)
    values = [None if row[place] is None else float(str(row[place])) for row in table.rows]
    highest = max((value for value in values if value is not None), default=0) or 1
    width = 100 / max(len(values), 1)
    return [
        DayBar(str(row[0]), value, number * width, width * 0.9, 100 * (value or 0) / highest)
        for number, (row, value) in enumerate(zip(table.rows, values, strict=True))
    ]


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def _words(column: str) -> str:
    return _HEADINGS.get(column) or column.replace("_", " ").capitalize()


def _plain(value: object) -> JsonValue:
    return value if value is None or isinstance(value, str | int | float) else str(value)
