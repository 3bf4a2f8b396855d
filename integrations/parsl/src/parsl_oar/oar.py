# SPDX-License-Identifier: Apache-2.0
"""The provider ``OARProvider``."""

import json
import logging
import os
import re
import shlex
import time
from typing import Optional

from parsl.jobs.states import JobState, JobStatus
from parsl.launchers import SingleNodeLauncher
from parsl.launchers.base import Launcher
from parsl.providers.cluster_provider import ClusterProvider
from parsl.providers.errors import SubmitException
from parsl.utils import RepresentationMixin

from parsl_oar.template import template_string

logger = logging.getLogger(__name__)

# see "Job states" in https://oar.imag.fr/docs/2.5/user/commands/oarstat.html
translate_table = {
    "Waiting": JobState.PENDING,
    "toLaunch": JobState.PENDING,
    "toAckReservation": JobState.PENDING,
    "Launching": JobState.PENDING,
    "Hold": JobState.HELD,
    "Suspended": JobState.HELD,
    "Resuming": JobState.HELD,
    "Running": JobState.RUNNING,
    "Finishing": JobState.RUNNING,
    "toError": JobState.RUNNING,
    "Terminated": JobState.COMPLETED,
    "Error": JobState.FAILED,
}

_JOB_ID = re.compile(r"^OAR_JOB_ID=(\d+)$", re.MULTILINE)
_WALLTIME_EVENTS = {"WALLTIME", "FRAG_JOB_WALLTIME"}


class OARProvider(ClusterProvider, RepresentationMixin):
    """OAR execution provider

    This provider uses oarsub to submit, oarstat for status, and oardel to cancel jobs. The script of a block is made
    from a template; it has to be visible on the nodes, as has Parsl's run directory.

    Parameters
    ----------
    queue : str
        Queue of the blocks. If unspecified or ``None``, OAR chooses.
    project : str
        Project that the blocks are accounted to.
    nodes_per_block : int
        Nodes of a block.
    cores_per_node : int
        Cores on each of these nodes. If set to None, whole nodes are asked for. Default is None.
    request : str
        What a block asks for in OAR's words, without the walltime, such as ``/switch=1/nodes=2/gpu=1``. It takes the
        place of ``nodes_per_block`` and ``cores_per_node``.
    properties : str
        A condition on resources, as ``oarsub -p`` has it, such as ``cluster = 'blue'``.
    types : list of str
        Job types, such as ``besteffort``.
    init_blocks : int
        Number of blocks to provision at the start of the run. Default is 1.
    min_blocks : int
        Minimum number of blocks to maintain. Default is 0.
    max_blocks : int
        Maximum number of blocks to maintain. Default is 1.
    parallelism : float
        Ratio of provisioned task slots to active tasks.
    walltime : str
        Walltime requested per block in HH:MM:SS.
    scheduler_options : str
        Lines to add to the script, each beginning with #OAR.
    worker_init : str
        Command to be run before starting a worker, such as 'module load Anaconda; source activate env'.
    cmd_timeout : int
        Seconds to wait for a command of OAR. Default is 60.
    launcher : Launcher
        Launcher for this provider. The default starts workers on the first node only; blocks of several nodes need
        :class:`~parsl.launchers.MpiExecLauncher` or another that reaches all nodes.
    """

    def __init__(
        self,
        queue: Optional[str] = None,
        project: Optional[str] = None,
        nodes_per_block: int = 1,
        cores_per_node: Optional[int] = None,
        request: Optional[str] = None,
        properties: Optional[str] = None,
        types: Optional[list] = None,
        init_blocks: int = 1,
        min_blocks: int = 0,
        max_blocks: int = 1,
        parallelism: float = 1,
        walltime: str = "00:10:00",
        scheduler_options: str = "",
        worker_init: str = "",
        cmd_timeout: int = 60,
        launcher: Launcher = SingleNodeLauncher(),
    ):
        super().__init__(
            "oar",
            nodes_per_block,
            init_blocks,
            min_blocks,
            max_blocks,
            parallelism,
            walltime,
            cmd_timeout=cmd_timeout,
            launcher=launcher,
        )
        self.queue = queue
        self.project = project
        self.cores_per_node = cores_per_node
        self.properties = properties
        self.types = types or []
        self.request = request or f"/nodes={nodes_per_block}" + (f"/core={cores_per_node}" if cores_per_node else "")
        options = [("-q", queue), ("--project", project), ("-p", properties), *(("-t", one) for one in self.types)]
        lines = [f"#OAR {option} {value}" for option, value in options if value]
        self.scheduler_options = "\n".join([scheduler_options, *lines])
        self.worker_init = worker_init + "\n"

    def _status(self):
        """Ask for the state of all jobs that have not ended."""
        active = [job for job, about in self.resources.items() if not about["status"].terminal]
        if not active:
            return
        retcode, stdout, stderr = self.execute_wait("oarstat -f -J " + " ".join(f"-j {job}" for job in active))
        if retcode:
            logger.warning("oarstat failed with exit code %s: %s", retcode, stderr.strip())
            return
        for job, about in json.loads(stdout).items():
            if job in self.resources:
                self.resources[job]["status"] = self._translated(job, about)

    def _translated(self, job, about):
        state = translate_table.get(about["state"], JobState.UNKNOWN)
        exit_code = None
        message = None
        if state == JobState.COMPLETED:
            # as wait(2) has it
            exit_code = int(about.get("exit_code") or 0) >> 8
            state = JobState.FAILED if exit_code else state
        elif state == JobState.FAILED:
            message = about.get("message")
            events = {event.get("type") for event in about.get("events") or []}
            if events & _WALLTIME_EVENTS:
                state = JobState.TIMEOUT
            elif "FRAG_JOB_REQUEST" in events:
                state = JobState.CANCELLED
        paths = {name: self.resources[job][f"job_{name}"] for name in ("stdout_path", "stderr_path")}
        return JobStatus(state, message=message, exit_code=exit_code, **paths)

    def submit(self, command: str, tasks_per_node: int, job_name: str = "parsl.oar") -> str:
        """Submit the command as a job of OAR.

        Parameters
        ----------
        command : str
            Command to be made on the remote side.
        tasks_per_node : int
            Command invocations to be launched per node
        job_name : str
            Name for the job

        Returns
        -------
        job id : str
            A string identifier for the job
        """
        job_name = f"{job_name}.{time.time()}"
        assert self.script_dir, "Expected script_dir to be set"
        script_path = os.path.abspath(os.path.join(self.script_dir, job_name))
        paths = {"job_stdout_path": script_path + ".stdout", "job_stderr_path": script_path + ".stderr"}
        worker_init = self.worker_init
        if self.cores_per_node is not None:
            worker_init += f"export PARSL_CORES={self.cores_per_node // tasks_per_node}\n"
        job_config = {
            **paths,
            "request": f"{self.request},walltime={self.walltime}",
            "scheduler_options": self.scheduler_options,
            "worker_init": worker_init,
            "user_script": self.launcher(command, tasks_per_node, self.nodes_per_block, self.script_dir),
        }
        self._write_submit_script(template_string, script_path, job_name, job_config)
        # OAR runs the script itself
        os.chmod(script_path, 0o700)
        retcode, stdout, stderr = self.execute_wait(f"oarsub -S {shlex.quote(script_path)}")
        found = _JOB_ID.search(stdout)
        if retcode or found is None:
            raise SubmitException(job_name, "oarsub failed", stdout=stdout, stderr=stderr, retcode=retcode)
        job_id = found.group(1)
        self.resources[job_id] = {"job_id": job_id, "status": JobStatus(JobState.PENDING), **paths}
        return job_id

    def cancel(self, job_ids):
        """Cancel the jobs with these ids; return for each whether that was possible."""
        retcode, _, stderr = self.execute_wait("oardel " + " ".join(job_ids))
        if retcode:
            logger.warning("oardel failed with exit code %s: %s", retcode, stderr.strip())
            return [False for _ in job_ids]
        for job_id in job_ids:
            self.resources[job_id]["status"] = JobStatus(JobState.CANCELLED)
        return [True for _ in job_ids]

    @property
    def status_polling_interval(self):
        return 60
