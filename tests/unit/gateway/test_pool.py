"""The bookkeeping of workers."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from oarpy.configuration import GatewaySettings
from oarpy.gateway.pool import WorkerPool


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_workers_that_cannot_be_forked_are_tried_again_later() -> None:
    failing = [True]
    asked: list[int] = []

    def start(theirs: socket.socket, ours: socket.socket) -> int:
        asked.append(0)
        if failing and len(asked) > 1:
            raise BlockingIOError("no more processes")
        pid = os.fork()
        if not pid:
            ours.close()
            theirs.recv(1)
            os._exit(0)
        return pid

    pool = WorkerPool(GatewaySettings(workers=3), start)
    before = open_descriptors()
    assert len(pool.keep(100.0, wanted=False)) == 1
    assert open_descriptors() == before + 1, "what failed leaves nothing open"
    assert pool.keep(100.5, wanted=False) == []
    assert len(asked) == 2, "no trying in a circle"
    failing.clear()
    assert len(pool.keep(102.0, wanted=False)) == 2
    pool.close(30.0)
    pool.forget()
    assert open_descriptors() == before
