"""The files that a command is given: their texts, and a line of answer for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO, TypeVar

from oarpy.model.errors import UsageError

_UNREADABLE = 2

Content = TypeVar("Content")


def answer_files(
    paths: Sequence[str], out: TextIO, err: TextIO, read: Callable[[str], Content], answer: Callable[[Content], str]
) -> int:
    """Write a line to ``out`` for each file: ``answer`` of the value that ``read`` makes of its path.

    Return the exit status. If one of them raises :class:`UsageError` for a file, one line goes to ``err`` and the
    status is 2; the other files are still answered.
    """
    status = 0
    for path in paths:
        try:
            line = answer(read(path))
        except UsageError as error:
            err.write(f"{path}: {error}\n")
            status = _UNREADABLE
            continue
        out.write(f"{line}\n")
        out.flush()
    return status


def text_of(path: Path | str) -> str:
    """Return the text of a file. Raises :class:`UsageError`, which does not name it, when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError("not UTF-8 text", hint="give a JSON file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"cannot be read: {reason}", hint="give a JSON file") from None
