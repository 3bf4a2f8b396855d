from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from oarpy.model.errors import OarpyError, UsageError
from oarpy.simulation.charts.gantt import write_plot
from oarpy.simulation.charts.processor_rows import processor_rows, trace_bars
from oarpy.simulation.reports.metrics import measure
from oarpy.simulation.run import run_simulate
from oarpy.simulation.traces.trace import TraceJob
from tests.harness.busy_processors import busy_steps

JOBS = (TraceJob(1, 0, 100, 100, 3), TraceJob(2, 10, 5, 5, 2), TraceJob(3, 20, 60, 60, 1))
TRACE = """; Computer: three jobs
1 0 -1 100 3 -1 -1 3 100 -1 1 1 1 -1 1 -1 -1 -1
2 10 -1 5 2 -1 -1 2 5 -1 1 1 1 -1 1 -1 -1 -1
3 20 -1 60 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1
4 30 -1 -1 1 -1 -1 1 60 -1 5 1 1 -1 1 -1 -1 -1
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "three.swf"
    path.write_text(TRACE)
    return path


def simulate(trace: Path, *policies: str, **options: object) -> str:
    out = io.StringIO()
    assert run_simulate(trace, 4, policies, stdout=out, stderr=io.StringIO(), **options) == 0  # type: ignore[arg-type]
    return out.getvalue()


def test_metrics_of_three_jobs() -> None:
    metrics = measure(JOBS, [0, 100, 100], 4)
    assert (metrics.jobs, metrics.max_wait, metrics.makespan) == (3, 90, 160)
    assert metrics.mean_wait == pytest.approx((0 + 90 + 80) / 3)
    assert metrics.mean_bounded_slowdown == pytest.approx((1 + 95 / 10 + 140 / 60) / 3)
    assert metrics.utilisation == pytest.approx((300 + 10 + 60) / (4 * 160))


def test_a_slowdown_is_never_below_1() -> None:
    assert measure([TraceJob(1, 0, 2, 2, 1)], [0], 1).mean_bounded_slowdown == 1


def test_json_summary(trace: Path) -> None:
    summary = json.loads(simulate(trace, "fcfs", "easy", as_json=True))
    assert {key: summary[key] for key in ("trace", "procs", "left_out")} == {
        "trace": "three.swf",
        "procs": 4,
        "left_out": 1,
    }
    fcfs, easy = summary["policies"]
    assert fcfs.pop("seconds") >= 0
    assert fcfs.pop("mean_wait") == pytest.approx(170 / 3)
    assert fcfs.pop("mean_bounded_slowdown") == pytest.approx((1 + 9.5 + 14 / 6) / 3)
    assert fcfs == {
        "policy": "fcfs",
        "order": "fifo",
        "jobs": 3,
        "max_wait": 90,
        "utilisation": 370 / 640,
        "makespan": 160,
    }
    assert (easy["policy"], easy["mean_wait"], easy["makespan"]) == ("easy", 30, 105)


def test_csv_has_one_row_a_job(trace: Path, tmp_path: Path) -> None:
    simulate(trace, "easy", output=tmp_path / "jobs.csv")
    assert (tmp_path / "jobs.csv").read_text() == (
        "job,submit,start,end,procs,wait,bounded_slowdown\n"
        "1,0,0,100,3,0,1.0\n"
        "2,10,100,105,2,90,9.5\n"
        "3,20,20,80,1,0,1.0\n"
    )


def test_each_policy_gets_its_own_files(trace: Path, tmp_path: Path) -> None:
    simulate(trace, "fcfs", "easy", output=tmp_path / "jobs.csv", plot=tmp_path / "gantt.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "gantt-easy.svg",
        "gantt-fcfs.svg",
        "jobs-easy.csv",
        "jobs-fcfs.csv",
        "three.swf",
    ]


def test_the_table_names_policies_and_what_was_left_out(trace: Path) -> None:
    title, header, fcfs, easy = simulate(trace, "fcfs", "easy").splitlines()
    assert title == "three.swf: 3 jobs on 4 processors (1 left out)"
    assert header.split()[:3] == ["policy", "order", "jobs"]
    assert fcfs.split()[:5] == ["fcfs", "fifo", "3", "0:0:56", "0:1:30"]
    assert easy.split()[0] == "easy"


def test_first_jobs_only(trace: Path) -> None:
    assert json.loads(simulate(trace, "fcfs", as_json=True, jobs=2))["policies"][0]["jobs"] == 2


def test_a_trace_without_a_job_that_fits_gives_zeros(trace: Path) -> None:
    trace.write_text("1 0 -1 9 99 -1 -1 99 9 -1 1 1 1 -1 1 -1 -1 -1\n")
    summary = json.loads(simulate(trace, "easy", as_json=True, plot=trace.with_suffix(".svg")))
    assert summary["left_out"] == 1
    assert summary["policies"][0]["jobs"] == summary["policies"][0]["mean_wait"] == 0


@pytest.mark.parametrize(
    ("procs", "policies", "options", "complaint"),
    [
        (0, ["easy"], {}, "0 processors"),
        (4, [], {}, "no policy"),
        (4, ["easy", "best"], {}, "unknown policy 'best'"),
        (4, ["easy", "easy"], {}, "given twice"),
        (4, ["easy"], {"order": "random"}, "unknown order 'random'"),
        (4, ["easy"], {"jobs": 0}, "0 jobs"),
    ],
)
def test_wrong_arguments_are_one_clear_error(
    trace: Path, procs: int, policies: list[str], options: dict[str, object], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        run_simulate(trace, procs, policies, **options)  # type: ignore[arg-type]


def test_a_file_that_cannot_be_written_is_one_clear_error(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(OarpyError, match=r"cannot write .*: No such file"):
        simulate(trace, "easy", output=tmp_path / "nowhere" / "jobs.csv")


def test_where_to_write_is_looked_at_before_anything_is_replayed(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs-fcfs.svg").mkdir()
    output, plot = tmp_path / "jobs.csv", tmp_path / "jobs.svg"
    with pytest.raises(OarpyError, match=r"cannot write '.*/jobs-fcfs.svg': Is a directory"):
        run_simulate(trace, 4, ["easy", "fcfs"], output=output, plot=plot)
    assert [path.name for path in tmp_path.glob("jobs*")] == ["jobs-fcfs.svg"]
    with pytest.raises(OarpyError, match=r"cannot write .*: Not a directory"):
        simulate(trace, "easy", output=trace / "jobs.csv")


def test_progress_is_drawn_on_a_terminal_only(trace: Path) -> None:
    terminal, pipe = Terminal(), io.StringIO()
    run_simulate(trace, 4, ["easy"], stdout=io.StringIO(), stderr=terminal)
    run_simulate(trace, 4, ["easy"], stdout=io.StringIO(), stderr=pipe)
    assert "easy" in terminal.getvalue()
    assert "3/3" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert pipe.getvalue() == ""


def test_the_chart_is_well_formed_and_shows_every_job(tmp_path: Path) -> None:
    write_plot(tmp_path / "chart.svg", trace_bars(JOBS, [0, 100, 20], 4), 4, "a <title> & more")
    root = ElementTree.parse(tmp_path / "chart.svg").getroot()
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["a <title> & more", "job 1", "job 2", "job 3"]


def test_rows_of_the_chart_never_overlap() -> None:
    assert processor_rows(JOBS, [0, 100, 20], 4) == [[0, 1, 2], [0, 1], [3]]


def test_busy_processors_over_time() -> None:
    assert busy_steps(JOBS, [0, 100, 20]) == [(0, 3), (20, 4), (80, 3), (100, 2), (105, 0)]
