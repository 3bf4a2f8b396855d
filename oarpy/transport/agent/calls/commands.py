"""The commands of users on this node: one script under the names of all, below the state directory."""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SCRIPT = ".oarpy"
PROFILE = ".profile"
"""Name of the file that shells read after the profiles of the node and the user, which reset PATH on many systems."""
_PROFILE_TEXT = 'case ":$PATH:" in *":$OARPY_NODE/bin:"*) ;; *) PATH="$PATH:$OARPY_NODE/bin" ;; esac\n'
_LONGEST_INTERPRETER = 120
"""Bytes of a script's first line that every kernel reads."""


def install(directory: str, names: Sequence[str], text: str) -> None:
    """Write missing and differing files, each at once; raise ``OSError``. ``text`` is the script's program."""
    os.makedirs(directory, mode=0o755, exist_ok=True)
    _write(os.path.join(directory, PROFILE), _PROFILE_TEXT, 0o644)
    if not install_program(directory, _SCRIPT, text):
        return
    for name in names:
        path = os.path.join(directory, name)
        if not os.path.islink(path) or os.readlink(path) != _SCRIPT:
            with _new(path) as hidden:
                os.symlink(_SCRIPT, hidden)


def install_program(directory: str, name: str, text: str) -> bool:
    """Write a script of this process's Python; return whether a script can name that. Raises ``OSError``."""
    interpreter = sys.executable
    if not interpreter or len(interpreter) > _LONGEST_INTERPRETER or len(interpreter.split()) != 1:
        return False
    _write(os.path.join(directory, name), f"#!{interpreter} -IS\n{text}", 0o755)
    return True


def _write(path: str, text: str, mode: int) -> None:
    content = text.encode()
    if _read(path) != content:
        with _new(path) as hidden:
            fd = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
            with open(fd, "wb") as file:
                file.write(content)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


@contextlib.contextmanager
def _new(path: str) -> Iterator[str]:
    """Yield the name of a new file, which then takes the place of ``path``."""
    hidden = f"{path}.{os.getpid()}"
    try:
        yield hidden
        os.rename(hidden, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise
