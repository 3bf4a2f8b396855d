"""The script of a job is run as it was submitted, even if its file has changed since."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oarpy.wire.jobs import JobSpec


def as_submitted(spec: JobSpec, kept: str, errors: int) -> str:
    """Return the command of a job, with ``kept`` in the place of its script if the file is not the submitted one.

    ``kept`` is the path of the script as it was submitted. Call it as the job's user, in its directory; a message to
    the user goes to the descriptor ``errors``.
    """
    if not spec.script:
        return spec.command
    path, *rest = spec.command.split(None, 1)
    if _is_same(path, spec.script.encode()):
        return spec.command
    with contextlib.suppress(OSError):
        os.write(errors, f"## oarpy: {path} has changed: the job runs it as it was submitted\n".encode())
    return " ".join([*_interpreter(spec.script), shlex.quote(kept), *rest])


def _is_same(path: str, content: bytes) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return stat.S_ISREG(os.fstat(fd).st_mode) and file.read(len(content) + 1) == content
    except PermissionError:
        return True  # to this thread, perhaps not to the job; if to that too, it says so
    except OSError:
        return False


def _interpreter(script: str) -> list[str]:
    """Return the interpreter in the first line, as the kernel reads it: a program and one argument at most.

    The kept script itself may lie on a file system from which nothing can be executed.
    """
    words = script.partition("\n")[0][2:].strip(" \t").split(None, 1)
    return [shlex.quote(word) for word in words] or ["/bin/sh"]
