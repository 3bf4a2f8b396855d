"""Nodes at fault are Suspected though they answer: the monitor, which takes back what answers, leaves those alone.

Revision ID: 0009
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"

_CHECK = "ALTER TABLE resources ADD CONSTRAINT resources_state_by_check CHECK (state_by IN ({}))"
_COMMENTS = {
    "resources.state_by": "who put it there; the monitor undoes its own decisions only",
    "oar_report.node_state_history.state_by": "who put it there: admin or monitor",
}
_NEW_COMMENTS = {
    "resources.state_by": "who put it there: admin; monitor, which undoes its own decisions only; launcher, for a fault"
    " that an admin has to see to; node, for a fault that is over when the node says so",
    "oar_report.node_state_history.state_by": "who put it there: admin, monitor, launcher or node",
}


def upgrade() -> None:
    """Allow ``launcher`` and ``node`` as who put a resource into its state."""
    _become("'admin', 'monitor', 'launcher', 'node'", _NEW_COMMENTS)


def downgrade() -> None:
    """Leave such decisions to the admin."""
    op.execute("UPDATE resources SET state_by = 'admin' WHERE state_by IN ('launcher', 'node')")
    _become("'admin', 'monitor'", _COMMENTS)


def _become(names: str, comments: dict[str, str]) -> None:
    op.execute("ALTER TABLE resources DROP CONSTRAINT resources_state_by_check")
    op.execute(_CHECK.format(names))
    for column, text in comments.items():
        op.execute(f"COMMENT ON COLUMN {column} IS '{text}'")
