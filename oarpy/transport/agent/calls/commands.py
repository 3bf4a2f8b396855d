"""The commands of users on this node: one script under the names of all, below the state directory."""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SCRIPT = ".oarpy"
_LONGEST_INTERPRETER = 120
"""Bytes of a script's first line that every kernel reads."""


def install(directory: str, names: Sequence[str], text: str) -> None:
    """Write what is missing or differs, each file at once; raise ``OSError``. ``text`` is the script's program."""
    interpreter = sys.executable
    if not interpreter or len(interpreter) > _LONGEST_INTERPRETER or len(interpreter.split()) != 1:
        return  # no script can name it
    os.makedirs(directory, mode=0o755, exist_ok=True)
    script = os.path.join(directory, _SCRIPT)
    content = f"#!{interpreter} -IS\n{text}".encode()
    if _read(script) != content:
        with _new(script) as hidden:
            fd = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o755)
            with open(fd, "wb") as file:
                file.write(content)
    for name in names:
        path = os.path.join(directory, name)
        if not os.path.islink(path) or os.readlink(path) != _SCRIPT:
            with _new(path) as hidden:
                os.symlink(_SCRIPT, hidden)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


@contextlib.contextmanager
def _new(path: str) -> Iterator[str]:
    """Give the name under which to make what then takes the place of ``path``."""
    hidden = f"{path}.{os.getpid()}"
    try:
        yield hidden
        os.rename(hidden, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise
