# SPDX-License-Identifier: Apache-2.0
"""The script of a block."""

template_string = """#!/bin/bash

#OAR -n ${jobname}
#OAR -O ${job_stdout_path}
#OAR -E ${job_stderr_path}
#OAR -l ${request}
${scheduler_options}

${worker_init}

export JOBNAME="${jobname}"

$user_script
"""
