"""Results as text: aligned tables, JSON, CSV, bare identifiers. Commands write these texts in one write."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Generic, Protocol, TypeAlias, TypeVar

import typer

from oarpy.model.errors import UsageError

_NUMBERS = re.compile(r"(\d+)")
_DIGITS = 20
"""A longer number is compared as text."""
JsonValue: TypeAlias = "str | int | float | bool | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
Document: TypeAlias = "str | int | float | bool | Sequence[object] | Mapping[str, object] | None"
"""Data shown as JSON: a value, or a TypedDict, which names the keys for readers, the type checker and OpenAPI."""

Data = TypeVar("Data", covariant=True)


class Report(Protocol[Data]):
    """The output of a command: as text for people, as data for programs. REST answers the same data."""

    def text(self) -> str:
        """Return the text, with a line end behind each line."""
        ...

    def data(self) -> Data:
        """Return the data that is written as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class TwoForms(Generic[Data]):
    """A report of two functions over data that was read."""

    text: Callable[[], str]
    data: Callable[[], Data]


@dataclass(frozen=True, slots=True)
class Look:
    """The look of the reader's terminal: ``columns`` a line, colours, and how cut text ends. A file takes any line."""

    columns: int | None = None
    colours: bool = False
    ellipsis: str = "~"

    @property
    def terminal(self) -> bool:
        """True if a person reads it."""
        return self.columns is not None

    def painted(self, text: str, colour: str) -> str:
        """Return ``text`` in a colour, a number of ECMA-48, where colours are wanted."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colours and colour and text.strip() else text


PLAIN = Look()
"""The look of output that a program reads."""

GREEN, YELLOW, BLUE, MAGENTA, CYAN, RED, DIM = "32", "33", "34", "35", "36", "31", "2"

COLOUR_WISHES = ("auto", "always", "never")
Color = Annotated[
    str,
    typer.Option("--color", metavar="|".join(COLOUR_WISHES), help="Colours; auto: on a terminal, without NO_COLOR."),
]
"""The option of commands that have colours."""


def look(wish: str = "auto") -> Look:
    """Return the look for standard output; ``wish`` is from ``--color``. Raises :class:`UsageError` for another word.

    Behind the gateway it is the caller's terminal: its width is in ``COLUMNS``, and the stream knows whether it is one.
    """
    if wish not in COLOUR_WISHES:
        raise UsageError(f"'{wish[:40]}' is no wish for colours", hint="auto, always or never")
    terminal = sys.stdout.isatty()
    fit = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Look(
        shutil.get_terminal_size().columns if terminal else None,
        wish == "always" or (wish == "auto" and fit),
        "\u2026" if speaks_unicode() else "~",
    )


def speaks_unicode() -> bool:
    """Tell whether standard output takes more than ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")


def width(text: str) -> int:
    """Return how many columns of a terminal ``text`` takes.

    >>> width("ann"), width("\u6f22\u5b57"), width("e\u0301")
    (3, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_letter_width, text))


def _letter_width(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, columns: int, ellipsis: str = "~") -> str:
    """Return ``text``, or the part of it that fits in ``columns`` with ``ellipsis`` at its end.

    >>> cut("terminal", 5)
    'term~'
    """
    if width(text) <= columns:
        return text
    kept = ""
    for letter in text:
        if width(kept + letter) > columns - 1:
            break
        kept += letter
    return kept + ellipsis if columns > 0 else ""


def _no_colour(_: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title, the least number of characters it takes, and which colour a cell has."""

    title: str
    width: int = 0
    colour: Callable[[str], str] = _no_colour


_NARROWEST = 4


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under titles."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self, seen: Look | None = None) -> str:
        """Return the table with its titles underlined, columns left-aligned and one blank between them.

        On a terminal, the widest cells are cut until lines fit; nothing is cut for a program.

        >>> print(Table((Column("id", 4), Column("S")), (("1", "R"),)).text(), end="")
        id   S
        ---- -
        1    R
        """
        seen = look() if seen is None else seen
        titles = [column.title for column in self.columns]
        rows = [tuple(map(one_line, row)) for row in self.rows]
        widths = self._widths(rows, seen.columns)
        if seen.terminal:
            titles = [cut(title, most, seen.ellipsis) for title, most in zip(titles, widths, strict=True)]
            rows = [
                tuple(cut(cell, most, seen.ellipsis) for cell, most in zip(row, widths, strict=True)) for row in rows
            ]
        # a last column of free text does not stretch the line under its title
        widths[-1] = min(widths[-1], max(self.columns[-1].width, len(self.columns[-1].title)))
        lines = [_aligned(titles, widths), " ".join("-" * most for most in widths)]
        return "\n".join([*lines, *(self._painted(row, widths, seen) for row in rows)]) + "\n"

    def _widths(self, rows: Sequence[Sequence[str]], columns: int | None) -> list[int]:
        """Return the width of each column; the widest ones give way when a line has fewer ``columns``."""
        needed = [width(column.title) for column in self.columns]
        for row in rows:
            needed = [max(most, width(cell)) for most, cell in zip(needed, row, strict=True)]
        usual = [max(most, column.width) for most, column in zip(needed, self.columns, strict=True)]
        if columns is None:
            return usual
        room = columns - (len(usual) - 1)
        if sum(usual) <= room:
            return usual
        needed = [min(most, columns) for most in needed]
        while sum(needed) > room and max(needed) > _NARROWEST:
            # of equally wide columns the last gives way: ids stand first
            place = max(range(len(needed)), key=lambda column: (needed[column], column))
            needed[place] -= 1
        return needed

    def _painted(self, row: Sequence[str], widths: Sequence[int], seen: Look) -> str:
        if not seen.colours:
            return _aligned(row, widths)
        cells = [_padded(cell, most) for cell, most in zip(row, widths, strict=True)]
        cells[-1] = cells[-1].rstrip()
        paint = (column.colour(cell) for column, cell in zip(self.columns, row, strict=True))
        return " ".join(seen.painted(cell, colour) for cell, colour in zip(cells, paint, strict=True))

    def csv(self) -> str:
        """Return the rows as CSV (RFC 4180, with a header line)."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.title for column in self.columns])
        writer.writerows(self.rows)
        return out.getvalue()


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(_padded(cell, most) for cell, most in zip(cells, widths, strict=True)).rstrip()


def _padded(cell: str, columns: int) -> str:
    return cell + " " * (columns - width(cell))


def json_text(value: Document) -> str:
    """Return ``value`` as JSON, two blanks a level, keys in the order given."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def form(report: Report[Document], *, as_json: bool) -> str:
    """Return a report in one of its two forms."""
    return json_text(report.data()) if as_json else report.text()


def show(report: Report[Document], *, as_json: bool) -> None:
    """Write a report in one of its two forms."""
    write(form(report, as_json=as_json))


def ids_text(ids: Iterable[object]) -> str:
    """Return one identifier a line."""
    return "".join(f"{identifier}\n" for identifier in ids)


def one_line(text: str) -> str:
    """Return ``text`` with everything that would break a line or move the cursor replaced by a blank.

    >>> one_line("a\\nb")
    'a b'
    """
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return the key that orders texts with the numbers in them by value: ``n2`` before ``n10``."""
    return [
        (0, int(part), "") if part.isdecimal() and len(part) <= _DIGITS else (1, 0, part)
        for part in _NUMBERS.split(text)
        if part
    ]


def local_date(seconds: float | None) -> str:
    """Return epoch ``seconds`` as ``YYYY-MM-DD hh:mm:ss`` in the local time zone, ``""`` for None."""
    return "" if seconds is None else datetime.fromtimestamp(int(seconds)).strftime("%Y-%m-%d %H:%M:%S")


def whole_seconds(seconds: float | None) -> int | None:
    """Return epoch ``seconds`` as JSON has them, None for None."""
    return None if seconds is None else int(seconds)


def joined_date(seconds: float) -> str:
    """Return epoch ``seconds`` as one word, ``YYYY-MM-DD_hh:mm:ss`` in the local time zone."""
    return local_date(seconds).replace(" ", "_")


def elapsed(seconds: float) -> str:
    """Return ``seconds`` as ``h:mm:ss``.

    >>> elapsed(3725.9)
    '1:02:05'
    """
    whole = max(0, int(seconds))
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"


def say(line: str) -> None:
    """Show a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def remark(line: str) -> None:
    """Show a line on standard error at once, beside the output for programs."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def warn(line: str) -> None:
    """Show a line on standard error at once."""
    sys.stderr.write(f"{one_line(line)}\n")
    sys.stderr.flush()


def write(text: str) -> None:
    """Put ``text`` on standard output in one write."""
    sys.stdout.write(text)
