# SPDX-License-Identifier: MIT
"""Sends the jobs of a workflow to the resource and task manager OAR."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

_JOB_ID = re.compile(r"^OAR_JOB_ID=(\d+)$", re.MULTILINE)
_ENDED = {"Terminated", "Error"}
_MOST_JOBS = 200
"""Jobs of one call of oarstat or oardel."""


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """What ``--oar-...`` options say."""

    log_folder: str = field(
        default=".snakemake/oar_logs", metadata={"help": "Folder for the output of jobs, a file for each."}
    )
    memory: bool = field(
        default=False,
        metadata={"help": "Ask for mem_mb of each job as the consumable 'memory', where the cluster has it."},
    )


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
)


class Executor(RemoteExecutor):
    """Submits jobs with ``oarsub``, follows them with ``oarstat`` and deletes them with ``oardel``.

    A job asks for ``threads`` cores of one node, or of each of ``nodes`` nodes. The resource ``runtime`` (minutes) is
    its walltime, ``oar_queue`` and ``oar_project`` its queue and project. ``oar_resources`` replaces what is asked for
    with ``-l``, without the walltime, and ``oar_extra`` has further options of ``oarsub``.
    """

    def run_job(self, job: JobExecutorInterface):
        """Submit a job."""
        name = f"smk-{re.sub(r'[^A-Za-z0-9_.-]', '-', job.name)}-{job.jobid}"
        folder = os.path.abspath(self.workflow.executor_settings.log_folder)
        os.makedirs(folder, exist_ok=True)
        log = os.path.join(folder, f"{name}.%jobid%.log")
        words = ["oarsub", "-n", name, "-O", log, "-E", log, "-l", self._request(job)]
        for resource, option in (("oar_queue", "-q"), ("oar_project", "--project")):
            if value := job.resources.get(resource):
                words += [option, str(value)]
        words += shlex.split(str(job.resources.get("oar_extra") or ""))
        words.append(self.format_job_exec(job))
        done = subprocess.run(words, capture_output=True, text=True)
        found = _JOB_ID.search(done.stdout)
        if done.returncode or found is None:
            told = (done.stderr or done.stdout).strip()
            raise WorkflowError(f"oarsub refused job {job.jobid} ({name}): {told}")
        info = SubmittedJobInfo(job, external_jobid=found[1], aux={"log": log.replace("%jobid%", found[1])})
        self.report_job_submission(info)
        self.logger.info(f"Job {job.jobid} has been submitted as job {found[1]} of OAR (log: {info.aux['log']}).")

    def _request(self, job: JobExecutorInterface) -> str:
        resources = job.resources
        request = resources.get("oar_resources")
        if not request:
            request = f"/nodes={resources.get('nodes') or 1}/core={job.threads}"
        if self.workflow.executor_settings.memory and resources.get("mem_mb"):
            request += f",memory={resources['mem_mb']}M"
        if minutes := resources.get("runtime"):
            request += f",walltime={minutes // 60}:{minutes % 60:02}:00"
        return request

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs that have ended, and yield the others."""
        for start in range(0, len(active_jobs), _MOST_JOBS):
            some = active_jobs[start : start + _MOST_JOBS]
            async with self.status_rate_limiter:
                known = self._states([info.external_jobid for info in some])
            for info in some:
                about = known.get(info.external_jobid, {})
                if about.get("state") not in _ENDED:
                    yield info
                elif about["state"] == "Terminated" and not int(about.get("exit_code") or 0):
                    self.report_job_success(info)
                else:
                    told = about.get("message") or about["state"]
                    message = f"Job {info.external_jobid} of OAR failed: {told}. "
                    self.report_job_error(info, msg=message, aux_logs=[info.aux["log"]])

    def _states(self, ids: list[str]) -> dict[str, dict]:
        """Return what is known of jobs, nothing while the scheduler does not answer."""
        words = ["oarstat", "-f", "-J"] + [word for id in ids for word in ("-j", id)]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            self.logger.warning(f"oarstat failed, and is tried again: {done.stderr.strip()}")
            return {}
        return json.loads(done.stdout)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]):
        """Delete jobs."""
        for start in range(0, len(active_jobs), _MOST_JOBS):
            ids = [info.external_jobid for info in active_jobs[start : start + _MOST_JOBS]]
            done = subprocess.run(["oardel", *ids], capture_output=True, text=True)
            if done.returncode:
                self.logger.warning(f"oardel: {done.stderr.strip()}")
