"""How an embedded server is set up: tuned for many short transactions, and open to its owner alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from oarpy.postgres.account import ServerAccount

SETTINGS: Mapping[str, str] = {
    "max_connections": "200",
    "shared_buffers": "256MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "effective_cache_size": "1GB",
    "random_page_cost": "1.1",
    # a commit that was acknowledged is on disk: modules act on it outside the database
    "synchronous_commit": "on",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "wal_compression": "on",
    # queries are short; compiling them costs more than it saves
    "jit": "off",
    # live tables are small and rewritten all the time: vacuum them early
    "autovacuum_naptime": "15s",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_analyze_scale_factor": "0.05",
    "log_min_messages": "warning",
    "unix_socket_permissions": "0700",
}
"""``oarpy.conf``; ``ALTER SYSTEM`` wins over it."""

_INCLUDE = "include_if_exists = 'oarpy.conf'"


def write_settings(data: Path, settings: Mapping[str, str], owner: ServerAccount) -> None:
    """Write ``oarpy.conf`` and make sure that the server's main configuration file reads it."""
    lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in settings.items()]
    _write(data / "oarpy.conf", "".join(lines), owner)
    main = data / "postgresql.conf"
    text = main.read_text(encoding="utf-8")
    if _INCLUDE not in text:
        _write(main, f"{text}\n{_INCLUDE}\n", owner)


def write_access(data: Path, owner: ServerAccount) -> None:
    """Let in the server's own user and root, named by the kernel, through the socket only."""
    _write(data / "pg_hba.conf", "local all all peer map=owner\n", owner)
    names = dict.fromkeys((owner.name, "root"))
    _write(data / "pg_ident.conf", "".join(f'owner "{name}" oarpy\n' for name in names), owner)


def _write(path: Path, text: str, owner: ServerAccount) -> None:
    draft = path.with_name(path.name + ".new")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o600)
    owner.give(draft)
    draft.rename(path)
