# SPDX-License-Identifier: Apache-2.0
"""Runs blocks for real: wherever ``oarsub`` is, with two cores on a node and a queue named ``default``."""

import json
import os
import subprocess
import tempfile
import time
import unittest

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.jobs.states import JobState
from parsl.providers.errors import SubmitException

from parsl_oar import OARProvider

TIMEOUT = 120.0


def about(job):
    done = subprocess.run(["oarstat", "-f", "-J", "-j", job], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)[job]


class OARTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=".")
        self.addCleanup(folder.cleanup)
        self.folder = os.path.abspath(folder.name)

    def provider(self, **options):
        provider = OARProvider(**{"queue": "default", "cores_per_node": 1, **options})
        provider.script_dir = self.folder
        return provider

    def ended(self, provider, job):
        """Return the status of a job once it has ended."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            (status,) = provider.status([job])
            if status.terminal:
                return status
            time.sleep(0.2)
        self.fail(f"job {job} does not end: {about(job)}")

    def test_functions_run_in_a_block(self):
        @parsl.bash_app
        def square(number, stdout=None):
            return f"echo $(({number} * {number})) $OAR_JOB_ID $PARSL_CORES"

        provider = OARProvider(
            cores_per_node=2,
            project="astro",
            types=["idempotent"],
            walltime="00:07:00",
            # workers import what this file defines
            worker_init=f"export PYTHONPATH={os.path.dirname(os.path.abspath(__file__))}:$PYTHONPATH",
        )
        executor = HighThroughputExecutor(
            label="oar", address="127.0.0.1", max_workers_per_node=2, provider=provider, encrypted=False
        )
        config = Config(executors=[executor], run_dir=os.path.join(self.folder, "runinfo"), strategy_period=0.5)
        with parsl.load(config):
            outputs = [os.path.join(self.folder, f"out.{number}") for number in (2, 3)]
            started = [square(number, stdout=output) for number, output in zip((2, 3), outputs)]
            self.assertEqual([each.result(timeout=TIMEOUT) for each in started], [0, 0])
        results = []
        for output in outputs:
            with open(output) as file:
                results.append(file.read().split())
        self.assertEqual([number for number, _, _ in results], ["4", "9"])
        ((job, cores),) = {(job, cores) for _, job, cores in results}
        self.assertEqual(cores, "2")
        found = [about(job)[key] for key in ("project", "types", "walltime")]
        self.assertEqual(found, ["astro", ["idempotent"], 420])

    def test_a_block_that_ends(self):
        provider = self.provider()
        job = provider.submit("echo $JOBNAME", 1)
        status = self.ended(provider, job)
        self.assertEqual((status.state, status.exit_code), (JobState.COMPLETED, 0))
        with open(status.stdout_path) as file:
            self.assertIn("parsl.oar.", file.read())

    def test_a_block_that_fails(self):
        provider = self.provider()
        status = self.ended(provider, provider.submit("exit 3", 1))
        self.assertEqual((status.state, status.exit_code), (JobState.FAILED, 3))

    def test_a_block_is_cancelled(self):
        provider = self.provider()
        job = provider.submit("sleep 600", 1)
        self.assertEqual(provider.cancel([job]), [True])
        self.assertEqual(provider.status([job])[0].state, JobState.CANCELLED)

    def test_a_block_that_somebody_deletes(self):
        provider = self.provider()
        job = provider.submit("sleep 600", 1)
        subprocess.run(["oardel", job], check=True, capture_output=True)
        self.assertEqual(self.ended(provider, job).state, JobState.CANCELLED)

    def test_a_request_that_is_refused(self):
        with self.assertRaises(SubmitException) as refused:
            self.provider(request="/nodes=1000").submit("date", 1)
        self.assertIn("can never run", str(refused.exception))


if __name__ == "__main__":
    unittest.main()
