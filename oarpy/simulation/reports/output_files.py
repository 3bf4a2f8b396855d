"""The files that replays and generators write."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TextIO

from oarpy.model.errors import OarpyError

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


def own_file(path: Path, policy: str, policies: Sequence[str]) -> Path:
    """Return the file of one policy: ``path``, with the policy's name before the suffix when there are several."""
    return path if len(policies) == 1 else path.with_name(f"{path.stem}-{policy}{path.suffix}")


def check_places(paths: Iterable[Path | None], policies: Sequence[str]) -> None:
    """Raise :class:`OarpyError` when the files of ``policies`` cannot be written: before the time for them is spent."""
    for file in [own_file(path, policy, policies) for path in paths if path is not None for policy in policies]:
        with writing(file):
            if file.is_dir():
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
            exists = file.exists()
            if not exists and not stat.S_ISDIR(file.parent.stat().st_mode):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if not (os.access(file, os.W_OK) if exists else os.access(file.parent, os.W_OK | os.X_OK)):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` while ``path`` is written into an :class:`OarpyError`."""
    try:
        yield
    except OSError as error:
        raise OarpyError(f"cannot write '{path}': {error.strerror or error}") from error


def write_file(path: Path, write: Callable[[TextIO], None]) -> None:
    """Let ``write`` fill the file ``path``. Raises :class:`OarpyError` when it cannot be written."""
    with writing(path), path.open("w", encoding="utf-8", newline="") as file:
        write(file)
