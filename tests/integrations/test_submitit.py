"""submitit submits, cancels, checkpoints and resumes with its plug-in for OAR."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.harness.waiting import DEADLINE
from tests.integrations.conftest import Site

pytestmark = pytest.mark.e2e

COUNTS = """
import time
from pathlib import Path
import submitit

class Counts(submitit.helpers.Checkpointable):
    reached = 0

    def __call__(self):
        if self.reached:
            return f"resumed from {self.reached}"
        self.reached = 42
        Path("begun").touch()
        while True:
            time.sleep(0.1)

executor = submitit.AutoExecutor(folder="logs", cluster="oar")
executor.update_parameters(name="counts", timeout_min=10, oar_cores=1)
job = executor.submit(Counts())
while not Path("begun").exists():
    time.sleep(0.1)
print(job.job_id)
"""

RESUMES = """
import sys, time
from submitit_oar.oar import OarJob

job = OarJob("logs", "{job}")
print(job.state)
job._interrupt()
while not job.done(force_check=True):
    time.sleep(0.2)
print(job.result())
print(job._resubmitted_job.job_id, job._resubmitted_job.watcher.get_state(job._resubmitted_job.job_id, mode="force"))
"""

CANCELS = """
import time
import submitit

executor = submitit.AutoExecutor(folder="logs", cluster="oar")
executor.update_parameters(timeout_min=10)
job = executor.submit(time.sleep, 600)
job.cancel()
while not job.done(force_check=True):
    time.sleep(0.2)
print(job.state)
"""


def test_functions_run_as_jobs_and_arrays(site: Site, snippets: Callable[[str], list[str]]) -> None:
    """The guide's function and array bring their results."""
    (text,) = snippets("submitit")
    assert site.script(text).splitlines() == ["49", "[1, 4, 9]"]


def test_jobs_are_cancelled(site: Site) -> None:
    """A cancelled job is one that failed."""
    assert site.script(CANCELS).splitlines()[-1] == "FAILED"


def test_a_checkpointed_job_goes_on_where_it_was(site: Site) -> None:
    """The job ends with status 99 and its copy begins with what was reached; a minute is made to have passed."""
    (job,) = site.script(COUNTS).splitlines()
    site.cluster.wait_for([int(job)], ["Running"], DEADLINE)
    with psycopg.connect(site.cluster.dsn(), autocommit=True) as connection:
        connection.execute("UPDATE jobs SET started_at = started_at - interval '2 minutes' WHERE job_id = %s", [job])
    state, *_, result, copy = site.script(RESUMES.format(job=job)).splitlines()
    assert (state, result) == ("RUNNING", "resumed from 42")
    again, reported = copy.split()
    assert int(again) > int(job)
    assert reported in ("COMPLETED", "COMPLETING")
    assert site.cluster.wait_for([int(job), int(again)], ["Terminated"], DEADLINE)
