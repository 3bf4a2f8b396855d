"""Replays by predicted run times."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.model.errors import UsageError
from oarpy.model.setting_values import PolicyName
from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.predicted import Predicted, predicted
from oarpy.simulation.engines.production import FullPasses
from oarpy.simulation.run import run_simulate
from oarpy.simulation.traces.trace import TraceJob, in_submit_order
from tests.harness.examples import examples

JOBS = st.lists(
    st.tuples(st.integers(0, 25), st.integers(1, 12), st.integers(0, 20), st.integers(1, 6), st.sampled_from("ab")),
    min_size=1,
    max_size=20,
)
TRACE = """; Computer: predicted
1 0 -1 10 4 -1 -1 4 1000 -1 1 1 1 -1 1 -1 -1 -1
2 1 -1 10 4 -1 -1 4 1000 -1 1 1 1 -1 1 -1 -1 -1
3 2 -1 30 4 -1 -1 4 1000 -1 1 1 1 -1 1 -1 -1 -1
"""


def workload(rows: list[tuple[int, int, int, int, str]]) -> tuple[TraceJob, ...]:
    return in_submit_order([
        TraceJob(number, submit, run, run + more, procs, user)
        for number, (submit, run, more, procs, user) in enumerate(rows, 1)
    ])  # fmt: skip


@settings(max_examples=examples(100), deadline=None)
@given(rows=JOBS, policy=st.sampled_from(["conservative", "easy"]))
def test_who_knows_all_run_times_plans_as_if_walltimes_were_exact(
    rows: list[tuple[int, int, int, int, str]], policy: PolicyName
) -> None:
    jobs, machine = workload(rows), Machine(6)
    exact = workload([(submit, run, 0, procs, user) for submit, run, _, procs, user in rows])
    known = Predicted(jobs, "fifo", machine, policy, "perfect")
    assert replay(jobs, known) == replay(exact, FullPasses(exact, "fifo", machine, policy))
    assert known.underestimated == 0


@settings(max_examples=examples(100), deadline=None)
@given(rows=JOBS, prediction=st.sampled_from(["last2", "similar"]))
def test_whatever_is_predicted_all_jobs_run_and_no_processor_twice(
    rows: list[tuple[int, int, int, int, str]], prediction: str
) -> None:
    jobs = workload(rows)
    starts = replay(jobs, predicted("conservative", prediction, "fifo", jobs, Machine(6)))
    for instant in starts:
        held = [job for job, start in zip(jobs, starts, strict=True) if start <= instant < start + job.run]
        assert sum(job.procs for job in held) <= 6
    assert all(start >= job.submit for job, start in zip(jobs, starts, strict=True))


def test_a_short_job_goes_first_where_two_runs_tell_that_it_is_short() -> None:
    runs = [TraceJob(1, 0, 10, 1000, 4, "ann"), TraceJob(2, 10, 10, 1000, 4, "ann")]
    later = [
        TraceJob(3, 20, 100, 100, 3, "bob"),
        TraceJob(4, 21, 50, 50, 4, "bob"),
        TraceJob(5, 22, 10, 1000, 1, "ann"),
    ]
    jobs = in_submit_order([*runs, *later])
    learnt = predicted("conservative", "last2", "fifo", jobs, Machine(4))
    assert replay(jobs, learnt) == [0, 10, 20, 120, 22]
    assert replay(jobs, FullPasses(jobs, "fifo", Machine(4))) == [0, 10, 20, 120, 170]


def test_the_command_compares_predictions(tmp_path: Path) -> None:
    trace, out = tmp_path / "p.swf", io.StringIO()
    trace.write_text(TRACE)
    predictions = ("walltime", "last2", "perfect")
    run_simulate(trace, 4, ["conservative"], predictions=predictions, as_json=True, stdout=out, stderr=io.StringIO())
    told = json.loads(out.getvalue())["policies"]
    assert [one["prediction"] for one in told] == list(predictions)
    assert [one["underestimated"] for one in told] == [0, pytest.approx(1 / 3), 0]
    out = io.StringIO()
    run_simulate(trace, 4, ["easy"], predictions=predictions, stdout=out, stderr=io.StringIO())
    assert "underestimated" in out.getvalue()


@pytest.mark.parametrize(
    ("policies", "predictions", "words"),
    [
        (["easy"], ["guess"], "unknown prediction 'guess'"),
        (["easy"], ["last2", "last2"], "is given twice"),
        (["compressed"], ["last2"], "policy 'compressed' does not go with the prediction 'last2'"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, policies: list[str], predictions: list[str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        run_simulate(tmp_path / "none", 4, policies, predictions=predictions)
