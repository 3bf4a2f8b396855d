# SPDX-License-Identifier: MIT
"""The scheduler plugin ``oar``."""

from __future__ import annotations

import datetime
import json
import re
import typing as t

from aiida.common.escaping import escape_for_bash
from aiida.schedulers import SchedulerError
from aiida.schedulers.datastructures import JobInfo, JobState, JobTemplate, NodeNumberJobResource
from aiida.schedulers.plugins.bash import BashCliScheduler

if t.TYPE_CHECKING:
    from aiida.engine.processes.exit_code import ExitCode

_JOB_ID = re.compile(r'^OAR_JOB_ID=(\d+)$', re.MULTILINE)
_WALLTIME_EVENTS = frozenset({'WALLTIME', 'FRAG_JOB_WALLTIME'})
_NODE_EVENTS = frozenset({'JOB_LOST', 'NODE_LOST'})

# see "Job states" in https://oar.imag.fr/docs/2.5/user/commands/oarstat.html
_MAP_STATUS_OAR = {
    'Waiting': JobState.QUEUED,
    'toLaunch': JobState.QUEUED,
    'toAckReservation': JobState.QUEUED,
    'Launching': JobState.QUEUED,
    'Hold': JobState.QUEUED_HELD,
    'Running': JobState.RUNNING,
    'Finishing': JobState.RUNNING,
    'toError': JobState.RUNNING,
    'Suspended': JobState.SUSPENDED,
    'Resuming': JobState.SUSPENDED,
    'Terminated': JobState.DONE,
    'Error': JobState.DONE,
}


class OarScheduler(BashCliScheduler):
    """Support for the resource and task manager OAR (https://oar.imag.fr)."""

    _logger = BashCliScheduler._logger.getChild('oar')

    _features = {'can_query_by_user': True}

    _job_resource_class = NodeNumberJobResource

    def _get_joblist_command(self, jobs: list[str] | None = None, user: str | None = None) -> str:
        """Return the command for jobs by id, or for those of a user that have not ended."""
        words = ['oarstat', '-f', '-J']
        for job in [jobs] if isinstance(jobs, str) else jobs or []:
            words += ['-j', job]
        if user and not jobs:
            # AiiDA asks for '$USER', who is whom -u alone means
            words += ['-u'] if user == '$USER' else ['-u', escape_for_bash(user)]
        return ' '.join(words)

    def _get_detailed_job_info_command(self, job_id: str) -> str:
        """Return the command for all that is known of a job, ended or not."""
        return f'oarstat -f -J -j {job_id}'

    def _get_submit_script_header(self, job_tmpl: JobTemplate) -> str:
        """Return the ``#OAR`` lines."""
        lines = [f'#OAR -l {self._request(job_tmpl)}']
        if job_tmpl.job_name:
            lines.append(f'#OAR -n {re.sub(r"[^a-zA-Z0-9_.-]+", "", job_tmpl.job_name)}')
        if job_tmpl.sched_output_path:
            lines.append(f'#OAR -O {job_tmpl.sched_output_path}')
        error_path = job_tmpl.sched_output_path if job_tmpl.sched_join_files else job_tmpl.sched_error_path
        if error_path:
            lines.append(f'#OAR -E {error_path}')
        for value, option in ((job_tmpl.queue_name, '-q'), (job_tmpl.account, '--project')):
            if value:
                lines.append(f'#OAR {option} {value}')
        if job_tmpl.submit_as_hold:
            lines.append('#OAR --hold')
        if job_tmpl.rerunnable:
            lines.append('#OAR -t idempotent')
        if job_tmpl.email:
            tags = [tag for tag, wanted in (('RUNNING', job_tmpl.email_on_started),
                                            ('END,ERROR', job_tmpl.email_on_terminated)) if wanted]
            if tags:
                lines.append(f'#OAR --notify [{",".join(tags)}]mail:{job_tmpl.email}')
        if job_tmpl.custom_scheduler_commands:
            lines.append(job_tmpl.custom_scheduler_commands)
        return '\n'.join(lines)

    def _request(self, job_tmpl: JobTemplate) -> str:
        """Return what ``-l`` asks for: nodes, cores on each, memory where the site shares it out, and walltime."""
        resource = job_tmpl.job_resource
        if resource is None:
            raise ValueError('Job resources (as the num_machines) are required for the OAR scheduler plugin')
        cores = resource.num_cores_per_machine or (
            resource.num_mpiprocs_per_machine * (resource.num_cores_per_mpiproc or 1)
        )
        parts = [f'/nodes={resource.num_machines}/core={cores}']
        if job_tmpl.max_memory_kb is not None:
            parts.append(f'memory={job_tmpl.max_memory_kb}K')
        if job_tmpl.max_wallclock_seconds is not None:
            minutes, seconds = divmod(int(job_tmpl.max_wallclock_seconds), 60)
            parts.append(f'walltime={minutes // 60}:{minutes % 60:02}:{seconds:02}')
        return ','.join(parts)

    def _get_submit_command(self, submit_script: str) -> str:
        """Return the command that submits a script, which OAR itself runs."""
        return f'chmod u+x {submit_script} && oarsub -S ./{submit_script}'

    def _parse_submit_output(self, retval: int, stdout: str, stderr: str) -> str | ExitCode:
        """Return the id of the job."""
        found = _JOB_ID.search(stdout)
        if retval != 0 or found is None:
            self.logger.error(f'Error in _parse_submit_output: retval={retval}; stdout={stdout}; stderr={stderr}')
            raise SchedulerError(f'Error during submission, retval={retval}\nstdout={stdout}\nstderr={stderr}')
        return found[1]

    def _parse_joblist_output(self, retval: int, stdout: str, stderr: str) -> list[JobInfo]:
        """Return the jobs that have not ended."""
        if retval != 0:
            raise SchedulerError(f'oarstat returned exit code {retval}; stdout={stdout}; stderr={stderr}')
        infos = (self._info(job, about) for job, about in json.loads(stdout or '{}').items())
        return [info for info in infos if info.job_state != JobState.DONE]

    def _info(self, job: str, about: dict[str, t.Any]) -> JobInfo:
        info = JobInfo()
        info.job_id = job
        info.job_state = _MAP_STATUS_OAR.get(about['state'], JobState.UNDETERMINED)
        info.title = about.get('name') or ''
        info.annotation = about.get('reason') or about.get('message') or ''
        info.job_owner = about['owner']
        info.queue_name = about['queue']
        nodes = about.get('assigned_network_address') or []
        if nodes:
            info.num_machines = len(nodes)
            info.num_cpus = len(about.get('assigned_resources') or [])
            info.allocated_machines_raw = '+'.join(nodes)
        if about.get('walltime') is not None:
            info.requested_wallclock_time_seconds = int(about['walltime'])
        for key, name in (('submission_time', 'submissionTime'), ('dispatch_time', 'startTime')):
            if about.get(name):
                setattr(info, key, datetime.datetime.fromtimestamp(about[name]))
        info.raw_data = about
        return info

    def _get_kill_command(self, jobid: str) -> str:
        """Return the command that deletes a job."""
        self.logger.info(f'killing job {jobid}')
        return f'oardel {jobid}'

    def _parse_kill_output(self, retval: int, stdout: str, stderr: str) -> bool:
        """Return whether the job will end."""
        if retval != 0:
            self.logger.error(f'Error in _parse_kill_output: retval={retval}; stdout={stdout}; stderr={stderr}')
        return retval == 0

    def parse_output(
        self,
        detailed_job_info: dict[str, str | int] | None = None,
        stdout: str | None = None,
        stderr: str | None = None,
    ) -> ExitCode | None:
        """Return an exit code for a job that exceeded its walltime or lost its node."""
        from aiida.engine import CalcJob

        if not detailed_job_info or detailed_job_info.get('retval') != 0:
            return None
        (about,) = json.loads(str(detailed_job_info['stdout'])).values()
        events = {event.get('type') for event in about.get('events') or []}
        if events & _WALLTIME_EVENTS:
            return CalcJob.exit_codes.ERROR_SCHEDULER_OUT_OF_WALLTIME
        if events & _NODE_EVENTS:
            return CalcJob.exit_codes.ERROR_SCHEDULER_NODE_FAILURE
        return None
