"""Each alternative of a reservation has its own walltime as the measure of its slack.

Revision ID: 0111
"""

from __future__ import annotations

from alembic import op

revision = "0111"
down_revision = "0110"


_ROOM = "room of each alternative in percent of its walltime, with the deadline of the longest; NULL: one deadline"


def upgrade() -> None:
    """Keep which part of its walltime each alternative may be put off by; windows of before stay as they are."""
    op.execute(
        """
        ALTER TABLE reservation_windows ADD COLUMN slack_percent SMALLINT
            CONSTRAINT reservation_windows_slack_percent_check CHECK (slack_percent >= 0)
        """
    )
    op.execute(f"COMMENT ON COLUMN reservation_windows.slack_percent IS '{_ROOM}'")


def downgrade() -> None:
    """Let the deadline be that of all alternatives."""
    op.execute("ALTER TABLE reservation_windows DROP COLUMN slack_percent")
