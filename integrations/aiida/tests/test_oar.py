# SPDX-License-Identifier: MIT
"""Runs calculations for real: wherever ``oarsub`` is, with two cores on a node and a queue named ``default``."""

import json
import os
import subprocess
import tempfile
import time
import unittest

CONFIGURATION = tempfile.TemporaryDirectory()
os.environ['AIIDA_PATH'] = CONFIGURATION.name

from aiida import load_profile  # noqa: E402
from aiida.common.datastructures import CalcInfo, CodeInfo  # noqa: E402
from aiida.engine import CalcJob, run_get_node  # noqa: E402
from aiida.orm import Computer, InstalledCode, Str  # noqa: E402
from aiida.plugins import SchedulerFactory  # noqa: E402
from aiida.schedulers import SchedulerError  # noqa: E402
from aiida.schedulers.datastructures import JobState  # noqa: E402
from aiida.storage.sqlite_temp import SqliteTempBackend  # noqa: E402

TIMEOUT = 120.0


class Shell(CalcJob):
    """Runs a line of shell."""

    @classmethod
    def define(cls, spec):
        super().define(spec)
        spec.input('line', valid_type=Str)

    def prepare_for_submission(self, folder):
        with folder.open('input', 'w') as file:
            file.write(self.inputs.line.value)
        code = CodeInfo()
        code.code_uuid = self.inputs.code.uuid
        code.stdin_name, code.stdout_name = 'input', 'output'
        info = CalcInfo()
        info.codes_info, info.retrieve_list = [code], ['output']
        return info


class OARTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        load_profile(SqliteTempBackend.create_profile('tests', debug=False), allow_switch=True)
        # nodes see it: a folder of the working directory
        folder = tempfile.TemporaryDirectory(dir='.')
        cls.addClassCleanup(folder.cleanup)
        cls.computer = Computer(label='cluster', hostname='localhost', transport_type='core.local',
                                scheduler_type='oar', workdir=os.path.abspath(folder.name)).store()
        cls.computer.set_minimum_job_poll_interval(0.2)
        cls.computer.configure(safe_interval=0.0, use_login_shell=False)
        cls.code = InstalledCode(label='sh', computer=cls.computer, filepath_executable='/bin/bash').store()

    def run_line(self, line, **options):
        resources = {'num_machines': 1, 'num_mpiprocs_per_machine': 2}
        _, node = run_get_node(Shell, code=self.code, line=Str(line),
                               metadata={'options': {'resources': resources, **options}})
        return node

    def about(self, job):
        done = subprocess.run(['oarstat', '-f', '-J', '-j', job], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)[job]

    def test_a_calculation_with_options(self):
        node = self.run_line('wc -l <$OAR_NODEFILE', queue_name='default', account='physics', rerunnable=True,
                             max_wallclock_seconds=420)
        self.assertTrue(node.is_finished_ok, node.exit_message)
        self.assertEqual(node.outputs.retrieved.get_object_content('output').strip(), '2')
        about = self.about(node.get_job_id())
        found = [about[key] for key in ('queue', 'project', 'types', 'walltime', 'state')]
        self.assertEqual(found, ['default', 'physics', ['idempotent'], 420, 'Terminated'])

    def test_a_calculation_that_exceeds_its_walltime(self):
        node = self.run_line('sleep 600', max_wallclock_seconds=3)
        self.assertEqual(node.exit_status, CalcJob.exit_codes.ERROR_SCHEDULER_OUT_OF_WALLTIME.status)

    def test_jobs_are_listed_and_killed(self):
        with self.computer.get_transport() as transport:
            scheduler = self.computer.get_scheduler()
            scheduler.set_transport(transport)
            folder = os.path.join(self.computer.get_workdir(), 'by-hand')
            os.mkdir(folder)
            with open(os.path.join(folder, 'job.sh'), 'w') as file:
                file.write('#!/bin/bash\n#OAR -n by-hand\nsleep 600\n')
            job = scheduler.submit_job(folder, 'job.sh')
            info = scheduler.get_jobs(jobs=[job], as_dict=True)[job]
            self.assertIn(info.job_state, (JobState.QUEUED, JobState.RUNNING))
            self.assertEqual((info.title, info.queue_name), ('by-hand', 'default'))
            self.assertTrue(scheduler.kill_job(job))
            deadline = time.monotonic() + TIMEOUT
            while scheduler.get_jobs(jobs=[job]) and time.monotonic() < deadline:
                time.sleep(0.2)
            self.assertEqual(scheduler.get_jobs(jobs=[job]), [])

    def test_a_script_that_is_refused(self):
        with self.computer.get_transport() as transport:
            scheduler = self.computer.get_scheduler()
            scheduler.set_transport(transport)
            with open(os.path.join(self.computer.get_workdir(), 'refused.sh'), 'w') as file:
                file.write('#!/bin/bash\n#OAR -l /nodes=1000\ndate\n')
            with self.assertRaisesRegex(SchedulerError, 'can never run'):
                scheduler.submit_job(self.computer.get_workdir(), 'refused.sh')

    def test_the_entry_point_is_found(self):
        self.assertEqual(SchedulerFactory('oar').__name__, 'OarScheduler')


if __name__ == '__main__':
    unittest.main()
