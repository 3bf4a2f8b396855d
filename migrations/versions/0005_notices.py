"""Notices: what users and admins are to be told of jobs and nodes, queued by the database itself.

Revision ID: 0005
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the queue and what fills it."""
    statements = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})


def downgrade() -> None:
    """Remove both; what nobody was told yet is lost."""
    connection = op.get_bind()
    connection.exec_driver_sql("DROP TRIGGER jobs_noticed ON jobs")
    connection.exec_driver_sql("DROP TRIGGER events_noticed ON event_logs")
    connection.exec_driver_sql("DROP TABLE notices")
    connection.exec_driver_sql("DROP FUNCTION job_noticed")
    connection.exec_driver_sql("DROP FUNCTION events_noticed")
