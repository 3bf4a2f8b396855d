"""Results as text: aligned tables, JSON, CSV, bare identifiers. Commands write what these return in one write."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

_INSTANT = re.compile(r"\b(at|until) (\d{9,11})(?:\.\d+)?\b")


def dated(reason: str) -> str:
    """Replace epoch seconds after "at" and "until" by local dates.

    >>> dated("held until something, quota of 5000000000")
    'held until something, quota of 5000000000'
    """
    return _INSTANT.sub(lambda found: f"{found[1]} {local_date(float(found[2]))}", reason)


JsonValue: TypeAlias = "str | int | float | bool | Sequence[JsonValue] | Mapping[str, JsonValue] | None"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title and the least number of characters it takes."""

    title: str
    width: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under titles."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        """Return the table with its titles underlined, columns left-aligned and one blank between them.

        >>> print(Table((Column("id", 4), Column("S")), (("1", "R"),)).text(), end="")
        id   S
        ---- -
        1    R
        """
        widths = [max(column.width, len(column.title)) for column in self.columns]
        rows = [tuple(map(one_line, row)) for row in self.rows]
        for row in rows:
            widths = [max(width, len(cell)) for width, cell in zip(widths, row, strict=True)]
        # a last column of free text does not stretch the line under its title
        widths[-1] = max(self.columns[-1].width, len(self.columns[-1].title))
        lines = [_aligned([column.title for column in self.columns], widths), " ".join("-" * width for width in widths)]
        lines += [_aligned(row, widths) for row in rows]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Return the rows as CSV (RFC 4180, with a header line)."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.title for column in self.columns])
        writer.writerows(self.rows)
        return out.getvalue()


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def json_text(value: JsonValue) -> str:
    """Return ``value`` as JSON, two blanks a level, keys in the order given."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def ids_text(ids: Iterable[object]) -> str:
    """Return one identifier a line."""
    return "".join(f"{identifier}\n" for identifier in ids)


def one_line(text: str) -> str:
    """Return ``text`` with everything that would break a line or move the cursor replaced by a blank.

    >>> one_line("a\\nb")
    'a b'
    """
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def local_date(seconds: float | None) -> str:
    """Return epoch ``seconds`` as ``YYYY-MM-DD hh:mm:ss`` in the local time zone, ``""`` for None."""
    return "" if seconds is None else datetime.fromtimestamp(int(seconds)).strftime("%Y-%m-%d %H:%M:%S")


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
    """Show a line on standard error at once, beside what programs read."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def write(text: str) -> None:
    """Put ``text`` on standard output in one write."""
    sys.stdout.write(text)
