"""Alembic's entry point: runs on the connection of ``oarpy.store.schema.migrations``, in its transaction."""

from __future__ import annotations

from typing import Any

from alembic import context
from sqlalchemy import Connection

from oarpy.store.past.dependent_views import DependentViews


def run(connection: Connection, views: DependentViews) -> None:
    """Run the migrations that were asked for, all in one transaction; ``views`` are put away for each of them."""

    def after_step(*_: Any, **__: Any) -> None:
        views.put_away()

    context.configure(connection=connection, on_version_apply=after_step)
    views.put_away()
    with context.begin_transaction():
        context.run_migrations()
    views.put_back()


run(context.config.attributes["connection"], context.config.attributes["views"])
