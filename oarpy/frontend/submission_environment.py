"""The environment that a job inherits from its submitter: variables, and the mask for the modes of new files."""

from __future__ import annotations

import os

UMASK = "OARPY_UMASK"
"""Where the agent finds the mask; see ``oarpy/transport/agent/job/spawning.py``."""


_COERCED = "LC_CTYPE"
"""The variable that Python sets by itself where the locale is C (PEP 538)."""


def submission_environment() -> dict[str, str]:
    """Return the variables that this process was started with, and its file mode creation mask as one more."""
    mask = os.umask(0o077)
    os.umask(mask)
    variables = {**os.environ, UMASK: f"{mask:04o}"}
    if _COERCED in variables and not _was_given(_COERCED):
        del variables[_COERCED]
    return variables


def _was_given(name: str) -> bool:
    """Tell whether the process had the variable from its start on; true where the system does not say."""
    try:
        with open("/proc/self/environ", "rb") as file:
            given = file.read().split(b"\0")
    except OSError:
        return True
    return any(variable.startswith(f"{name}=".encode()) for variable in given)
