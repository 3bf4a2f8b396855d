"""What the meta-scheduler writes about waiting jobs: what is new at once, many moves merged, unchanged ones never."""

from __future__ import annotations

from oarpy.model.reasons import NO_REASON
from oarpy.modules.metascheduler.written_predictions import MANY, PERIOD, ToldPredictions
from oarpy.scheduler.verdicts import Verdict
from oarpy.store.passes.decisions import Prediction


def predictions(jobs: int, start: float, verdict: Verdict = Verdict.RESOURCES_BUSY) -> dict[int, Prediction]:
    return {job: Prediction(job, verdict, NO_REASON, 1, start, start + 60, "{[1,1]}") for job in range(1, jobs + 1)}


def told(jobs: int) -> ToldPredictions:
    memory = ToldPredictions()
    assert memory.committed(memory.compare(predictions(jobs, 1000), 0.0), 0.0) is None
    return memory


def test_unchanged_predictions_are_not_written() -> None:
    assert told(5).compare(predictions(5, 1001), 0.1).changed == []


def test_few_moves_are_written_at_once() -> None:
    writing = told(MANY).compare(predictions(MANY, 2000), 0.1)
    assert (len(writing.changed), writing.owing) == (MANY, False)


def test_many_moves_wait_for_the_end_of_the_period_and_are_written_then() -> None:
    memory = told(MANY + 1)
    early = memory.compare(predictions(MANY + 1, 2000), 0.25)
    assert (early.changed, early.owing) == ([], True)
    assert memory.committed(early, 0.25) == PERIOD - 0.25
    late = memory.compare(predictions(MANY + 1, 2000), PERIOD)
    assert (len(late.changed), late.owing) == (MANY + 1, False)
    assert memory.committed(late, PERIOD) is None
    assert memory.compare(predictions(MANY + 1, 2000), PERIOD + 0.1).changed == []


def test_new_jobs_and_other_verdicts_do_not_wait() -> None:
    memory = told(MANY + 2)
    now = predictions(MANY + 3, 2000) | {1: Prediction(1, Verdict.HELD, NO_REASON, None, None, None, "{}")}
    writing = memory.compare(now, 0.1)
    assert ({one.job for one in writing.changed}, writing.owing) == ({1, MANY + 3}, True)
    assert writing.told[2].start == 1000


def test_what_is_rolled_back_was_not_written() -> None:
    memory = ToldPredictions()
    memory.compare(predictions(3, 1000), 0.0)
    assert len(memory.compare(predictions(3, 1000), 0.1).changed) == 3


def test_jobs_that_a_pass_left_out_stay_as_they_are() -> None:
    memory = told(5)
    partly = memory.compare({5: predictions(5, 2000)[5]}, 0.1, frozenset({1, 2, 3}))
    assert [one.job for one in partly.changed] == [5]
    memory.committed(partly, 0.1)
    again = memory.compare(predictions(5, 1000), 0.2)
    assert [one.job for one in again.changed] == [4, 5]
