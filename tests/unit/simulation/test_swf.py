from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest

from oarpy.model.errors import UsageError
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.traces.swf import read_swf, write_swf
from oarpy.simulation.traces.trace import TraceJob


def record(
    number: int = 1,
    submit: str = "0",
    run: str = "10",
    allocated: str = "4",
    requested: str = "4",
    estimate: str = "20",
) -> str:
    return f"{number} {submit} -1 {run} {allocated} -1 -1 {requested} {estimate} -1 1 1 1 -1 1 -1 -1 -1"


def trace_file(folder: Path, *lines: str, name: str = "small.swf") -> Path:
    path = folder / name
    path.write_text("; Version: 2.2\n;\n\n" + "".join(line + "\n" for line in lines))
    return path


def test_a_record_becomes_a_job(tmp_path: Path) -> None:
    trace = read_swf(trace_file(tmp_path, record(7, submit="5")), Machine(100))
    assert trace.jobs == (TraceJob(7, 5, 10, 20, 4, "1", "1"),)
    assert (trace.name, trace.left_out) == ("small.swf", 0)


def test_gzip_is_recognised_by_its_content(tmp_path: Path) -> None:
    plain = trace_file(tmp_path, record(), record(2))
    packed = tmp_path / "no-suffix"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_swf(packed, Machine(100)).jobs == read_swf(plain, Machine(100)).jobs


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_is_read_like_a_file(tmp_path: Path, packed: bool) -> None:
    content = trace_file(tmp_path, record(), record(2)).read_bytes()
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(gzip.compress(content) if packed else content)
    try:
        trace = read_swf(Path(f"/dev/fd/{reading}"), Machine(100))
    finally:
        os.close(reading)
    assert [job.number for job in trace.jobs] == [1, 2]


@pytest.mark.parametrize(
    ("line", "size"),
    [
        (record(allocated="8", requested="4"), 4),
        (record(allocated="8", requested="-1"), 8),
        (record(allocated="-1", requested="4"), 4),
    ],
)
def test_size_is_what_was_requested_else_allocated(tmp_path: Path, line: str, size: int) -> None:
    assert read_swf(trace_file(tmp_path, line), Machine(100)).jobs[0].procs == size


@pytest.mark.parametrize(
    "line",
    [
        record(run="0"),
        record(run="-1"),
        record(estimate="-1"),
        record(estimate="0"),
        record(allocated="-1", requested="-1"),
        record(allocated="0", requested="0"),
        record(allocated="101", requested="101"),
        record(submit="-1"),
    ],
)
def test_records_that_cannot_be_replayed_are_counted(tmp_path: Path, line: str) -> None:
    trace = read_swf(trace_file(tmp_path, record(1), line, record(3)), Machine(100))
    assert [job.number for job in trace.jobs] == [1, 3]
    assert trace.left_out == 1


def test_run_time_is_cut_at_the_estimate(tmp_path: Path) -> None:
    assert read_swf(trace_file(tmp_path, record(run="50", estimate="20")), Machine(100)).jobs[0].run == 20


def test_fractions_of_a_second_are_kept(tmp_path: Path) -> None:
    job = read_swf(trace_file(tmp_path, record(submit="0.5", run="2.25")), Machine(100)).jobs[0]
    assert (job.submit, job.run) == (0.5, 2.25)


def test_limit_counts_the_jobs_that_are_replayed(tmp_path: Path) -> None:
    trace = read_swf(
        trace_file(tmp_path, record(1, run="0"), record(2), record(3), record(4, run="0"), record(5)), Machine(100), 2
    )
    assert [job.number for job in trace.jobs] == [2, 3]
    assert trace.left_out == 1


def test_jobs_are_ordered_by_submission_then_number(tmp_path: Path) -> None:
    trace = read_swf(
        trace_file(tmp_path, record(3, submit="9"), record(2, submit="4"), record(1, submit="9")), Machine(100)
    )
    assert [job.number for job in trace.jobs] == [2, 1, 3]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1 2 3", "line 5: 3 fields instead of 18"),
        (record() + " 0", "line 5: 19 fields instead of 18"),
        (record(run="ten"), "line 5: 'ten' is not a number"),
        (record(run="nan"), "line 5: 'nan' is not a number"),
        (record(run="inf"), "line 5: 'inf' is not a number"),
        (record(requested="2.5"), "line 5: the job number and the processors must be whole"),
    ],
)
def test_a_malformed_line_is_one_clear_error(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=r"\A[^\n]+\Z") as caught:
        read_swf(trace_file(tmp_path, record(), line, record()), Machine(100))
    assert complaint in str(caught.value)
    assert caught.value.exit_status == 2


def test_unreadable_files_are_one_clear_error(tmp_path: Path) -> None:
    cut = tmp_path / "cut.swf.gz"
    cut.write_bytes(gzip.compress(b"; comment\n" * 5000)[:40])
    for path in (tmp_path / "missing.swf", tmp_path, cut):
        with pytest.raises(UsageError, match="cannot read the trace"):
            read_swf(path, Machine(10))


def test_written_jobs_are_read_back(tmp_path: Path) -> None:
    jobs = (TraceJob(1, 0, 5, 10, 2), TraceJob(2, 3.5, 100000, 100001, 64))
    out = io.StringIO()
    write_swf(jobs, out, comments=["Computer: none"])
    path = tmp_path / "own.swf"
    path.write_text(out.getvalue())
    assert read_swf(path, Machine(64)).jobs == jobs
