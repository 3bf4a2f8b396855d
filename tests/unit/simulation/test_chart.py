"""Charts of replays: columns of time, and what is drawn of many jobs."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import pytest

from oarpy.simulation.chart_columns import Columns
from oarpy.simulation.gantt_layout import MOST_BOXES
from oarpy.simulation.gantt_svg import write_svg
from oarpy.simulation.processor_rows import Bar

PATH = "{http://www.w3.org/2000/svg}path"


def test_columns_add_up_to_the_work_and_the_waits() -> None:
    bars = [Bar(1, 0, 0, 30, (0, 1)), Bar(2, 5, 25, 10, (3,))]
    columns = Columns(0, 10, 4)
    assert columns.busy(bars) == pytest.approx([2, 2, 2.5, 0.5])
    assert columns.waiting(bars) == pytest.approx([0.5, 1, 0.5, 0])


def test_cells_say_how_full_a_band_is() -> None:
    bars = [Bar(1, 0, 0, 30, (0, 1)), Bar(2, 5, 25, 10, (3,))]
    low, high = Columns(0, 10, 4).cells(bars, rows_per_band=2, bands=2)
    assert low == pytest.approx([1, 1, 1, 0])
    assert high == pytest.approx([0, 0, 0.25, 0.25])


@pytest.mark.parametrize("rows", [1, 59, 61, 340])
def test_many_jobs_are_drawn_as_shades_in_a_file_that_does_not_grow_with_them(rows: int) -> None:
    sizes = []
    for jobs in (MOST_BOXES + 1, 4 * MOST_BOXES):
        out = io.StringIO()
        write_svg([Bar(n, n, n, 1, range(rows)) for n in range(jobs)], rows, "full", out)
        root = ElementTree.fromstring(out.getvalue())
        gantt = next(group for group in root if group.get("id") == "gantt")
        # one job after the other on everything: a single darkest shade
        assert [path.get("fill") for path in gantt.iter(PATH)] == ["#1f4a77"]
        sizes.append(len(out.getvalue()))
    assert max(sizes) - min(sizes) < 1000
