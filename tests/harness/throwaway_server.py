"""A server of PostgreSQL whose data are thrown away."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from oarpy.postgres import embedded_server

SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
}
"""Nothing is gained by forcing such data to the disk, or by tidying it up."""


@contextmanager
def own_server() -> Iterator[str]:
    """Start a server in memory; return its DSN. It goes with this process, also when that is terminated."""
    memory = Path("/dev/shm")
    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)))
        place = str(memory) if os.access(memory, os.W_OK) else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oarpy-virtual-", dir=place)))
        folder.chmod(0o711)
        stack.callback(embedded_server.remove, folder / "postgresql")
        yield embedded_server.start(folder / "postgresql", settings=SETTINGS)
