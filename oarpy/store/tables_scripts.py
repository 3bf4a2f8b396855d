"""The table of scripts that the server runs around jobs. For Alembic and tests."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Integer, Table, Text, text
from sqlalchemy.dialects.postgresql import TIMESTAMP

from oarpy.store.tables_platform import METADATA

server_scripts = Table(
    "server_scripts",
    METADATA,
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("began_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    Column("outcome", Text),
    Column("detail", Text, nullable=False, server_default=text("''")),
    CheckConstraint("kind IN ('prologue', 'epilogue')", name="server_scripts_kind_check"),
    CheckConstraint("outcome IN ('ok', 'failed', 'timeout', 'lost')", name="server_scripts_outcome_check"),
)
