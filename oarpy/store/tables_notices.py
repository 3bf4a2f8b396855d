"""The table of what is still to be told. For Alembic and tests."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Identity, Index, SmallInteger, Table, Text, text
from sqlalchemy.dialects.postgresql import TIMESTAMP

from oarpy.store.tables_platform import METADATA

notices = Table(
    "notices",
    METADATA,
    Column("notice_id", BigInteger, Identity(always=True), primary_key=True),
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE")),
    Column("tag", Text, nullable=False),
    Column("comment", Text, nullable=False),
    Column("at", TIMESTAMP(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    Column("attempts", SmallInteger, nullable=False, server_default=text("0")),
    Column("due", TIMESTAMP(timezone=True), nullable=False, server_default=text("'-infinity'")),
    CheckConstraint("tag IN ('RUNNING', 'END', 'ERROR', 'INFO', 'SUSPENDED', 'RESUMING')", name="notices_tag_check"),
    CheckConstraint("attempts >= 0", name="notices_attempts_check"),
    Index("notices_job", "job_id"),
)
