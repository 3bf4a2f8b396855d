"""A past with windows as a scenario: what is written is a scenario, whatever milliseconds jobs began at."""

from __future__ import annotations

import json
from random import Random

import pytest

from oarpy.client.past.scenario_file import RecordedPast, scenario
from oarpy.client.past.workload import EndedJob
from oarpy.grid.simulation.command import run_of
from oarpy.store.jobs.history import RecordedWindow

BEGIN = 1_700_000_000.0


def ended(number: int, dice: Random) -> EndedJob:
    """Return a job that was submitted, began and ended at some milliseconds."""
    walltime = dice.randrange(1, 90_000_000) / 1000
    submitted = BEGIN + dice.randrange(-1000, 90_000_000) / 1000
    started = submitted + dice.randrange(90_000_000) / 1000
    return EndedJob(
        number,
        "ann",
        submission=number,
        submitted=submitted,
        started=started,
        ended=started + walltime * dice.random(),
        walltime=walltime,
        position=0,
        succeeded=True,
        checkpoint=0,
        throttle=0,
    )


@pytest.mark.parametrize("seed", range(5))
def test_every_job_has_a_start(seed: int) -> None:
    dice = Random(seed)
    jobs = [ended(number, dice) for number in range(300)]
    windows = {job.id: RecordedWindow(job.started, (job.started or 0) + (job.walltime or 0)) for job in jobs[:100]}
    past = RecordedPast(4, "conservative", jobs, {job.id: 1 for job in jobs}, windows)
    document = scenario(past, BEGIN, names=False)
    assert document["system"] == "windows"
    assert max(len(str(job["deadline"])) for job in document["jobs"]) < 25
    run_of(json.dumps(document))  # no job is refused
