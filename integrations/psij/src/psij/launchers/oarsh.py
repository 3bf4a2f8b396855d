# SPDX-License-Identifier: MIT
"""Starts the processes of a job on the nodes of an OAR job."""
from pathlib import Path
from typing import Optional

from psij.job_executor_config import JobExecutorConfig
from psij.launchers.multiple import MultipleLauncher


class OARShLauncher(MultipleLauncher):
    """Starts one process for each line of ``PSIJ_NODEFILE``, on the node that the line names.

    Uses ``oarsh``, which leads to the nodes of the job only. Processes have the environment and
    the directory of the job; ``_PSI_J_PROCESS_INDEX_`` counts them from 1. The exit code is that
    of a process that failed.
    """

    def __init__(self, config: Optional[JobExecutorConfig] = None) -> None:
        """
        Parameters
        ----------
        config
            An optional configuration.
        """
        super().__init__(script_path=Path(__file__).parent / 'scripts' / 'oarsh_launch.sh',
                         config=config)
