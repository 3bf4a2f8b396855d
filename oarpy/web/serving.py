"""Running the application: on a Unix socket, or at an address behind a reverse proxy."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from pathlib import Path

import uvicorn

from oarpy.admission.rules.process import start_rules
from oarpy.configuration import Configuration
from oarpy.model.errors import OarpyError, UsageError
from oarpy.modules.loop.logging import configure_logging
from oarpy.web.app import application
from oarpy.web.protocol import PeerProtocol

_GRACE = 5
"""Seconds for requests to end when the process is to end."""


class _Server(uvicorn.Server):
    """A server that says where it listens, once it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started:
            config = self.config
            host = f"[{config.host}]" if ":" in config.host else config.host
            sys.stderr.write(f"oarpy web listens on {config.uds or f'http://{host}:{config.port}'}\n")
            sys.stderr.flush()


def serve(configuration: Configuration) -> None:
    """Serve until SIGTERM; raise :class:`UsageError` when ``web.listen`` names no place to listen."""
    place = configuration.web.listen
    if not place:
        raise UsageError("web.listen is not set", hint="a path of a Unix socket, or host:port")
    configure_logging(configuration.log)
    # forked while this process has one thread
    start_rules(configuration.submission.rule_memory_limit)
    path, host, port = _place(place)
    server = _Server(
        uvicorn.Config(
            application(configuration),
            uds=path,
            host=host,
            port=port,
            http=PeerProtocol,
            ws="none",
            loop="asyncio",
            proxy_headers=False,  # oarpy.web.identity knows which proxies count
            server_header=False,
            log_config=None,
            access_log=False,
            limit_concurrency=configuration.web.most_connections,
            timeout_graceful_shutdown=_GRACE,
            timeout_keep_alive=15,
        )
    )
    # present objects stay: the collector would walk through them for 0.1 s in the middle of an answer
    gc.collect()
    gc.freeze()
    # uvicorn raises the signal that ended it once more, for the handler before it
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        server.run()
    except SystemExit as stop:  # how uvicorn says that it could not begin
        if stop.code:
            raise OarpyError(f"nothing can listen at '{place}'", hint="is it in use, or its folder missing?") from None


def _place(text: str) -> tuple[str | None, str, int]:
    """Return the path of a socket, or host and port."""
    if text.startswith("/"):
        folder = Path(text).parent
        if not folder.is_dir():
            folder.mkdir(parents=True)
            os.chmod(folder, 0o755)
        return text, "", 0
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"web.listen '{text[:80]}' is no place to listen", hint="/path/of/socket, or host:port")
    return None, host.strip("[]"), int(port)
