"""The schema as SQLAlchemy Core tables, compared with the migrated database by tests and by ``oarpy db check``.

Run-time SQL is written by hand elsewhere in ``store``; commands and modules do not import this.
"""

from __future__ import annotations

from typing import Any

from oarpy.store import tables_changes, tables_consumables, tables_jobs, tables_notices, tables_quotas, tables_scripts
from oarpy.store.tables_platform import METADATA

__all__ = [
    "METADATA",
    "is_ours",
    "tables_changes",
    "tables_consumables",
    "tables_jobs",
    "tables_notices",
    "tables_quotas",
    "tables_scripts",
]


def is_ours(thing: Any, name: str | None, kind: str, reflected: bool, compare_to: Any) -> bool:
    """Alembic's filter: what an admin may add without being told that the schema is wrong.

    Those are columns of ``resources`` (properties) and indexes.
    """
    if not reflected or compare_to is not None:
        return True
    if kind == "column":
        return str(thing.table.name) != "resources"
    return kind != "index" and name != "alembic_version"
