"""The number of files a process may have open: many for channels and supervisors, the given limit in jobs."""

from __future__ import annotations

import resource
from contextlib import suppress

_GIVEN = resource.getrlimit(resource.RLIMIT_NOFILE)


def allow_many() -> int:
    """Raise this process' limit to the most that is allowed (often 1,024 was given), and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def restore() -> None:
    """Restore the limit that this process, or its original, was started with."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, _GIVEN)
