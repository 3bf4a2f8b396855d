"""Clients that connect and ask nothing keep nobody out."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvicorn

from oarpy.web.protocol import PeerProtocol
from tests.harness.waiting import until

MOST = 4
asked = threading.Event()
QUESTION = b"GET / HTTP/1.1\r\nHost: oarpy\r\n\r\n"


async def answer(scope: dict[str, object], receive: object, send: uvicorn._types.ASGISendCallable) -> None:
    """Answer every request, the one for /slow after a while."""
    if scope["path"] == "/slow":
        asked.set()
        await asyncio.sleep(60)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "socket"
    config = uvicorn.Config(
        answer,
        uds=str(found),
        http=PeerProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        limit_concurrency=MOST,
        timeout_graceful_shutdown=0,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, "the server listens")
        yield found
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def connected(path: Path) -> Iterator[Callable[[], socket.socket]]:
    with ExitStack() as stack:

        def connect() -> socket.socket:
            found = stack.enter_context(socket.socket(socket.AF_UNIX))
            found.settimeout(60)
            found.connect(str(path))
            return found

        yield connect


def test_who_asks_is_answered_though_idle_connections_fill_the_server(connected: Callable[[], socket.socket]) -> None:
    idle = [connected() for _ in range(3 * MOST)]
    for _ in range(2):
        asking = connected()
        asking.sendall(QUESTION)
        assert asking.recv(100).startswith(b"HTTP/1.1 200")
    assert idle[0].recv(100) == b"", "the oldest one was ended"


def test_a_request_that_is_being_answered_is_not_ended(connected: Callable[[], socket.socket]) -> None:
    slow = connected()
    slow.sendall(QUESTION.replace(b"/", b"/slow", 1))
    assert asked.wait(60)
    for _ in range(3 * MOST):
        connected()
    asking = connected()
    asking.sendall(QUESTION)
    assert asking.recv(100).startswith(b"HTTP/1.1 200")
    slow.setblocking(False)
    with pytest.raises(BlockingIOError):
        slow.recv(100)
