# SPDX-License-Identifier: MIT
"""Runs jobs for real: wherever ``oarsub`` is, with two nodes and a queue named ``default``."""
import json
import subprocess
import tempfile
import unittest
from datetime import timedelta
from pathlib import Path

from psij import InvalidJobException, Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1
from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig

TIMEOUT = timedelta(minutes=2)


class OARTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir='.')
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).absolute()
        self.out = self.folder / 'out'
        self.executor = self.new_executor()

    def new_executor(self):
        config = BatchSchedulerExecutorConfig(queue_polling_interval=0.3, initial_queue_polling_delay=0)
        config.work_directory = self.folder / 'psij'
        return JobExecutor.get_instance('oar', config=config)

    def job(self, script, **spec):
        return Job(JobSpec(executable='/bin/bash', arguments=['-c', script], stdout_path=self.out,
                           **{'attributes': JobAttributes(duration=timedelta(minutes=10)), **spec}))

    def run_job(self, script, **spec):
        job = self.job(script, **spec)
        self.executor.submit(job)
        return job, job.wait(timeout=TIMEOUT)

    def about(self, job):
        done = subprocess.run(['oarstat', '-f', '-J', '-j', job.native_id], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)[job.native_id]

    def test_job_with_attributes(self):
        attributes = JobAttributes(timedelta(minutes=7), queue_name='default', account='astro')
        attributes.custom_attributes = {'oar.t': ['idempotent'], 'oar.n': 'a name', 'slurm.qos': 'x'}
        job, status = self.run_job('echo "$TEXT"; pwd', attributes=attributes, directory=self.folder,
                                   environment={'TEXT': "it's  here"})
        self.assertEqual((status.state, status.exit_code), (JobState.COMPLETED, 0), status)
        self.assertEqual(self.out.read_text(), f"it's  here\n{self.folder}\n")
        about = self.about(job)
        found = [about[key] for key in ('queue', 'project', 'walltime', 'types', 'name')]
        self.assertEqual(found, ['default', 'astro', 420, ['idempotent'], 'a name'])

    def test_exit_code(self):
        _, status = self.run_job('exit 3')
        self.assertEqual((status.state, status.exit_code), (JobState.FAILED, 3))

    def test_nothing_is_left(self):
        self.run_job('true')
        self.assertEqual([path.name for path in (self.folder / 'psij' / 'oar').iterdir()
                          if path.suffix not in ('.out',)], [])

    def test_empty_environment(self):
        _, status = self.run_job('env', inherit_environment=False, environment={'ONE': '1'})
        self.assertEqual(status.state, JobState.COMPLETED)
        names = {line.partition('=')[0] for line in self.out.read_text().splitlines()}
        self.assertIn('ONE', names)
        self.assertNotIn('PYTHONPATH', names)

    def test_processes_on_two_nodes(self):
        resources = ResourceSpecV1(node_count=2, processes_per_node=2)
        job, status = self.run_job('echo "$_PSI_J_PROCESS_INDEX_ $WORD $PWD"', resources=resources, launcher='oarsh',
                                   directory=self.folder, environment={'WORD': 'two words'})
        self.assertEqual(status.state, JobState.COMPLETED, status)
        self.assertEqual(sorted(self.out.read_text().splitlines()),
                         [f'{index} two words {self.folder}' for index in (1, 2, 3, 4)])
        self.assertEqual(len(self.about(job)['assigned_network_address']), 2)

    def test_failure_on_a_node(self):
        resources = ResourceSpecV1(node_count=2)
        _, status = self.run_job('exit $((_PSI_J_PROCESS_INDEX_ * 5 - 5))', resources=resources, launcher='oarsh')
        self.assertEqual((status.state, status.exit_code), (JobState.FAILED, 5), status)

    def test_node_file(self):
        resources = ResourceSpecV1(node_count=1, processes_per_node=2, exclusive_node_use=True)
        _, status = self.run_job('cat $PSIJ_NODEFILE', resources=resources, launcher='multiple')
        self.assertEqual(status.state, JobState.COMPLETED, status)
        lines = self.out.read_text().splitlines()
        self.assertEqual((len(lines), len(set(lines))), (4, 1))

    def test_cancel(self):
        runs = self.job('sleep 600', resources=ResourceSpecV1(node_count=2, exclusive_node_use=True))
        waits = self.job('sleep 600', resources=ResourceSpecV1(node_count=2, exclusive_node_use=True))
        self.executor.submit(runs)
        self.assertEqual(runs.wait(timeout=TIMEOUT, target_states=[JobState.ACTIVE]).state, JobState.ACTIVE)
        self.executor.submit(waits)
        self.assertTrue({runs.native_id, waits.native_id} <= set(self.executor.list()))
        for job in (waits, runs):
            job.cancel()
            self.assertEqual(job.wait(timeout=TIMEOUT).state, JobState.CANCELED)
        # what is over already cannot be cancelled, which is no error
        attached = Job()
        self.executor.attach(attached, runs.native_id)
        self.executor.cancel(attached)

    def test_walltime(self):
        _, status = self.run_job('sleep 600', attributes=JobAttributes(duration=timedelta(seconds=2)))
        self.assertEqual(status.state, JobState.FAILED)
        self.assertIn('walltime', status.message)

    def test_attach(self):
        first = self.job('sleep 1; exit 4')
        self.executor.submit(first)
        other = Job()
        self.new_executor().attach(other, first.native_id)
        status = other.wait(timeout=TIMEOUT)
        self.assertEqual((status.state, status.exit_code), (JobState.FAILED, 4))

    def test_memory_is_refused(self):
        with self.assertRaisesRegex(InvalidJobException, 'oar.p'):
            self.executor.submit(self.job('true', resources=ResourceSpecV1(memory=1 << 30)))


if __name__ == '__main__':
    unittest.main()
