"""What a job inherits from the process that submits it: its variables, and how open the files are that it makes."""

from __future__ import annotations

import os

UMASK = "OARPY_UMASK"
"""Where the agent finds the mask; see ``oarpy/transport/agent/job/spawning.py``."""


def submission_environment() -> dict[str, str]:
    """Return the variables of this process, and its file mode creation mask as one more."""
    mask = os.umask(0o077)
    os.umask(mask)
    return {**os.environ, UMASK: f"{mask:04o}"}
