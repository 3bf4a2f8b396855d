"""Charts of replays: columns of time, and what is drawn of few and of many jobs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread

from oarpy.model.errors import OarpyError, UsageError
from oarpy.simulation.charts.gantt import MOST_BOXES, WAITS, chart, check_plot, column_means, fullness, write_plot
from oarpy.simulation.charts.processor_rows import Bar

NOT_AT_ALL, UP_TO_10_MINUTES = WAITS[0][2], WAITS[1][2]
FEW = [Bar(1, 0, 0, 50, (0, 1)), Bar(2, 5, 50, 50, (1, 3))]


def busy_in_turn(jobs: int, rows: int) -> list[Bar]:
    """Return jobs that take all rows one after the other, for ten hours together."""
    run = 36_000 / jobs
    return [Bar(number, number * run, number * run, run, range(rows)) for number in range(jobs)]


def colours(figure: Figure, points: Sequence[tuple[float, float]]) -> list[str]:
    """Return the colours of points (time, row) of the Gantt chart, as they are drawn."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    drawn.seek(0)
    picture = imread(drawn)
    places = figure.axes[0].transData.transform(points)
    return [to_hex(picture[len(picture) - 1 - int(y), int(x)]) for x, y in places]


def test_columns_add_up_to_the_work_and_the_waits() -> None:
    edges = np.array([0.0, 10, 20, 30, 40])
    submits, starts, ends = np.array([0.0, 5]), np.array([0.0, 25]), np.array([30.0, 35])
    assert column_means(starts, ends, np.array([2.0, 1]), edges) == pytest.approx([2, 2, 2.5, 0.5])
    assert column_means(submits, starts, np.ones(2), edges) == pytest.approx([0.5, 1, 0.5, 0])
    none = np.zeros(0)
    assert column_means(none, none, none, edges) == pytest.approx([0, 0, 0, 0])


def test_cells_say_how_full_a_band_is() -> None:
    bars = [Bar(1, 0, 0, 30, (0, 1)), Bar(2, 5, 25, 10, (3,))]
    starts, ends = np.array([0.0, 25]), np.array([30.0, 35])
    low, high = fullness(bars, starts, ends, np.array([0.0, 2, 4]), np.array([0.0, 10, 20, 30, 40]))
    assert low == pytest.approx([1, 1, 1, 0])
    assert high == pytest.approx([0, 0, 0.25, 0.25])


def test_each_job_has_its_box_in_the_colour_of_its_wait() -> None:
    figure = chart(FEW, 4, "a title")
    early, late = ([(time, row + 0.5) for row in range(4)] for time in (25.0, 75.0))
    assert colours(figure, early) == [NOT_AT_ALL, NOT_AT_ALL, "#ffffff", "#ffffff"]
    assert colours(figure, late) == ["#ffffff", UP_TO_10_MINUTES, "#ffffff", UP_TO_10_MINUTES]


def test_axes_and_legend_say_what_is_meant() -> None:
    figure = chart(FEW, 4, "a $title$")
    gantt, use, queue = figure.axes
    assert gantt.get_title() == "a $title$"
    assert [axes.get_ylabel() for axes in figure.axes] == ["processors", "in use (%)", "waiting jobs"]
    assert queue.get_xlabel() == "seconds since the first submission"
    assert (gantt.get_ylim(), use.get_ylim(), queue.get_xlim()) == ((0, 4), (0, 100), (0, 100))
    legend = gantt.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [text for _, text, _ in WAITS]


@pytest.mark.parametrize(("last", "unit"), [(119, "seconds"), (120, "minutes"), (7200, "hours"), (172800, "days")])
def test_the_unit_of_time_is_that_of_the_length(last: float, unit: str) -> None:
    assert chart([Bar(1, 0, 0, last, (0,))], 1, "").axes[-1].get_xlabel() == f"{unit} since the first submission"


@pytest.mark.long
@pytest.mark.parametrize("rows", [1, 59, 61, 340])
def test_many_jobs_are_drawn_as_shades_in_a_file_that_does_not_grow_with_them(rows: int, tmp_path: Path) -> None:
    sizes = []
    for jobs in (MOST_BOXES + 1, 2 * MOST_BOXES):
        bars = busy_in_turn(jobs, rows)
        (mesh,) = (one for one in chart(bars, rows, "full").axes[0].collections if isinstance(one, QuadMesh))
        # one job after the other on everything: a single darkest shade
        assert np.asarray(mesh.get_array()) == pytest.approx(100)
        write_plot(tmp_path / "full.svg", bars, rows, "full")
        sizes.append((tmp_path / "full.svg").stat().st_size)
    assert max(sizes) - min(sizes) < 1000


def test_many_jobs_fill_the_picture() -> None:
    count = MOST_BOXES + 1
    figure = chart(busy_in_turn(count, 61), 61, "full")
    points = [(share * 10, row + 0.5) for share in (0.1, 0.5, 0.9) for row in (5, 31, 60)]
    assert set(colours(figure, points)) == {"#08306b"}


def test_nothing_is_drawn_of_no_jobs(tmp_path: Path) -> None:
    write_plot(tmp_path / "none.svg", [], 4, "none")
    assert ElementTree.parse(tmp_path / "none.svg").getroot().tag.endswith("svg")


def test_the_name_of_the_file_says_what_is_drawn(tmp_path: Path) -> None:
    bars = [Bar(1, 0, 0, 10, (0,))]
    write_plot(tmp_path / "a.PNG", bars, 1, "x")
    assert imread(tmp_path / "a.PNG", format="png").shape[:2] == (720, 1200)
    write_plot(tmp_path / "a.svg", bars, 1, "x")
    assert "<svg " in (tmp_path / "a.svg").read_text()
    with pytest.raises(UsageError, match=r"'a\.jpg' names no kind of picture"):
        check_plot(Path("a.jpg"))
    with pytest.raises(OarpyError, match="cannot write"):
        write_plot(tmp_path / "nowhere" / "a.png", bars, 1, "x")


def test_what_draws_is_loaded_only_to_draw() -> None:
    program = "import sys, oarpy.simulation.run, oarpy.client.past.history_replay; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(OarpyError) as caught:
        check_plot(Path("a.png"))
    assert str(caught.value) == "--plot needs matplotlib (pip install 'oarpy-scheduler[plots]')"
    assert caught.value.exit_status == 1
    check_plot(None)
