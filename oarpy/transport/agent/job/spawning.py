"""Starting a program as a job's user: without a copy of this process, in the job's directory, with clean signals."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from functools import cache

_SHELLS = frozenset({"sh", "dash", "bash"})

_PLAIN = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+:,@-]*(?:[ \t]+[A-Za-z0-9_./+:,@%=-]+)*", re.ASCII)
"""Nothing that a shell expands, and no assignment in the place of the program."""

_OWN_WORDS = """
    . : [ alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare
    dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash help
    history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set
    shift shopt source suspend test then time times trap true type typeset ulimit umask unalias unset until wait while
"""
"""What these shells do themselves."""
_OWN = frozenset(_OWN_WORDS.split())

_STARTUP = frozenset({"BASH_ENV", "BASHOPTS", "EXECIGNORE", "SHELLOPTS", "SSH2_CLIENT", "SSH_CLIENT"})
"""Variables which make bash read a file first (some builds: when it seems to be started by sshd) or act differently."""
_FUNCTION = "BASH_FUNC_"


def plain_command(command: str, shell: str, environment: dict[str, str]) -> tuple[str, list[str]] | None:
    """Return the program that ``shell -c command`` would execute in this place of the file system, and its arguments.

    None when it would do anything else, or when it is not certain. To be asked as the user who runs it.
    """
    if os.path.basename(shell) not in _SHELLS or not _PLAIN.fullmatch(command):
        return None
    words = command.split()
    if words[0] in _OWN or not _STARTUP.isdisjoint(environment) or not os.access(shell, os.X_OK):
        return None
    if _FUNCTION in " ".join(environment):
        return None
    program = _find(words[0], environment.get("PATH", ""))
    return None if program is None else (program, words)


def _find(word: str, path: str) -> str | None:
    if "/" in word:
        return word if _is_program(word) else None
    for directory in path.split(os.pathsep) if path else ():
        candidate = f"{directory or '.'}/{word}"
        if _is_program(candidate):
            return candidate
    return None


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)


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
    """Return the signals this process ignores, by its own will or its parent's; a job must not inherit that."""
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
