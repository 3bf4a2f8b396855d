"""Reading the caller's files, in the caller's own process and with the caller's rights."""

from __future__ import annotations

import errno
import os
import sys

_TAIL = 4096
_LONGEST_LINE = 300


def read_file(path: str, largest: int, *, plain: bool, executable: bool = False) -> bytes:
    """Return at most ``largest`` + 1 bytes of a file, so that the caller can tell a file that is too large.

    Raises :class:`OSError`. With ``plain``, it is ``FileNotFoundError`` also for a path that is no plain file. With
    ``executable``, it is ``ENOEXEC`` for a file that the caller may not execute.
    """
    if plain and not os.path.isfile(path):
        raise FileNotFoundError(errno.ENOENT, "does not exist or is no plain file", path)
    try:
        with open(path, "rb") as file:
            if executable and not os.access(path, os.X_OK):
                raise OSError(errno.ENOEXEC, "not executable", path)
            return file.read(largest + 1)
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), path) from None


def has_program(name: str) -> bool:
    """Tell whether there is a file of this name in a folder of PATH, as a shell looks for a program."""
    # an empty folder is the directory
    return any(os.path.isfile(os.path.join(folder, name)) for folder in os.environ.get("PATH", "").split(":"))


def program_facts(name: str) -> tuple[int, int] | None:
    """Return the size in bytes and the date (epoch seconds) of a program, None unless the caller may execute it.

    A name without a slash is looked for in the folders of PATH.
    """
    folders = [""] if "/" in name else os.environ.get("PATH", "").split(":")
    for folder in folders:
        path = os.path.join(folder, name)
        try:
            if os.path.isfile(path) and os.access(path, os.X_OK):
                found = os.stat(path)
                return found.st_size, int(found.st_mtime)
        except (OSError, ValueError):
            continue
    return None


def last_line(path: str) -> str:
    """Return the last line that is not blank of a plain file's last 4 KiB; empty when none can be read."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read(_TAIL).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return ""
    return next((line.strip()[:_LONGEST_LINE] for line in reversed(lines) if line.strip()), "")


def read_input(largest: int) -> bytes:
    """Return at most ``largest`` + 1 bytes of standard input."""
    return sys.stdin.buffer.read(largest + 1)


def write_private(path: str, text: str) -> None:
    """Write a file that its owner alone may read; it replaces an existing file. Raises :class:`OSError`.

    The file is a new one: a process that has the old file open, or owns it, reads nothing of the text.
    """
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
        raise OSError(errno.EEXIST, "it is there and no plain file", path)
    draft = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), path) from None
    try:
        with open(descriptor, "wb") as file:
            file.write(text.encode())
        os.rename(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
