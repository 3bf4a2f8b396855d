from __future__ import annotations

import gzip
import hashlib
import io
import json
from pathlib import Path

import pytest

from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import POLICIES, make_scheduler
from oarpy.simulation.reports.metrics import measure
from oarpy.simulation.run import run_simulate
from oarpy.simulation.traces.swf import read_swf
from oarpy.simulation.workloads.lublin import ALL_JOBS, generate
from tests.harness.busy_processors import busy_steps

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
KTH = TRACES / "archive" / "KTH-SP2-1996-2.swf.gz"

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason=f"no workload traces in {TRACES}")

ARCHIVE = pytest.mark.parametrize(
    ("name", "procs", "replayed", "left_out"),
    [
        ("KTH-SP2-1996-2.swf.gz", 100, 28_481, 8),
        ("KTH-SP2-1996-2.1-cln.swf.gz", 100, 28_467, 9),
        ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, 53_999, 5_716),
        ("CTC-SP2-1996-3.1-cln.swf.gz", 338, 77_199, 23),
        ("NASA-iPSC-1993-3.1-cln.swf.gz", 128, 0, 18_239),
    ],
)


@ARCHIVE
def test_usable_jobs_of_the_archive(name: str, procs: int, replayed: int, left_out: int) -> None:
    trace = read_swf(TRACES / "archive" / name, Machine(procs))
    assert (len(trace.jobs), trace.left_out) == (replayed, left_out)
    assert all(0 < job.run <= job.estimate and 0 < job.procs <= procs for job in trace.jobs)


def test_a_trace_of_a_real_oar_is_read() -> None:
    trace = read_swf(TRACES / "oar" / "gofree-2011-sample.swf.gz", Machine(352))
    assert len(trace.jobs) + trace.left_out == 1448
    assert max(job.procs for job in trace.jobs) == 336


def test_easy_on_all_of_kth() -> None:
    trace = read_swf(KTH, Machine(100))
    metrics = measure(trace.jobs, replay(trace.jobs, make_scheduler("easy", "fifo", trace.jobs, Machine(100))), 100)
    assert metrics.mean_wait / 60 == pytest.approx(114, abs=0.1)
    assert metrics.mean_bounded_slowdown == pytest.approx(92.6, abs=0.05)
    assert metrics.utilisation == pytest.approx(0.6856, abs=0.0001)


def test_conservative_backfilling_on_all_of_kth() -> None:
    """The starts are those that the planner gave when each of its passes was run: 55 seconds of the processor."""
    trace = read_swf(KTH, Machine(100))
    starts = replay(trace.jobs, make_scheduler("conservative", "fifo", trace.jobs, Machine(100)))
    assert hashlib.sha256(repr(starts).encode()).hexdigest().startswith("526d21ea7f15632a")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("name", "procs"), [("KTH-SP2-1996-2", 100), ("SDSC-SP2-1998-4.2-cln", 128)])
def test_no_processor_is_used_twice_and_nobody_starts_before_submission(policy: str, name: str, procs: int) -> None:
    jobs = read_swf(TRACES / "archive" / f"{name}.swf.gz", Machine(procs), 600).jobs
    starts = replay(jobs, make_scheduler(policy, "fifo", jobs, Machine(procs)))
    assert max(busy for _, busy in busy_steps(jobs, starts)) <= procs
    assert all(start >= job.submit for job, start in zip(jobs, starts, strict=True))


def test_backfilling_shortens_the_wait_of_a_real_workload() -> None:
    jobs = read_swf(KTH, Machine(100), 1000).jobs
    waits = {
        policy: measure(jobs, replay(jobs, make_scheduler(policy, "fifo", jobs, Machine(100))), 100).mean_wait
        for policy in POLICIES
    }
    assert all(waits[policy] < waits["fcfs"] / 2 for policy in POLICIES if policy != "fcfs")


def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    summaries, files = [], []
    for attempt in ("one", "two"):
        folder = tmp_path / attempt
        folder.mkdir()
        out = io.StringIO()
        csv, svg = folder / "jobs.csv", folder / "gantt.svg"
        run_simulate(KTH, 100, POLICIES, jobs=400, as_json=True, output=csv, plot=svg, stdout=out)
        summary = json.loads(out.getvalue())
        summaries.append([{**policy, "seconds": 0} for policy in summary["policies"]])
        files.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert summaries[0] == summaries[1]
    assert files[0] == files[1]
    assert len(files[0]) == 2 * len(POLICIES)


def test_our_sizes_resemble_those_that_the_authors_of_the_model_drew() -> None:
    theirs = authors_sizes(TRACES / "models" / "lublin99-256procs-10000jobs.swf.gz")
    ours = [job.procs for job in generate(ALL_JOBS.fitted(256), 10_000, 1)]
    assert ours.count(1) / len(ours) == pytest.approx(theirs.count(1) / len(theirs), abs=0.02)
    assert sum(ours) / len(ours) == pytest.approx(sum(theirs) / len(theirs), rel=0.06)


def authors_sizes(path: Path) -> list[int]:
    """Return the size of each record, read here because this trace lacks the estimates that the reader wants."""
    lines = gzip.decompress(path.read_bytes()).decode("ascii").splitlines()
    return [int(line.split()[4]) for line in lines if line and not line.startswith(";")]
