"""Programs that know the tables of OAR 2.5 find them as views in schema oar_compat.

Revision ID: 0041
"""

from __future__ import annotations

from alembic import context, op

from oarpy.store.schema.statements import make, names

revision = "0041"
down_revision = "0040"

_FUNCTIONS = ("epoch_seconds", "make_compat_resources", "woken_until", "yes_or_no")


def upgrade() -> None:
    """Create the views."""
    op.execute("CREATE SCHEMA oar_compat")
    op.execute(
        "COMMENT ON SCHEMA oar_compat IS 'tables of OAR 2.5, as views; names, types and values are those of OAR'"
    )
    make(op.get_bind(), "functions", *_FUNCTIONS)
    make(op.get_bind(), "compat", *names("compat"))


def downgrade() -> None:
    """Take them back."""
    op.execute("DROP SCHEMA oar_compat CASCADE")
    context.config.attributes["views"].forget("oar_compat")
    for name in _FUNCTIONS:
        op.execute(f"DROP FUNCTION {name}")
