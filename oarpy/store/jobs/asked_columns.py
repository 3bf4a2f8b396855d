"""The columns of jobs that hold their requests, as far as passes read them."""

from __future__ import annotations

from psycopg import sql

from oarpy.model.submission import FIELDS

ASKED_COLUMNS = sql.SQL(", ").join(
    sql.SQL("extract(epoch FROM {})::float8 AS {}" if field.instant else "{} AS {}").format(
        sql.Identifier("j", field.column), sql.Identifier(name)
    )
    for name, field in FIELDS.items()
    if field.seen is not None
)
"""These columns of a row ``j`` of jobs, each under its field's name of the submission; instants in epoch seconds."""
