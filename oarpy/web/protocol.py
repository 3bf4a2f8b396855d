"""HTTP on a Unix socket, where the kernel names the peer."""

from __future__ import annotations

import asyncio
import socket
import struct

from uvicorn.protocols.http.h11_impl import H11Protocol

_CREDENTIALS = struct.Struct("iII")


class PeerProtocol(H11Protocol):
    """Names the client ``uid:N`` where its connection comes through a Unix socket, and bounds idle connections."""

    _heard = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the kernel."""
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        self._heard = self.loop.time()
        self._make_room()
        if connection is not None and connection.family == socket.AF_UNIX:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            self.client = (f"uid:{_CREDENTIALS.unpack(credentials)[1]}", 0)

    def data_received(self, data: bytes) -> None:
        """Note the time of the client's last data."""
        self._heard = self.loop.time()
        super().data_received(data)

    def _make_room(self) -> None:
        """End the connection that has sent no request for longest, if there are too many connections."""
        if self.limit_concurrency is None or len(self.connections) < self.limit_concurrency:
            return
        others = [
            connection
            for connection in self.connections
            if isinstance(connection, PeerProtocol) and connection is not self
        ]
        idle = [other for other in others if other.cycle is None or other.cycle.response_complete]
        if idle:
            oldest = min(idle, key=lambda protocol: protocol._heard)
            self.connections.discard(oldest)
            oldest.transport.close()
