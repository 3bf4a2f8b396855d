"""HTTP on a Unix socket, where the kernel says who connected."""

from __future__ import annotations

import asyncio
import socket
import struct

from uvicorn.protocols.http.h11_impl import H11Protocol

_CREDENTIALS = struct.Struct("iII")


class PeerProtocol(H11Protocol):
    """Names the client ``uid:N`` where its connection comes through a Unix socket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the kernel."""
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            self.client = (f"uid:{_CREDENTIALS.unpack(found)[1]}", 0)
