"""Alembic's entry point: runs on the connection of ``oarpy.store.schema.migrations``, in its transaction."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection


def run(connection: Connection) -> None:
    """Run the migrations that were asked for, all in one transaction."""
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
