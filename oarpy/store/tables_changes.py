"""Tables of what is asked for jobs that run. For Alembic and tests."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Table, Text, text
from sqlalchemy.dialects.postgresql import INTERVAL, TIMESTAMP

from oarpy.store.tables_platform import METADATA

walltime_changes = Table(
    "walltime_changes",
    METADATA,
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("pending", INTERVAL, nullable=False, server_default=text("'0'")),
    Column("forced", Boolean, nullable=False, server_default=text("false")),
    Column("whole", Boolean, nullable=False, server_default=text("false")),
    Column("delay_next_jobs", Boolean, nullable=False, server_default=text("false")),
    Column("requested_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("requested_by", Text, nullable=False, server_default=text("SESSION_USER")),
    Column("give_up_at", TIMESTAMP(timezone=True)),
    Column("granted", INTERVAL, nullable=False, server_default=text("'0'")),
    Column("granted_with_force", INTERVAL, nullable=False, server_default=text("'0'")),
    Column("granted_with_whole", INTERVAL, nullable=False, server_default=text("'0'")),
    Column("granted_with_delay_next_jobs", INTERVAL, nullable=False, server_default=text("'0'")),
    Column("node_told", Boolean, nullable=False, server_default=text("true")),
    Index("walltime_changes_pending", "job_id", postgresql_where=text("pending <> interval '0'")),
    Index("walltime_changes_untold", "job_id", postgresql_where=text("NOT node_told")),
)

suspend_requests = Table(
    "suspend_requests",
    METADATA,
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("requested_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("requested_by", Text, nullable=False, server_default=text("SESSION_USER")),
)
