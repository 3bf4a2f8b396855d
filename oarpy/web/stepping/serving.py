"""Serving the page on the loopback interface, to everybody who has its link."""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Sequence

import uvicorn

from oarpy.model.errors import OarpyError
from oarpy.simulation.stepping.sources import Source
from oarpy.web.stepping.app import application

_HOST = "127.0.0.1"


def serve(sources: Sequence[Source], port: int) -> int:
    """Print the link and serve until interrupted; return the exit status. Port 0 stands for any that is free.

    Raises :class:`OarpyError` for a port that is taken.
    """
    token = secrets.token_urlsafe(24)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_HOST, port))
            listening.listen()  # before the link is printed: a reader may come at once
        except OSError as error:
            raise OarpyError(
                f"--port {port}: cannot listen there: {error.strerror}", hint="give another port"
            ) from None
        server = uvicorn.Server(
            uvicorn.Config(
                application(sources, token), ws="none", log_level="error", access_log=False, server_header=False
            )
        )
        sys.stdout.write(f"http://{_HOST}:{listening.getsockname()[1]}/{token}/\n")
        sys.stdout.flush()
        server.run(sockets=[listening])
    return 0
