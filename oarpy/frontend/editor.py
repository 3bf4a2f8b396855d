"""Letting the user change a text in their own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping


class EditorFailed(Exception):
    """The editor could not be started, or ended with a failure; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def edit(name: str, text: str, environment: Mapping[str, str]) -> bytes:
    """Open ``text`` as a file called ``name`` in ``$VISUAL``, ``$EDITOR`` or vi; return the saved text."""
    editor = environment.get("VISUAL") or environment.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="oarpy-") as folder:
        path = os.path.join(folder, os.path.basename(name) or "text")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            status = subprocess.run([*shlex.split(editor), path], check=False).returncode
        except (OSError, ValueError) as error:
            raise EditorFailed(f"editor '{editor}' cannot be started: {error}", "set EDITOR or use --file") from None
        if status:
            raise EditorFailed(f"editor '{editor}' ended with status {status}", "nothing is changed")
        with open(path, "rb") as file:
            return file.read()
