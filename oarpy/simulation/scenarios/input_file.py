"""The text of a file that a command is given."""

from __future__ import annotations

from pathlib import Path

from oarpy.model.errors import UsageError


def text_of(path: Path | str) -> str:
    """Return the text of a file. Raises :class:`UsageError`, which does not name it, when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError("not UTF-8 text", hint="give a JSON file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"cannot be read: {reason}", hint="give a JSON file") from None
