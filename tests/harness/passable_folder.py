"""A folder for servers and nodes that run as users of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def passable_folder(prefix: str) -> Iterator[Path]:
    """Make a temporary folder that every user may pass through (those of pytest are closed), and remove it."""
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
