"""Who is at the other end of a Unix socket, by the kernel's word."""

from __future__ import annotations

import socket
import struct

_CREDENTIALS = struct.Struct("iII")


def peer_uid(connection: socket.socket) -> int:
    """Return the effective user id that the process had when it connected."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _process, uid, _group = _CREDENTIALS.unpack(found)
    return int(uid)
