# SPDX-License-Identifier: MIT
"""Runs workflows for real: wherever ``oarsub`` and ``snakemake`` are, with two cores and a queue named ``default``."""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

WORKFLOW = """
rule all:
    input: "sum"

rule number:
    output: "number.{n}"
    resources: oar_queue="default", oar_project="genomes", oar_extra="-t idempotent", runtime=7
    shell: "echo {wildcards.n} >{output}; echo $OAR_JOB_ID >job.{wildcards.n}"

rule sum:
    input: expand("number.{n}", n=[1, 2, 3])
    output: "sum"
    threads: 2
    shell: "cat {input} | paste -sd+ >{output}; sort -u $OAR_NODEFILE | wc -l; wc -l <$OAR_NODEFILE >cores"
"""

FAILS = """
rule fails:
    output: "never"
    shell: "echo what went wrong; exit 3"
"""

REFUSED = """
rule refused:
    output: "never"
    resources: oar_resources="/nodes=1000"
    shell: "touch never"
"""


class OARTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=".")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).absolute()

    def run_workflow(self, text, *options):
        (self.folder / "Snakefile").write_text(text)
        words = [sys.executable, "-m", "snakemake", "--executor", "oar", "--jobs", "4", *options]
        words += ["--seconds-between-status-checks", "1", "--latency-wait", "5"]
        done = subprocess.run(words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def about(self, job):
        done = subprocess.run(["oarstat", "-f", "-J", "-j", job], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)[job]

    def test_a_workflow_of_dependent_jobs(self):
        status, printed = self.run_workflow(WORKFLOW)
        self.assertEqual(status, 0, printed)
        self.assertEqual((self.folder / "sum").read_text(), "1+2+3\n")
        self.assertEqual((self.folder / "cores").read_text().strip(), "2")
        about = self.about((self.folder / "job.1").read_text().strip())
        found = [about[key] for key in ("queue", "project", "types", "walltime", "state")]
        self.assertEqual(found, ["default", "genomes", ["idempotent"], 420, "Terminated"])
        self.assertTrue(about["name"].startswith("smk-number-"))

    def test_a_job_that_fails(self):
        status, printed = self.run_workflow(FAILS, "--oar-log-folder", "logs")
        self.assertEqual(status, 1)
        self.assertIn("of OAR failed", printed)
        (log,) = (self.folder / "logs").iterdir()
        self.assertIn("what went wrong", log.read_text())

    def test_a_request_that_is_refused(self):
        status, printed = self.run_workflow(REFUSED)
        self.assertEqual(status, 1)
        self.assertIn("oarsub refused job", printed)

    def test_an_interrupted_workflow_deletes_its_jobs(self):
        (self.folder / "Snakefile").write_text('rule waits:\n    output: "never"\n    shell: "touch begun; sleep 600"\n')
        words = [sys.executable, "-m", "snakemake", "--executor", "oar", "--jobs", "1"]
        with subprocess.Popen(words, cwd=self.folder, stderr=subprocess.PIPE, text=True) as running:
            job = next(found[1] for line in running.stderr if (found := re.search(r"submitted as job (\d+)", line)))
            deadline = time.monotonic() + 120
            while not (self.folder / "begun").exists() and time.monotonic() < deadline:
                time.sleep(0.2)
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=120)
        events = [event["type"] for event in self.about(job)["events"]]
        self.assertIn("FRAG_JOB_REQUEST", events)


if __name__ == "__main__":
    unittest.main()
