"""A file system that a user mounted for that user alone, as sshfs does: FUSE, served from memory by a thread."""

from __future__ import annotations

import errno
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pwd import struct_passwd

from tests.harness.dead_file_system import mount, unmount

_LOOKUP, _FORGET, _GETATTR, _OPEN, _WRITE, _RELEASE, _INIT = 1, 2, 3, 14, 16, 18, 26
_OPENDIR, _RELEASEDIR, _CREATE, _INTERRUPT, _FORGET_MANY = 27, 29, 35, 36, 42
_SILENT = frozenset({_FORGET, _INTERRUPT, _FORGET_MANY})
_HEADER = struct.Struct("=IIQQIIII")
_ROOT = 1
_OPENED = struct.pack("=QII", 0, 0, 0)


class UsersFileSystem:
    """One directory with files that are made and written, never read."""

    def __init__(self, user: struct_passwd) -> None:
        self._user = user
        self._names: list[bytes] = []
        self._contents: list[bytes] = []

    def written(self, name: str) -> str:
        """Return what was written to a file; raise ``ValueError`` when there is none."""
        return self._contents[self._names.index(name.encode())].decode()

    def serve(self, device: int) -> None:
        """Answer the kernel until the file system is gone."""
        while True:
            try:
                message = os.read(device, 1 << 18)
                _, kind, number, node, *_ = _HEADER.unpack_from(message)
                if kind not in _SILENT:
                    self._answer(device, number, kind, node, message[_HEADER.size :])
            except FileNotFoundError:
                continue  # whoever asked is gone
            except OSError:
                return

    def _answer(self, device: int, number: int, kind: int, node: int, content: bytes) -> None:
        answer = self._act(kind, node, content)
        error, said = (-answer, b"") if isinstance(answer, int) else (0, answer)
        os.write(device, struct.pack("=IiQ", 16 + len(said), error, number) + said)

    def _act(self, kind: int, node: int, content: bytes) -> bytes | int:
        """Return the answer, or the number of an error."""
        if kind == _INIT:
            return struct.pack("=IIIIHHI", 7, 22, 0, 0, 1, 1, 4096)
        if kind == _GETATTR:
            return struct.pack("=QII", 0, 0, 0) + self._attributes(node)
        if kind == _LOOKUP:
            name = content.rstrip(b"\0")
            return self._entry(name) if name in self._names else errno.ENOENT
        if kind == _CREATE:
            name = content[16:].rstrip(b"\0")
            self._names.append(name)
            self._contents.append(b"")
            return self._entry(name) + _OPENED
        if kind == _WRITE:
            (size,) = struct.unpack_from("=I", content, 16)
            self._contents[node - _ROOT - 1] += content[40 : 40 + size]
            return struct.pack("=II", size, 0)
        if kind in (_OPEN, _OPENDIR):
            return _OPENED
        return b"" if kind in (_RELEASE, _RELEASEDIR) else errno.ENOSYS

    def _entry(self, name: bytes) -> bytes:
        node = _ROOT + 1 + self._names.index(name)
        return struct.pack("=QQQQII", node, 0, 0, 0, 0, 0) + self._attributes(node)

    def _attributes(self, node: int) -> bytes:
        mode, size = (0o40700, 0) if node == _ROOT else (0o100600, len(self._contents[node - _ROOT - 1]))
        owner = (self._user.pw_uid, self._user.pw_gid)
        return struct.pack("=6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, *owner, 0, 4096, 0)


@contextmanager
def users_file_system(place: Path, user: struct_passwd) -> Iterator[UsersFileSystem]:
    """Have a file system at ``place`` that nobody but ``user`` may enter, root neither. Raises ``OSError``."""
    place.mkdir(parents=True)
    device = mount(place, f"user_id={user.pw_uid},group_id={user.pw_gid}")
    served = UsersFileSystem(user)
    server = threading.Thread(target=served.serve, args=(device,), daemon=True)
    server.start()
    try:
        yield served
    finally:
        unmount(place)  # the server's reading ends with it
        server.join(10)
        os.close(device)
