"""A file system that does not answer, as NFS when its server is away: FUSE, without a program that serves it."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MS_NOSUID, _MS_NODEV = 2, 4
_MNT_DETACH = 2
_LIBC = ctypes.CDLL(None, use_errno=True)


def why_not() -> str:
    """Say why there can be no dead file system here; nothing when there can be."""
    if os.geteuid() != 0:
        return "only root can mount a file system that does not answer"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse cannot be opened ({error.strerror}): no file system that does not answer"
    return ""


def mount(place: Path, owner: str = "user_id=0,group_id=0,allow_other") -> int:
    """Mount it; return the descriptor with whose end all who wait get an error. Raises ``OSError``.

    Who reads from that descriptor, and answers, serves a file system of ``owner``.
    """
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,{owner}"
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV)
    if _LIBC.mount(b"oarpy", os.fsencode(place), b"fuse", flags, options.encode()) != 0:
        error = ctypes.get_errno()
        os.close(device)
        raise OSError(error, os.strerror(error))
    return device


def unmount(place: Path) -> None:
    """Take the file system away."""
    _LIBC.umount2(os.fsencode(place), _MNT_DETACH)


@contextmanager
def dead_file_system(place: Path) -> Iterator[Path]:
    """Have what is at ``place`` answer nobody."""
    place.mkdir(parents=True, exist_ok=True)
    device = mount(place)
    try:
        yield place
    finally:
        os.close(device)
        unmount(place)


def main() -> None:
    """Mount one at the place that is named, say so, and take it away when standard input ends."""
    place = Path(sys.argv[1])
    device = mount(place)
    sys.stdout.write("dead\n")
    sys.stdout.flush()
    sys.stdin.read()
    os.close(device)
    unmount(place)


if __name__ == "__main__":
    main()
