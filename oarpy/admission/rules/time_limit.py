"""Interrupts a rule that runs too long: an interval timer signals the process in which it runs.

The signal interrupts ``while True: pass``. It does not interrupt a single long operation inside the interpreter (a huge
power). The process that waits for the rules then ends this one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType


class TimeExceeded(BaseException):
    """Raised inside code that runs too long; not an ``Exception``, so that ``except Exception`` does not stop it."""


_REPEAT = 0.05
"""Seconds after which a limit strikes again, for code that caught the first strike."""

_MOST_STRIKES = 20
"""Strikes after which code that catches everything loses its process."""


class TimeLimit:
    """A limit for one action after the other, in the main thread; made once, since a handler takes time to set."""

    def __init__(self) -> None:
        self._armed, self._strikes = False, 0
        signal.signal(signal.SIGALRM, self._strike)

    def run(self, action: Callable[[], object], seconds: float) -> None:
        """Run ``action``; raise :class:`TimeExceeded` when it takes longer than ``seconds``.

        An action that goes on all the same ends with the process.
        """
        self._armed, self._strikes = True, 0
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT)
                action()
            finally:
                self._armed = False
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _strike(self, _number: int, _frame: FrameType | None) -> None:
        self._strikes += 1
        if self._strikes > _MOST_STRIKES:
            os._exit(1)
        if self._armed:
            raise TimeExceeded
