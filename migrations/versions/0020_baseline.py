"""The schema of this version, for a database that has none.

It stands for the first twenty steps, made before there was a release; a database that took them is at this revision.
Later revisions are for databases that older versions made: ``oarpy.store.schema.migrations`` runs them on no other.

Revision ID: 0020
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make, names
from oarpy.store.schema.tables import FIRST_ROWS, LOOKUP_ROWS, TABLES

revision = "0020"
down_revision = None


def upgrade() -> None:
    """Create everything. The rows come before the triggers, which would announce them."""
    connection = op.get_bind()
    connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS btree_gist")
    for table in TABLES:
        table.create(connection, checkfirst=False)
    for table, rows in (LOOKUP_ROWS | FIRST_ROWS).items():
        connection.execute(table.insert(), rows)
    make(connection, "functions", *names("functions"))
    connection.exec_driver_sql("CREATE SCHEMA oar_report")
    connection.exec_driver_sql(
        "COMMENT ON SCHEMA oar_report IS"
        " 'stable views over jobs, nodes and accounting; grant USAGE on it and SELECT on its views'"
    )
    make(connection, "views", *names("views"))
    connection.exec_driver_sql("CREATE SCHEMA oar_compat")
    connection.exec_driver_sql(
        "COMMENT ON SCHEMA oar_compat IS 'tables of OAR 2.5, as views; names, types and values are those of OAR'"
    )
    make(connection, "compat", *names("compat"))


def downgrade() -> None:
    """Refuse: before the baseline there is no schema to go back to."""
    raise NotImplementedError("revision 0020 is the whole schema: drop the database instead")
