"""The end of a job's output file, read by a child that is its owner: what the owner may not read is not shown."""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass

from oarpy.model.errors import NotAllowed, NotFound, OarpyError

KEPT = 16_384
"""Bytes of the end that are read, unless told otherwise."""

_PATIENCE = 3.0
"""Seconds for the file system of the user to answer."""

# The size in a line, then the end. A file that is none (a pipe, a device) is not opened.
_READ = """
    exec 2>/dev/null
    [ -e "$1" ] || exit 3
    [ -f "$1" ] || exit 4
    [ -r "$1" ] || exit 5
    stat -L -c %s -- "$1" && exec tail -c "$2" -- "$1"
"""
_PROBLEMS: dict[int, tuple[type[OarpyError], str]] = {
    3: (NotFound, "there is no such file on this server"),
    4: (NotFound, "it is not a plain file"),
    5: (NotAllowed, "its owner may not read it"),
}
_UNREADABLE = (NotFound, "it cannot be read")


@dataclass(frozen=True, slots=True)
class Tail:
    """The last ``kept`` bytes of a file of ``size`` bytes as ``text``."""

    path: str
    text: str
    size: int
    kept: int

    @property
    def cut(self) -> bool:
        """Whether the file is longer than what is kept."""
        return self.size > self.kept


def tail(path: str, user: str, largest: int = KEPT) -> Tail:
    """Read at most ``largest`` bytes from the end of ``path`` as ``user``.

    Raises :class:`NotAllowed` where the user may not read it or this process cannot become the user,
    :class:`NotFound` for what is no file, :class:`OarpyError` for a file system that does not answer.
    """
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise NotAllowed(f"user '{user}' has no account on this server") from None
    if os.geteuid() not in (0, account.pw_uid):
        raise NotAllowed("the web server runs as another user and may not read it", hint="an admin may let it")
    become = os.geteuid() != account.pw_uid
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", _READ, "sh", path, str(largest)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            start_new_session=True,
            timeout=_PATIENCE,
            check=False,
            user=account.pw_uid if become else None,
            group=account.pw_gid if become else None,
            extra_groups=os.getgrouplist(user, account.pw_gid) if become else None,
        )
    except subprocess.TimeoutExpired:
        raise OarpyError("its file system does not answer", hint="try again later") from None
    except (OSError, ValueError) as error:
        raise NotFound(f"it cannot be read: {error}") from None
    size, newline, end = done.stdout.partition(b"\n")
    if done.returncode or not newline or not size.isdigit():
        kind, message = _PROBLEMS.get(done.returncode, _UNREADABLE)
        raise kind(message, hint="it may be on the node, or not there yet")
    text = end.decode("utf-8", "replace").replace("\0", "\ufffd")
    return Tail(path, text, int(size), len(end))
