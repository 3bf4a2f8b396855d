"""A progress bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import TextIO

_WIDTH = 40


class ProgressBar:
    """Context manager that redraws one line of ``out`` while jobs end; silent when ``out`` is not a terminal."""

    def __init__(self, title: str, total: int, out: TextIO) -> None:
        self._title = title
        self._total = max(total, 1)
        self._out = out
        self._shown = out.isatty()
        self._step = max(1, total // 200)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def __call__(self, done: int) -> None:
        """Show that ``done`` jobs have ended."""
        if self._shown and (done % self._step == 0 or done == self._total):
            filled = _WIDTH * done // self._total
            bar = "#" * filled + "-" * (_WIDTH - filled)
            self._out.write(f"\r{self._title} [{bar}] {done}/{self._total}")
            self._out.flush()
