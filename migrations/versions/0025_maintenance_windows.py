"""Maintenance windows; every node that is drained or down tells since when and by whom, and that is kept.

Revision ID: 0025
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.platform import maintenance_nodes, maintenance_windows, node_away_logs
from oarpy.store.schema.statements import make

revision = "0025"
down_revision = "0024"

_COMMENTS = (
    ("nodes.away_reason", "why it is drained or down, until it is back; empty: nobody said"),
    ("nodes.away_by", "who drained it or took it down, or said why"),
    ("nodes.away_since", "since when, or when that was said; NULL: it is there"),
    ("resources.available_upto", "until when jobs may use it, or it can be woken up"),
)
_FORMER_COMMENTS = (
    ("nodes.away_reason", "why an admin drains it or took it down, until it is back"),
    ("nodes.away_by", "who said so"),
    ("nodes.away_since", "when that was said"),
    ("resources.available_upto", "until when it can be woken up"),
)
# Nodes that are away already: who did it, and since when, is known from their resources.
_AWAY = """
    UPDATE nodes n SET away_reason = '', away_by = a.state_by, away_since = a.since
    FROM (SELECT DISTINCT ON (network_address) network_address, state_by, state_since AS since FROM resources
          WHERE (state <> 'Alive' OR drain) AND NOT (state = 'Absent' AND state_by = 'monitor')
          ORDER BY network_address, state_since) a
    WHERE n.network_address = a.network_address AND n.away_since IS NULL
"""
_LOGGED = """
    INSERT INTO node_away_logs
    SELECT network_address, coalesce(away_reason, ''), coalesce(away_by, ''), tstzrange(away_since, NULL)
    FROM nodes WHERE away_since IS NOT NULL
"""


def upgrade() -> None:
    """Create the tables with their triggers, and note who is away."""
    connection = op.get_bind()
    for table in (node_away_logs, maintenance_windows, maintenance_nodes):
        table.create(connection)
    for column, comment in _COMMENTS:
        op.execute(f"COMMENT ON COLUMN {column} IS '{comment}'")
    make(connection, "functions", "node_back", "platform_changed")
    op.execute(_AWAY)
    op.execute(_LOGGED)
    make(connection, "functions", "node_away", "node_away_logged")
    make(connection, "views", "node_absences")


def downgrade() -> None:
    """Take them away; who is away without a reason is forgotten."""
    op.execute("DROP VIEW oar_report.node_absences")
    op.execute("DROP FUNCTION node_away_logged CASCADE")
    op.execute("DROP FUNCTION node_away CASCADE")
    op.execute("UPDATE nodes SET away_reason = NULL, away_by = NULL, away_since = NULL WHERE away_reason = ''")
    for table in (maintenance_nodes, maintenance_windows, node_away_logs):
        op.drop_table(table.name)
    for column, comment in _FORMER_COMMENTS:
        op.execute(f"COMMENT ON COLUMN {column} IS '{comment}'")
    op.execute(_FORMER_FUNCTIONS)


_FORMER_FUNCTIONS = """
CREATE OR REPLACE FUNCTION platform_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM changed) THEN
        UPDATE site SET platform_version = platform_version + 1;
        PERFORM announce(ARRAY['platform changed']);
    END IF;
    RETURN NULL;
END $$;
-- whoever brings a node back, the reason why it was away is over when none of its resources is away any more
CREATE OR REPLACE FUNCTION node_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE nodes n SET away_reason = NULL, away_by = NULL, away_since = NULL
        WHERE n.network_address = NEW.network_address AND n.away_reason IS NOT NULL
          AND NOT EXISTS (SELECT FROM resources r
                          WHERE r.network_address = n.network_address AND (r.state <> 'Alive' OR r.drain));
    RETURN NULL;
END $$;
"""
