"""Every change of quotas is written down."""

from __future__ import annotations

from sqlalchemy import Connection

_KEPT = "INSERT INTO quota_changes (relation, change, content) SELECT '{0}', 'made', to_jsonb(q) - 'level' FROM {0} q"


def rows(connection: Connection) -> None:
    """Note the quotas of now."""
    connection.exec_driver_sql("DROP FUNCTION IF EXISTS resources_returned CASCADE")
    for relation in ("quota_sets", "quotas", "quota_periods", "quota_exceptions"):
        connection.exec_driver_sql(_KEPT.format(relation))
