"""The bookkeeping of workers."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from oarpy.configuration import GatewaySettings
from oarpy.gateway.intake import Client
from oarpy.gateway.pool import WorkerPool
from oarpy.gateway.worker import IDLE


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


@pytest.mark.parametrize("most", [2, 3, 4, 32])
def test_users_who_take_all_they_may_leave_workers_to_others(most: int) -> None:
    """Each of four users has as many slow commands as there are workers; the next user is served at once."""
    others: list[socket.socket] = []

    def start(theirs: socket.socket, ours: socket.socket) -> int:
        others.append(theirs.dup())
        others[-1].send(IDLE)
        pid = os.fork()
        if not pid:
            os._exit(0)
        return pid

    pool = WorkerPool(GatewaySettings(workers=most, most_workers=most), start)
    for member in pool.keep(100.0, wanted=False):
        pool.hear(member, 100.0)
    ours, theirs = socket.socketpair()
    taken = []
    for uid in range(4) if most == 32 else [0]:
        while pool.may_run(uid) and (idle := pool.idle()):
            assert pool.assign(idle, Client(ours, uid, 200.0), 100.0)
            taken.append(uid)
    assert pool.idle() is not None
    assert pool.may_run(99)
    assert taken.count(0) == min(8, most * 3 // 4), "one user alone may take many"
    for one in others:
        one.close()
    ours.close()
    theirs.close()
    pool.close(30.0)
    pool.forget()
