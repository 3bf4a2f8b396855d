"""A recurring job on a real cluster: begun through the gateway, submitted when the module hears of it, and run."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Settings, local_nodes, running_sandbox
from tests.harness.waiting import DEADLINE, until

pytestmark = pytest.mark.e2e


def test_a_job_of_a_series_runs_its_script_as_it_was(tmp_path: Path, dsn: str) -> None:
    settings: Settings = {"database": {"url": dsn}}
    with running_sandbox(tmp_path / "cluster", settings, local_nodes("/host=n1/cpu={1}/core={2}")) as cluster:
        cluster.wait_for_gateway(DEADLINE)
        work = cluster.directory / "work"
        script = work / "job.sh"
        script.write_text("#!/bin/sh\necho then\n", encoding="utf-8")
        script.chmod(0o755)
        begun = cluster.run("oarsub", "-J", "--every", "day 8:00", "-O", "out", "./job.sh")
        series = json.loads(begun.stdout)["recurring_id"]
        script.write_text("#!/bin/sh\necho now\n", encoding="utf-8")
        with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
            connection.execute("UPDATE recurring_jobs SET next_due_at = now()")
            made = "SELECT job_id FROM jobs JOIN recurring_submissions USING (submission_id) WHERE recurring_id = %s"
            until(lambda: connection.execute(made, [series]).fetchone() is not None, "the job is there")
            jobs = [job for (job,) in connection.execute(made, [series])]
        cluster.wait_for(jobs, ["Terminated"], DEADLINE)
        assert (work / "out").read_text(encoding="utf-8") == "then\n"
        (shown,) = json.loads(cluster.run("oarstat", "--recurring", "-J").stdout)
        assert (shown["last_job"], len(jobs)) == (jobs[0], 1)
