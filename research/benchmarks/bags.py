"""Bags of tasks on one cluster, and predicted run times: ``oarpy bench bags [--quick] [--ended N]``.

1. Files: offers for 1,000 tasks beside 1,000 jobs, and 2,000 tasks of bags that come forward, on counted processors.
2. Passes on 1,024 cores beside 1,000 batch jobs: what the promise of a bag of 1,000 tasks takes, without a deadline,
   with one that is met, and with one for which reservations make room inside their windows; and the pass by predicted
   run times of the jobs.
3. Predictions for 10,000 jobs, and the statement that reads the runs that they are made from, by ended jobs.
4. ``oarsub --bag 1000`` on an idle cluster, until the promise is printed.

All come from a fixed seed. Seconds of 1, 2 and the predictions are processor time; ratios are to the pass without that.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, local_nodes, running_sandbox
from oarpy.model.request import parse_request
from oarpy.questions.table import answer
from oarpy.scheduler.bags.bag_pass import Bag, BagAnswers, BagStep
from oarpy.scheduler.decide import decide
from oarpy.scheduler.predictors.predicted_pass import PredictedStep
from oarpy.scheduler.predictors.run_times import PREDICTORS, JobToPredict, PastRun, predicted_run
from oarpy.scheduler.snapshot import Alternative, Snapshot, WaitingJob
from oarpy.store.passes import run_predictions
from research.benchmarks.clients import wait_for_gateway
from research.benchmarks.history import add_finished_jobs
from research.benchmarks.main_job import settle
from research.benchmarks.results import save
from research.benchmarks.windows import HOUR, Cluster, cluster

CORES = 1024
MOVABLE = 50
_FIRST_TASK, _FIRST_JOB = 1_000_000, 10_000
_FEW_ENDED = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="oarpy bench bags", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, and not to be compared")
    parser.add_argument("--ended", type=int, default=1_000_000, help="ended jobs of the longer history (1000000)")
    chosen = parser.parse_args(arguments)
    part = 10 if chosen.quick else 1
    report: dict[str, float] = {}

    def note(what: str, value: float, ratio: float | None = None) -> None:
        report[what] = value
        sys.stdout.write(f"{what:64} {value:8.3f} s{'' if ratio is None else f' {ratio:8.2f} x'}\n")
        sys.stdout.flush()

    counted(1_000 // part, note)
    passes(1_000 // part, note)
    predictions(10_000 // part, note)
    with tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder:
        on_a_server(Path(folder) / "bag", 1_000 // part, note)
        among_ended_jobs(Path(folder), chosen.ended // part, note)
    if not chosen.quick:
        save("bags", report)
    return 0


Note = Callable[..., None]


def processor_seconds(action: Callable[[], object]) -> float:
    """Return the processor time that an action takes."""
    began = time.process_time()
    action()
    return time.process_time() - began


def counted(jobs: int, note: Note) -> None:
    """Answer questions about counted processors."""
    rng = random.Random(1)
    sizes = [(rng.randint(1, 64), rng.randint(60, 4 * HOUR)) for _ in range(jobs)]
    waiting = [
        {"id": place, "procs": procs, "time": seconds, "deadline": 10_000 * HOUR, "submitted": place}
        for place, (procs, seconds) in enumerate(sizes)
    ]
    bag = {"tasks": jobs, "time": 600, "deadline": 40 * HOUR}
    offers = json.dumps({"ask": "offers", "procs": CORES, "waiting": waiting, "bag": bag})
    note(f"offers for {jobs} tasks beside {jobs} jobs, counted (aim 1)", processor_seconds(lambda: answer(offers)))
    rows, end = [], 2 * jobs // 100 * 600 + HOUR
    for place in range(2 * jobs):
        start = HOUR + place // 100 * 600
        rows.append({"id": place, "start": start, "time": 600, "procs": 1, "bag": f"b{place % 20}"})
    running = [[0, HOUR, 64], [0, 600, 36]]
    bags = {f"b{place}": end for place in range(20)}
    forward = json.dumps({"ask": "advance", "procs": 100, "now": 1, "running": running, "waiting": rows, "bags": bags})
    note(f"{2 * jobs} tasks come forward, counted (aim 1)", processor_seconds(lambda: answer(forward)))


def passes(jobs: int, note: Note) -> None:
    """Make promises for a bag in passes of a busy cluster."""
    busy, rng = cluster(), random.Random(2)
    batch = tuple(
        WaitingJob(
            _FIRST_JOB + place,
            f"user{place % 50}",
            alternatives=(Alternative(parse_request(f"/core={rng.randint(1, 64)}").groups, rng.randint(1, 4) * HOUR),),
            submitted=place,
        )
        for place in range(jobs)
    )
    snapshot = replace(busy.snapshot, waiting=batch)
    alone = processor_seconds(lambda: decide(snapshot, None, matchers=busy.matchers))
    note(f"a pass of {jobs} jobs on {CORES} cores", alone)
    for what, deadline in (("without a deadline", None), ("with a deadline that is met", 6.0 * HOUR)):
        took = promised_in(busy, snapshot, jobs, deadline)
        note(f"the same, and a bag of {jobs} tasks {what} (aim 5 more)", took, took / alone)
    for number in range(1, 10 * MOVABLE):
        if len(busy.windows) == MOVABLE:
            break
        busy.accept(number, rng)
    beside = replace(busy.pass_with(batch, None), waiting=batch)
    calm = processor_seconds(lambda: decide(beside, None, matchers=busy.matchers))
    took = promised_in(busy, beside, jobs, 2.0 * HOUR)
    note(f"a bag for which {len(busy.windows)} reservations may move, as well", took, took / calm)
    runs = {job.id: job.alternatives[0].walltime * rng.uniform(0.1, 1) for job in batch}
    predicted = replace(snapshot, step=PredictedStep(runs))
    took = processor_seconds(lambda: decide(predicted, None, matchers=busy.matchers))
    note(f"the pass of {jobs} jobs by predicted run times (aim 2.5 x)", took, took / alone)


def promised_in(busy: Cluster, snapshot: Snapshot, tasks: int, deadline: float | None) -> float:
    """Return what a pass takes in which a new bag of tasks of ten minutes gets its promise."""
    way = (Alternative(parse_request("/core=1").groups, 600),)
    new = [WaitingJob(_FIRST_TASK + place, "ann", alternatives=way, types=("bag",)) for place in range(tasks)]
    step = BagStep([Bag(_FIRST_TASK, frozenset(job.id for job in new), deadline)], share=75)
    asking = replace(snapshot, waiting=(*snapshot.waiting, *new), promising=step)
    began = time.process_time()
    decided = decide(asking, None, matchers=busy.matchers)
    took = time.process_time() - began
    assert isinstance(decided.promised, BagAnswers)
    assert decided.promised.promises
    return took


def predictions(jobs: int, note: Note) -> None:
    """Predict the run times of jobs of 100 users with 30 runs each."""
    rng = random.Random(3)
    histories = {
        f"user{user}": [
            PastRun(f"user{user}", f"name{run % 3}", HOUR, rng.uniform(60, HOUR), -run) for run in range(30)
        ]
        for user in range(100)
    }
    waiting = [JobToPredict(f"user{place % 100}", f"name{place % 7}", HOUR + place % 9) for place in range(jobs)]

    def predict() -> None:
        for job in waiting:
            predicted_run(PREDICTORS["similar"], job, histories[job.user], 0)

    note(f"predictions for {jobs} jobs (aim 1)", processor_seconds(predict))


def on_a_server(folder: Path, tasks: int, note: Note) -> None:
    """Submit a bag to an idle cluster, and an array."""
    with idle_server(folder) as sandbox:
        took = {}
        for option in ("--array", "--bag"):
            began = time.perf_counter()
            done = sandbox.run("oarsub", option, str(tasks), "-l", "/core=1,walltime=0:10:0", "date")
            took[option] = time.perf_counter() - began
            kind, number = option[2:], done.stdout.partition("OAR_ARRAY_ID=")[2].split()[0]
            sandbox.run("oardel", f"--{kind}", number)
            settle(sandbox)
        note(f"oarsub --array {tasks} until its ids are printed, wall-clock", took["--array"])
        what = f"oarsub --bag {tasks} until its promise is printed, wall-clock (aim 3)"
        note(what, took["--bag"], took["--bag"] / took["--array"])


def among_ended_jobs(folder: Path, ended: int, note: Note) -> None:
    """Read the runs that predictions are made from, among few ended jobs and among many."""
    few = 0.0
    for place, jobs in enumerate((_FEW_ENDED, ended)):
        with idle_server(folder / str(place)) as sandbox:
            add_finished_jobs(sandbox.dsn(), jobs)
            took = statement_seconds(sandbox.dsn())
        few = few or took
        note(f"last runs of 200 users among {jobs} ended jobs, wall-clock (aim 1.5 x)", took, took / few)


@contextmanager
def idle_server(folder: Path) -> Iterator[Sandbox]:
    """Run a server with 34 cores."""
    with running_sandbox(folder, {"log": {"level": "warning"}}, local_nodes("/host=n[1-17]/core={2}")) as sandbox:
        wait_for_gateway(sandbox)
        yield sandbox


def statement_seconds(dsn: str) -> float:
    """Return the shortest of some looks at the last runs of the users of 1,000 jobs."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")
        jobs = [row[0] for row in connection.execute("SELECT job_id FROM jobs ORDER BY job_id DESC LIMIT 10000")]
        took = []
        for _ in range(7):
            began = time.perf_counter()
            run_predictions.runs(connection, jobs)
            took.append(time.perf_counter() - began)
    return min(took)


if __name__ == "__main__":
    sys.exit(main())
