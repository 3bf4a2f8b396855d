"""The end of a job's output file, read by a child that is its owner: what the owner may not read is not shown."""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass

KEPT = 16_384
"""Bytes of the end that are shown."""

_TIMEOUT = 3.0

# The size in a line, then the end. A file that is none (a pipe, a device) is not opened.
_READ = """
    exec 2>/dev/null
    [ -e "$1" ] || exit 3
    [ -f "$1" ] || exit 4
    [ -r "$1" ] || exit 5
    stat -L -c %s -- "$1" && exec tail -c "$2" -- "$1"
"""
_PROBLEMS = {
    3: "There is no such file on this server.",
    4: "It is not a plain file.",
    5: "Its owner may not read it.",
}


@dataclass(frozen=True, slots=True)
class Tail:
    """The last ``kept`` bytes of a file of ``size`` bytes as ``text``, or the ``problem`` with it."""

    title: str
    path: str
    text: str = ""
    problem: str = ""
    size: int = 0
    kept: int = 0

    @property
    def cut(self) -> bool:
        """Whether the file is longer than what is kept."""
        return self.size > self.kept


def tail(title: str, path: str, user: str) -> Tail:
    """Read the end of ``path`` as ``user``."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return Tail(title, path, problem=f"User '{user}' has no account on this server.")
    me = os.geteuid()
    if me not in (0, account.pw_uid):
        return Tail(title, path, problem="The web server runs as another user and may not read it.")
    become = me != account.pw_uid
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", _READ, "sh", path, str(KEPT)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            start_new_session=True,
            timeout=_TIMEOUT,
            check=False,
            user=account.pw_uid if become else None,
            group=account.pw_gid if become else None,
            extra_groups=os.getgrouplist(user, account.pw_gid) if become else None,
        )
    except subprocess.TimeoutExpired:
        return Tail(title, path, problem="Its file system does not answer.")
    except (OSError, ValueError) as error:
        return Tail(title, path, problem=f"It cannot be read: {error}")
    size, newline, end = done.stdout.partition(b"\n")
    if done.returncode or not newline or not size.isdigit():
        return Tail(title, path, problem=_PROBLEMS.get(done.returncode, "It cannot be read."))
    text = end.decode("utf-8", "replace").replace("\0", "\ufffd")
    return Tail(title, path, text, size=int(size), kept=len(end))
