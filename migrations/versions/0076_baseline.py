"""The schema of this version, for a database that has none.

Databases at earlier revisions are brought to it by ``oarpy.store.schema.older_databases``. Revisions that come later
are for databases that are at this one, or after it.

Revision ID: 0076
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make_all
from oarpy.store.schema.tables import FIRST_ROWS, LOOKUP_ROWS, TABLES

revision = "0076"
down_revision = None
replaces = (
    *("0020", "0021", "0022", "0023", "0024", "0025", "0026", "0027", "0028", "0029"),
    *("0030", "0031", "0032", "0033", "0034", "0035", "0036", "0037", "0038", "0039"),
    *("0040", "0041", "0042", "0043", "0044", "0045", "0046", "0047", "0048", "0049"),
    *("0050", "0051", "0053", "0056", "0057", "0058", "0059"),
    *("0060", "0061", "0062", "0063", "0064", "0065", "0066", "0067", "0068", "0069"),
    *("0070", "0071", "0072", "0073", "0074", "0075"),
)
"""Revisions that a database may be at instead: all since the first one of which a cluster was kept."""


def upgrade() -> None:
    """Create everything. The rows come before the triggers, which would announce them."""
    connection = op.get_bind()
    connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS btree_gist")
    for table in TABLES:
        table.create(connection, checkfirst=False)
    for table, rows in (LOOKUP_ROWS | FIRST_ROWS).items():
        connection.execute(table.insert(), rows)
    make_all(connection)
