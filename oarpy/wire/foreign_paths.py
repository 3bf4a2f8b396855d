"""Folders that root may keep its state and data in: no other user owns them, or a link on the way to them."""

from __future__ import annotations

import os
import stat


def foreign_part(path: str) -> str:
    """Return a text about the part of ``path`` that belongs to another user than root; empty if there is none.

    The part is the folder itself, or a link on the way to it. A missing part belongs to nobody. A folder below another
    user's folder is accepted: its maker trusts that user.
    """
    part = path = os.path.abspath(path)
    while part != "/":
        try:
            status = os.lstat(part)
        except OSError:
            status = None
        if status is not None and status.st_uid != 0 and (part == path or stat.S_ISLNK(status.st_mode)):
            kind = "a link" if stat.S_ISLNK(status.st_mode) else "a folder"
            return f"{part} is {kind} of uid {status.st_uid}"
        part = os.path.dirname(part)
    real = os.path.realpath(path)
    return foreign_part(real) if real != path else ""
