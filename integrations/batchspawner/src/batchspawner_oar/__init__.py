# SPDX-License-Identifier: BSD-3-Clause
"""Starts notebook servers as jobs of the resource and task manager OAR."""

import re

from batchspawner.batchspawner import BatchSpawnerRegexStates, UserEnvMixin
from traitlets import Unicode

__all__ = ["OarSpawner"]


class OarSpawner(UserEnvMixin, BatchSpawnerRegexStates):
    """A spawner that uses oarsub, oarstat and oardel."""

    batch_script = Unicode(
        """#!/bin/bash
#OAR -n spawner-jupyterhub
#OAR -d {{homedir}}
#OAR -O {{homedir}}/jupyterhub_oarspawner_%jobid%.log
#OAR -E {{homedir}}/jupyterhub_oarspawner_%jobid%.log
#OAR -l {% if resources %}{{resources}}{% else %}/nodes=1/core={{nprocs or 1}}{% endif %}\
{% if memory %},memory={{memory}}{% endif %}{% if runtime %},walltime={{runtime}}{% endif %}

{% if queue      %}#OAR -q {{queue}}
{% endif %}{% if account    %}#OAR --project {{account}}
{% endif %}{% if properties %}#OAR -p {{properties}}
{% endif %}{% if options    %}#OAR {{options}}{% endif %}

set -euo pipefail

{{prologue}}
{{cmd}}
echo "jupyterhub-singleuser ended gracefully"
{{epilogue}}
"""
    ).tag(config=True)

    req_resources = Unicode(
        "",
        help="What is asked for with -l, without the walltime, such as /nodes=1/gpu=1; in place of req_nprocs",
    ).tag(config=True)

    req_properties = Unicode(
        "",
        help="A condition on resources, as oarsub -p has it",
    ).tag(config=True)

    # the environment of oarsub is that of the job; the script comes on standard input
    batch_submit_cmd = Unicode("oarsub -S -").tag(config=True)
    # outputs lines "key = value"
    batch_query_cmd = Unicode("oarstat -f -j {job_id}").tag(config=True)
    batch_cancel_cmd = Unicode("oardel {job_id}").tag(config=True)
    state_pending_re = Unicode(r"(?m)^\s*state = (?:Waiting|Hold|toLaunch|toAckReservation|Launching)\s*$").tag(
        config=True
    )
    state_running_re = Unicode(r"(?m)^\s*state = (?:Running|Suspended|Resuming|Finishing)\s*$").tag(config=True)
    state_unknown_re = Unicode(r"(?m)^oarstat: the (?:database|gateway|server) ").tag(config=True)
    state_exechost_re = Unicode(r"(?m)^\s*assigned_hostnames = ([^+\s]+)").tag(config=True)

    def parse_job_id(self, output):
        """Return the id that oarsub printed."""
        found = re.search(r"^OAR_JOB_ID=(\d+)$", output, re.MULTILINE)
        if found is None:
            raise RuntimeError(f"oarsub printed no job id: {output}")
        return found.group(1)
