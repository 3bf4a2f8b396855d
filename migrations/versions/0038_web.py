"""Tokens by which requests over the web prove whose they are, and what was done over the web.

Revision ID: 0038
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.journal import web_actions
from oarpy.store.schema.rules import access_tokens

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    """Create the two tables."""
    for created in (access_tokens, web_actions):
        created.create(op.get_bind())


def downgrade() -> None:
    """Remove them: every token, and what is known of actions, is gone."""
    for created in (web_actions, access_tokens):
        created.drop(op.get_bind())
