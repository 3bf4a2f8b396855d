"""Tasks go through the cluster by the rules of Nextflow's executor for OAR, which are written anew here."""

from __future__ import annotations

import re

import pytest

from tests.harness.waiting import until
from tests.integrations.conftest import Site

pytestmark = pytest.mark.e2e

PENDING, RUNNING = ("Waiting", "toAckReservation"), ("toLaunch", "Launching", "Running", "Finishing")


class Task:
    """One task in its work folder, sent and followed as Nextflow does."""

    def __init__(self, site: Site, name: str, command: str, *directives: str) -> None:
        self.site = site
        self.work = site.folder / "work" / name
        self.work.mkdir(parents=True)
        self.log = self.work / ".command.log"
        script = self.work / ".command.run"
        lines = [f"-d {self.work}", f"-n nf-{name}_(1)", f"-O {self.log}", f"-E {self.log}", *directives]
        header = "".join(f"#OAR {line}\n" for line in lines)
        body = f"touch {self.work}/.command.begin\n{command}\necho $? >{self.work}/.exitcode\n"
        script.write_text(f"#!/bin/bash\n{header}# NEXTFLOW TASK: {name} (1)\n{body}", encoding="utf-8")
        script.chmod(0o700)
        printed = site.run("sh", "-c", f"cd {self.work} && oarsub -S ./.command.run")
        (self.job,) = [found[1] for line in printed.splitlines() if (found := re.fullmatch(r"OAR_JOB_ID=(\d+)", line))]

    @property
    def exit_code(self) -> str:
        """What the script wrote when it ended."""
        path = self.work / ".exitcode"
        return path.read_text(encoding="utf-8").strip() if path.exists() else ""

    def state(self, queue: str = "") -> str | None:
        """The state that the lines of ``oarstat`` tell: none when the job is not among them."""
        found: dict[str, str] = {}
        job = ""
        printed = self.site.run("sh", "-c", f"oarstat -f {queue} | grep -E '(Job_Id:|state =)' ", check=False)
        for line in printed.splitlines():
            if line.startswith("Job_Id:"):
                job = line.removeprefix("Job_Id:").strip()
            elif job:
                found[job] = line.partition("state =")[2].strip()
        return found.get(self.job)


def test_a_task_runs(site: Site) -> None:
    """Its states are known ones, its log and exit code are in its folder, and then it is listed no more."""
    task = Task(site, "align", "echo $OAR_JOB_NAME; (exit 3)", "-l /nodes=1/core=2,walltime=00:10:00", "-q default")
    assert task.state("default") in (*PENDING, *RUNNING, None)
    until(lambda: task.exit_code, "the task does not end")
    assert task.exit_code == "3"
    until(lambda: task.state() is None, "the job stays listed")
    assert task.log.read_text(encoding="utf-8") == "nf-align_(1)\n"


def test_memory_and_options_of_the_process(site: Site) -> None:
    """Memory is a property, options of the process are lines of their own, and one may ask for a walltime alone."""
    site.run("oarproperty", "-a", "memnode")
    site.run("oarnodesetting", "-p", "memnode=8", "--sql", "core > 0")
    task = Task(site, "sort", "true", '-p "memnode=8"', "-l walltime=00:10:00", "-t idempotent ", "--project genomes ")
    until(lambda: task.exit_code, "the task does not end")
    assert "project = genomes" in site.run("oarstat", "-f", "-j", task.job)


def test_tasks_are_cancelled(site: Site) -> None:
    """One command ends what runs and what waits."""
    runs = Task(site, "long", "sleep 600", "-l /nodes=2,walltime=00:10:00")
    until((runs.work / ".command.begin").exists, "the task does not begin")
    waits = Task(site, "late", "sleep 600", "-l /nodes=2,walltime=00:10:00")
    until(lambda: runs.state() == "Running", "the task does not run")
    assert waits.state() in PENDING
    site.run("oardel", runs.job, waits.job)
    until(lambda: runs.state() is None and waits.state() is None, "the jobs stay listed")
    assert (runs.exit_code, waits.exit_code) == ("", "")
