"""Charts as PNG: what a reader of the file finds in it."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from oarpy.model.errors import OarpyError, UsageError
from oarpy.simulation.gantt_layout import COLOURS, GANTT, LEFT, MOST_BOXES, TOP, WIDTH
from oarpy.simulation.gantt_png import write_png
from oarpy.simulation.pixels import Picture, text_width
from oarpy.simulation.plot import check_plot, write_plot
from oarpy.simulation.processor_rows import Bar


def pixels(data: bytes) -> NDArray[np.uint8]:
    """Read a PNG of eight bits a colour, without filters, and check the sum of each chunk."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + content),)
        chunks[kind] = content
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 2, 0, 0, 0]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def drawn(bars: list[Bar], rows: int) -> NDArray[np.uint8]:
    out = io.BytesIO()
    write_png(bars, rows, "a title", out)
    return pixels(out.getvalue())


def at(picture: NDArray[np.uint8], share: float, row: float, rows: int) -> str:
    """Return the colour of a row of the Gantt chart at a part of its time."""
    red, green, blue = picture[int(TOP + GANTT * (1 - (row + 0.5) / rows)), int(LEFT + share * WIDTH)]
    return f"#{red:02x}{green:02x}{blue:02x}"


def test_each_job_has_its_box() -> None:
    picture = drawn([Bar(1, 0, 0, 50, (0, 1)), Bar(2, 5, 50, 50, (1, 3))], 4)
    first, second = COLOURS[1], COLOURS[2]
    assert [at(picture, 0.25, row, 4) for row in range(4)] == [first, first, "#ffffff", "#ffffff"]
    assert [at(picture, 0.75, row, 4) for row in range(4)] == ["#ffffff", second, "#ffffff", second]


def test_many_jobs_are_drawn_as_shades() -> None:
    count = MOST_BOXES + 1
    picture = drawn([Bar(n, n, n, 1, range(61)) for n in range(count)], 61)
    assert {at(picture, share, row, 61) for share in (0.1, 0.5, 0.9) for row in (5, 31, 60)} == {"#1f4a77"}


def test_text_has_ink_where_it_was_put() -> None:
    picture = Picture(100, 40)
    picture.write("1.5 h", 50, 20, anchor=0.5)
    picture.write("ü", 2, 39)  # half below the edge: cut off, no error
    out = io.BytesIO()
    picture.save(out)
    dark = pixels(out.getvalue())[:36].min(axis=2) == 0
    rows, columns = np.nonzero(dark)
    assert (rows.min(), rows.max()) == (16, 22)
    assert (columns.min(), columns.max()) == (37, 64)
    assert text_width("1.5 h") == 29


def test_the_name_of_the_file_says_what_is_drawn(tmp_path: Path) -> None:
    bars = [Bar(1, 0, 0, 10, (0,))]
    write_plot(tmp_path / "a.PNG", bars, 1, "x")
    assert pixels((tmp_path / "a.PNG").read_bytes()).shape[2] == 3
    write_plot(tmp_path / "a.svg", bars, 1, "x")
    assert (tmp_path / "a.svg").read_text().startswith("<svg ")
    with pytest.raises(UsageError, match=r"'a\.jpg' names no kind of picture"):
        check_plot(Path("a.jpg"))
    with pytest.raises(OarpyError, match="cannot write"):
        write_plot(tmp_path / "nowhere" / "a.png", bars, 1, "x")
