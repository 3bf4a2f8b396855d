"""The Unix socket that everybody may connect to: making it, holding it for one gateway, and naming the peer."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from pathlib import Path

from oarpy.model.errors import OarpyError

_CREDENTIALS = struct.Struct("iII")

_BACKLOG = 1024


class Listener:
    """The socket at ``path`` while this process is its gateway; it appears ready, with its rights, or not at all."""

    def __init__(self, path: str) -> None:
        """Make the socket; raise :class:`OarpyError` if another has it, or it cannot be made."""
        self._path = path
        self._lock = _lock(path)
        self.socket = _listening(path)
        self._identity = _identity(path)

    def close(self) -> None:
        """Take no more connections, and let commands see that there is no gateway."""
        if _identity(self._path) == self._identity:
            os.unlink(self._path)
        self.socket.close()
        os.close(self._lock)

    def forget(self) -> None:
        """Close the copies that a forked process has."""
        self.socket.close()
        os.close(self._lock)


def _lock(path: str) -> int:
    try:
        _make_folder(Path(path).parent)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise OarpyError(f"gateway.socket '{path}' cannot be made: {error.strerror}", hint="check its folder") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise OarpyError(f"another gateway listens on '{path}'", hint="one gateway a socket") from None
    return lock


def _make_folder(folder: Path) -> None:
    """Make the folder, open to everybody whatever the umask; an existing folder keeps its rights."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


def _listening(path: str) -> socket.socket:
    made = f"{path}.new"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        Path(made).unlink(missing_ok=True)
        listening.bind(made)
        os.chmod(made, 0o666)
        listening.listen(_BACKLOG)
        os.rename(made, path)
    except OSError as error:
        listening.close()
        reason = os.strerror(error.errno or errno.EIO)
        raise OarpyError(f"gateway.socket '{path}' cannot be made: {reason}", hint="check its folder") from None
    return listening


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def peer_uid(connection: socket.socket) -> int:
    """Return the effective user id that the process had when it connected."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _process, uid, _group = _CREDENTIALS.unpack(found)
    return int(uid)
