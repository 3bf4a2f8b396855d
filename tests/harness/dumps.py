"""All that a database holds, as ``pg_dump`` writes it."""

from __future__ import annotations

import subprocess

from oarpy.postgres.account import account
from oarpy.postgres.binaries import binaries


def dumped(dsn: str) -> str:
    """Return the rows of all tables, and sequences; not the lines that differ from dump to dump."""
    program = binaries(None, account()) / "pg_dump"
    done = subprocess.run([program, "--data-only", dsn], capture_output=True, text=True, timeout=60, check=True)
    return "".join(line for line in done.stdout.splitlines(keepends=True) if not line.startswith("\\"))
