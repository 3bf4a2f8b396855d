"""The first event at which two runs differ, by bisection over digests.

The digest after an event covers the digest before it, the event, and its changes. So digests that have parted never
meet again, and bisection finds the first that differ::

    left   d1  d2  d3  e4  e5
    right  d1  d2  d3  f4  f5      the runs part at event 4
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from time import perf_counter

from oarpy.simulation.stepping.stepped_run import SteppedRun

_SIZE = 8
"""Bytes of a digest."""


class Digests:
    """The digests of a run after each of its events."""

    def __init__(self, run: SteppedRun) -> None:
        self.digests: list[bytes] = [b""]
        self.ended = False
        self._run = run
        self._playing = run.events()
        run.watch()

    def play(self, until: float) -> bool:
        """Play until the processor's clock reaches a limit; return whether the run is over."""
        while not self.ended and perf_counter() < until:
            happening = next(self._playing, None)
            if happening is None:
                self.ended = True
                break
            event, own, changed = self._run.description(happening)
            what = (happening[0], event, own, changed, self._run.digested(happening))
            text = json.dumps(what).encode()
            self.digests.append(blake2b(self.digests[-1] + text, digest_size=_SIZE).digest())
        return self.ended


class Parting:
    """Looks for the first event at which two runs differ."""

    def __init__(self, left: Callable[[], SteppedRun], right: Callable[[], SteppedRun]) -> None:
        self._left, self._right = Digests(left()), Digests(right())

    @property
    def compared(self) -> int:
        """The number of events that were compared."""
        return min(len(self._left.digests), len(self._right.digests)) - 1

    def seek(self, seconds: float) -> bool:
        """Search for a limited time; return whether the answer is known."""
        if self._parted(self.compared):
            return True
        now = perf_counter()
        done = self._left.play(now + seconds / 2)
        done = self._right.play(now + seconds) and done
        return done or self._parted(self.compared)

    def first(self) -> int | None:
        """Return the number of the event, None if the runs are equal as far as they were compared."""
        last = self.compared
        if not self._parted(last):
            longer = max(len(self._left.digests), len(self._right.digests)) - 1
            return last + 1 if longer > last and self._left.ended and self._right.ended else None
        low, high = 0, last
        while high - low > 1:
            middle = (low + high) // 2
            if self._parted(middle):
                high = middle
            else:
                low = middle
        return high

    def _parted(self, step: int) -> bool:
        return self._left.digests[step] != self._right.digests[step]
