# SPDX-License-Identifier: MIT
"""Sends jobs to the resource and task manager OAR."""
import json
import os
import re
from pathlib import Path
from typing import Collection, Dict, IO, List, Optional

from psij import InvalidJobException, Job, JobState, JobStatus, ResourceSpecV1, SubmitException
from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutor, \
    BatchSchedulerExecutorConfig, InvalidJobStateError, check_status_exit_code
from psij.executors.batch.script_generator import TemplatedScriptGenerator


_OARSTAT_COMMAND = 'oarstat'
_JOB_ID = re.compile(r'^OAR_JOB_ID=(\d+)$', re.MULTILINE)
_ALREADY_DONE = re.compile(r'already|terminated|has ended|is over', re.IGNORECASE)
_WALLTIME_EVENTS = {'WALLTIME', 'FRAG_JOB_WALLTIME'}


class OARExecutorConfig(BatchSchedulerExecutorConfig):
    """A configuration class for the OAR executor."""

    pass


class OARJobExecutor(BatchSchedulerExecutor):
    """A :class:`~psij.JobExecutor` for `OAR <https://oar.imag.fr/>`_.

    Uses the ``oarsub``, ``oarstat``, and ``oardel`` commands, respectively, to submit, monitor,
    and cancel jobs. Works with OAR 2.5 and with schedulers that have its commands.

    Creates a batch script with #OAR directives when submitting a job. The script has to be visible
    on the nodes, as have all files in the work directory of PSI/J.

    Custom attributes prefixed with ``oar.`` are rendered as directives in the script:
    ``custom_attributes['oar.t'] = 'besteffort'`` as ``#OAR -t besteffort``, and
    ``custom_attributes['oar.stagein'] = 'x'`` as ``#OAR --stagein x``. A list stands for one
    directive each. ``oar.resources`` replaces what is asked for with ``-l``, without the walltime.

    A ``reservation_id`` is the id of a container job. OAR has no general way to ask for memory:
    sites name properties for it, to be used in ``oar.p``, such as ``memnode >= 16384``.
    """

    # see "Job states" in https://oar.imag.fr/docs/2.5/user/commands/oarstat.html
    _STATE_MAP = {
        'Waiting': JobState.QUEUED,
        'Hold': JobState.QUEUED,
        'toLaunch': JobState.QUEUED,
        'toAckReservation': JobState.QUEUED,
        'Launching': JobState.QUEUED,
        'Running': JobState.ACTIVE,
        'Suspended': JobState.ACTIVE,
        'Resuming': JobState.ACTIVE,
        'Finishing': JobState.ACTIVE,
        'toError': JobState.ACTIVE,
        'Terminated': JobState.COMPLETED,
        'Error': JobState.FAILED,
    }

    def __init__(self, url: Optional[str] = None, config: Optional[OARExecutorConfig] = None):
        """
        Parameters
        ----------
        url
            Not used, but required by the spec for automatic initialization.
        config
            An optional configuration for this executor.
        """
        if not config:
            config = OARExecutorConfig()
        super().__init__(url=url, config=config)
        self.generator = TemplatedScriptGenerator(config, Path(__file__).parent / 'oar'
                                                  / 'oar.mustache')

    def generate_submit_script(self, job: Job, context: Dict[str, object],
                               submit_file: IO[str]) -> None:
        """See :meth:`~.BatchSchedulerExecutor.generate_submit_script`."""
        assert job.spec is not None
        resources = job.spec.resources or ResourceSpecV1()
        assert isinstance(resources, ResourceSpecV1)
        attributes = {}
        if job.spec.attributes:
            attributes = dict(job.spec.attributes.custom_attributes or {})
        hierarchy = attributes.pop('oar.resources', None) or self._hierarchy(resources)
        duration = context.get('formatted_job_duration')
        context['resource_request'] = '%s,walltime=%s' % (hierarchy, duration) if duration \
            else hierarchy
        context['processes_per_node'] = resources.computed_processes_per_node
        context['options'] = self._options(attributes)
        self.generator.generate_submit_script(job, context, submit_file)
        # OAR runs the script itself
        os.chmod(submit_file.name, 0o700)

    def _hierarchy(self, resources: ResourceSpecV1) -> str:
        if resources.memory:
            raise InvalidJobException('OAR has no general way to ask for memory. Use the custom '
                                      'attribute "oar.p" with the property of the site.')
        processes = resources.computed_processes_per_node
        request = '/nodes=%d' % resources.computed_node_count
        if resources.gpu_cores_per_process:
            request += '/gpu=%d' % (processes * resources.gpu_cores_per_process)
        elif not resources.exclusive_node_use:
            request += '/core=%d' % (processes * (resources.cpu_cores_per_process or 1))
        return request

    def _options(self, attributes: Dict[str, object]) -> List[Dict[str, object]]:
        options = []
        for name, value in attributes.items():
            prefix, _, key = name.partition('.')
            if prefix.lower() == 'oar' and key:
                flag = ('-' if len(key) == 1 else '--') + key
                options += [{'flag': flag, 'value': each}
                            for each in (value if isinstance(value, list) else [value])]
        return options

    def get_submit_command(self, job: Job, submit_file_path: Path) -> List[str]:
        """See :meth:`~.BatchSchedulerExecutor.get_submit_command`."""
        return ['oarsub', '-S', str(submit_file_path.absolute())]

    def job_id_from_submit_output(self, out: str) -> str:
        """See :meth:`~.BatchSchedulerExecutor.job_id_from_submit_output`."""
        found = _JOB_ID.search(out)
        if found is None:
            raise SubmitException('No job id in the output of oarsub: %s' % out)
        return found.group(1)

    def get_cancel_command(self, native_id: str) -> List[str]:
        """See :meth:`~.BatchSchedulerExecutor.get_cancel_command`."""
        return ['oardel', native_id]

    def process_cancel_command_output(self, exit_code: int, out: str) -> None:
        """See :meth:`~.BatchSchedulerExecutor.process_cancel_command_output`."""
        if _ALREADY_DONE.search(out):
            raise InvalidJobStateError()
        raise SubmitException('Failed to cancel job: %s' % out)

    def get_status_command(self, native_ids: Collection[str]) -> List[str]:
        """See :meth:`~.BatchSchedulerExecutor.get_status_command`."""
        return [_OARSTAT_COMMAND, '-f', '-J'] + [word for id in native_ids for word in ('-j', id)]

    def parse_status_output(self, exit_code: int, out: str) -> Dict[str, JobStatus]:
        """See :meth:`~.BatchSchedulerExecutor.parse_status_output`."""
        check_status_exit_code(_OARSTAT_COMMAND, exit_code, out)
        return {native_id: self._status(about) for native_id, about in json.loads(out).items()}

    def _status(self, about: Dict[str, object]) -> JobStatus:
        state = self._STATE_MAP[str(about['state'])]
        if state == JobState.COMPLETED:
            # as wait(2) has it
            exit_code = int(str(about.get('exit_code') or 0)) >> 8
            return JobStatus(JobState.FAILED if exit_code else state, exit_code=exit_code)
        if state != JobState.FAILED:
            return JobStatus(state)
        events = about.get('events') or []
        assert isinstance(events, list)
        types = {event.get('type') for event in events if isinstance(event, dict)}
        if 'FRAG_JOB_REQUEST' in types and not types & _WALLTIME_EVENTS:
            state = JobState.CANCELED
        return JobStatus(state, message=str(about.get('message') or 'The job failed.'))

    def get_list_command(self) -> List[str]:
        """See :meth:`~.BatchSchedulerExecutor.get_list_command`."""
        return [_OARSTAT_COMMAND, '-u', '-J']

    def parse_list_output(self, out: str) -> List[str]:
        """See :meth:`~.BatchSchedulerExecutor.parse_list_output`."""
        return list(json.loads(out or '{}'))

    def _clean_submit_script(self, job: Job) -> None:
        super()._clean_submit_script(job)
        self._delete_aux_file(job, '.nodefile')
