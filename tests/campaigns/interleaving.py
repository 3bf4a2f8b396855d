"""Two processes of a virtual cluster at once: their statements alternate as a seed draws, one at a time.

::

    each in a thread --before a statement--> waits for the baton <-- drawn: who is next
                     --during a statement--> waits for a lock of the other: the baton passes it over

A process that the database has waiting for a lock comes back into the draw when it has got it. When both wait for each
other, the database would end one of them after a while: here the first one is ended at once.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

from tests.campaigns.virtual_cluster import Process, VirtualCluster

_BLOCKED = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
_LOOK = 0.002
"""Seconds after which it is looked whether a statement that goes on waits for a lock."""


class Strand:
    """A process in a thread of its own, which goes on when it has the baton."""

    def __init__(self, process: Process, body: Callable[[], object]) -> None:
        self.process = process
        self.passed_over = False
        self.over = False
        self.error: BaseException | None = None
        self._body = body
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=process.name)
        process.strand = self
        self._thread.start()

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._body()
        except BaseException as error:
            self.error = error
        self.over = True
        self._back.release()

    def yield_baton(self) -> None:
        """Give the baton back, and wait for it (called by the thread)."""
        self._back.release()
        self._go.acquire()

    def returned(self) -> None:
        """Wait for the baton after a statement during which it was passed over (called by the thread)."""
        if self.passed_over:
            self.yield_baton()

    def go_on(self, is_blocked: Callable[[Strand], bool]) -> None:
        """Hand over the baton until it comes back, or the process waits for a lock."""
        self._go.release()
        while not self._back.acquire(timeout=_LOOK):
            if is_blocked(self):
                self.passed_over = True
                return

    def take_back(self) -> None:
        """Wait until the statement that waited for a lock is over: it has got the lock, or was ended."""
        self._back.acquire()
        self.passed_over = False

    def end(self) -> None:
        """Raise what the process raised, when it is over."""
        self._thread.join()
        self.process.strand = None
        if self.error is not None:
            raise self.error


def run_together(
    cluster: VirtualCluster, bodies: Sequence[tuple[Process, Callable[[], object]]], chance: random.Random
) -> None:
    """Run processes at once, statement by statement; ``chance`` draws who is next."""

    def is_blocked(one: Strand) -> bool:
        pid = one.process.server_process
        return pid is not None and bool(cluster.rows(_BLOCKED, pid)[0][0])

    strands = [Strand(process, body) for process, body in bodies]
    going = list(strands)
    while going:
        ready = [one for one in going if not one.passed_over]
        if ready:
            chosen = chance.choice(ready)
            chosen.go_on(is_blocked)
            if chosen.passed_over:
                cluster.note(f"{chosen.process.name} waits for a lock")
        else:
            cluster.note(f"{going[0].process.name} waits in a circle")
            cluster.rows("SELECT pg_cancel_backend(%s)", going[0].process.server_process)
            going[0].take_back()
        for one in going:
            if one.passed_over and not is_blocked(one):
                one.take_back()
        going = [one for one in going if not one.over]
    for one in strands:
        one.end()
