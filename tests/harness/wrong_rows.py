"""What ``oarpy db check`` says of rows; it compares the schema besides, which takes ten times as long."""

from __future__ import annotations

from oarpy.store.schema import migrations
from oarpy.store.schema.checks.contradictions import contradictions


def wrong_rows(dsn: str) -> tuple[str, ...]:
    """Return the rows that contradict each other, one line each with what mends them."""
    with migrations.connected(dsn) as connection:
        return tuple(contradictions(connection))
