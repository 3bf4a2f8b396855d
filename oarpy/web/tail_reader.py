"""A program that reads the end of a file as its owner: ``tail_reader.py UID GID GROUPS PATH BYTES``.

It begins as root and becomes that user, and never starts another program. So no process of the user reaches its
descriptors, whose other ends are the web server's. It prints the size of the file in a line, then the end. The exit
status is 3 where there is no such file, 4 for a path that is no plain file, 5 for a file that the user may not read, 6
for a file that cannot be read now.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys

_PR_SET_DUMPABLE = 4
_MISSING, _NO_FILE, _FORBIDDEN, _BUSY = 3, 4, 5, 6


def _become(uid: int, gid: int, groups: list[int]) -> None:
    if os.geteuid() != uid:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    # even where the system sets it otherwise for a process that changed its user
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _read(path: str, largest: int) -> int:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return _NO_FILE
    except OSError:
        return _MISSING
    try:
        # neither a pipe in its place nor a lease makes it wait
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except PermissionError:
        return _FORBIDDEN
    except OSError:
        return _BUSY
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        return _NO_FILE
    os.write(1, b"%d\n" % status.st_size)
    left = min(largest, status.st_size)
    os.lseek(file, status.st_size - left, os.SEEK_SET)
    while left and (data := os.read(file, left)):
        left -= len(data)
        while data:
            data = data[os.write(1, data) :]
    return 0


if __name__ == "__main__":
    uid, gid, groups, path, largest = sys.argv[1:]
    _become(int(uid), int(gid), [int(group) for group in groups.split(",")])
    sys.exit(_read(path, int(largest)))
