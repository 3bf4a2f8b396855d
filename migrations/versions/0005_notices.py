"""Notices: what users and admins are to be told of jobs and nodes, queued by the database itself.

Revision ID: 0005
"""

from __future__ import annotations

from alembic import op
from oarpy.migrations.statements import run_file

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the queue and what fills it."""
    run_file(__file__)


def downgrade() -> None:
    """Remove both; what nobody was told yet is lost."""
    connection = op.get_bind()
    connection.exec_driver_sql("DROP TRIGGER jobs_noticed ON jobs")
    connection.exec_driver_sql("DROP TRIGGER events_noticed ON event_logs")
    connection.exec_driver_sql("DROP TABLE notices")
    connection.exec_driver_sql("DROP FUNCTION job_noticed")
    connection.exec_driver_sql("DROP FUNCTION events_noticed")
