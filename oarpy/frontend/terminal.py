"""The caller's terminal while a program far away has it: unfiltered input, its size and the changes of that."""

from __future__ import annotations

import os
import signal
import termios
import tty
from contextlib import suppress
from types import FrameType

_ROWS, _COLUMNS = 24, 80
_MOST = 1000


class RawTerminal:
    """Standard input, a terminal, between :meth:`__init__` and :meth:`leave`. ``fileno`` is readable after a change."""

    def __init__(self) -> None:
        self._kept = termios.tcgetattr(0)
        self._changes, self._changed = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._handlers = {
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, self._note_change),
            signal.SIGTERM: signal.signal(signal.SIGTERM, self._terminate),
        }
        tty.setraw(0, termios.TCSADRAIN)

    def fileno(self) -> int:
        """Return a descriptor for select or poll."""
        return self._changes

    def size(self) -> tuple[int, int]:
        """Return rows and columns; the next change makes ``fileno`` readable again."""
        with suppress(BlockingIOError):
            os.read(self._changes, _MOST)
        return terminal_size()

    def leave(self) -> None:
        """Give the terminal back as it was."""
        with suppress(termios.error):  # it is gone
            termios.tcsetattr(0, termios.TCSADRAIN, self._kept)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._changes)
        os.close(self._changed)

    def _note_change(self, number: int, frame: FrameType | None) -> None:
        with suppress(BlockingIOError):
            os.write(self._changed, b"!")

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self.leave()
        os.kill(os.getpid(), number)


def terminal_size() -> tuple[int, int]:
    """Return rows and columns of the terminal at standard input, the usual numbers when it does not say."""
    try:
        size = os.get_terminal_size(0)
    except OSError:
        return _ROWS, _COLUMNS
    return _within(size.lines, _ROWS), _within(size.columns, _COLUMNS)


def _within(number: int, usual: int) -> int:
    return min(number, _MOST) if number > 0 else usual
