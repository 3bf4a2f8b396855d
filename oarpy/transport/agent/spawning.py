"""Starting a program as a job's user: without a copy of this process, in the job's directory, with clean signals."""

from __future__ import annotations

import contextlib
import os
import signal
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    Action = tuple[Any, ...]

UMASK = "OARPY_UMASK"
"""Variable of a submission with the file mode creation mask of whoever submitted, in octal digits."""

_USUAL_UMASK = 0o022


class LaunchFailure(Exception):
    """The command could not be executed: OAR's reason word and a text."""

    def __init__(self, reason: str, error: OSError | ValueError, what: str) -> None:
        detail = error.strerror if isinstance(error, OSError) else str(error)
        super().__init__(f"{what[:200]}: {detail}")
        self.reason = reason


@cache
def _ignored_signals() -> tuple[int, ...]:
    """The signals this process ignores, by its own will or its parent's; a job must not inherit that."""
    return tuple(number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN)


def enter_directory(directory: str) -> None:
    """Make ``directory`` the one that programs start in; raise :class:`LaunchFailure`."""
    try:
        os.chdir(directory)
    except (OSError, ValueError) as error:
        raise LaunchFailure("WORKING_DIRECTORY", error, directory) from error


@contextlib.contextmanager
def umask_of(environment: Mapping[str, str]) -> Iterator[None]:
    """Within this, create files as whoever submitted the job would; what is no mask is not heeded."""
    try:
        mask = int(environment.get(UMASK, ""), 8)
    except ValueError:
        mask = _USUAL_UMASK
    before = os.umask(mask if 0 <= mask <= 0o777 else _USUAL_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def spawn(shell: str, arguments: list[str], environment: dict[str, str], actions: Sequence[Action]) -> int:
    """Start ``shell`` in a session of its own, its descriptors set up by ``actions``; return its process id."""
    # posix_spawn, not fork: copying even a small Python process costs more than the job's own shell does.
    try:
        return os.posix_spawn(
            shell,
            arguments,
            environment,
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=_ignored_signals(),
        )
    except (OSError, ValueError) as error:
        raise LaunchFailure("USER_SHELL", error, shell) from error
