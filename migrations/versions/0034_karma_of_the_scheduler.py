"""The view of karma is what the scheduler uses, with the window, coefficients and targets that passes record.

Revision ID: 0034
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Double, text
from sqlalchemy.dialects.postgresql import INTERVAL, JSONB

from oarpy.store.schema.columns import sound
from oarpy.store.schema.statements import make

revision = "0034"
down_revision = "0033"

TABLE = "scheduling_passes"
COLUMNS = {
    "karma_window": (INTERVAL, "'30 days'", "how far back karma looks"),
    "karma_project": (Double, "0", "coefficient of what a project used beyond its target"),
    "karma_user": (Double, "2", "coefficient of what a user used beyond the target"),
    "karma_asked": (Double, "1", "coefficient of what a user asked for beyond the target"),
    "other_users_target": (Double, "0", "part of all use for each user who is not named, 0 to 1"),
    "other_projects_target": (Double, "0", "part of all use for each project that is not named, 0 to 1"),
    "user_targets": (JSONB, "'{}'", "parts of all use by user, 0 to 1"),
    "project_targets": (JSONB, "'{}'", "parts of all use by project, 0 to 1"),
}
"""Type, default and meaning by name."""

OLDER = """
DROP VIEW oar_report.karma;
DROP VIEW oar_report.charges;
CREATE OR REPLACE VIEW oar_report.karma AS
WITH recent AS (
    SELECT user_name, project, consumption_type, consumption FROM public.accounting
    WHERE window_stop > now() - interval '30 days' AND window_start < now()
), sums AS (
    SELECT CASE WHEN grouping(user_name) = 0 THEN 'user' ELSE 'project' END AS kind,
           coalesce(user_name, project) AS name,
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'ASKED'), 0) AS asked,
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0) AS used
    FROM recent GROUP BY GROUPING SETS ((user_name), (project))
)
SELECT kind, name, asked::double precision AS asked_seconds, used::double precision AS used_seconds,
       coalesce(asked / nullif(sum(asked) OVER (PARTITION BY kind), 0), 0)::double precision AS asked_share,
       coalesce(used / nullif(sum(used) OVER (PARTITION BY kind), 0), 0)::double precision AS used_share
FROM sums;
COMMENT ON VIEW oar_report.karma IS 'inputs of fair share: who asked for and used what part of the last 30 days';
COMMENT ON COLUMN oar_report.karma.kind IS 'user or project: what the row sums up';
COMMENT ON COLUMN oar_report.karma.name IS 'the user''s or the project''s name';
COMMENT ON COLUMN oar_report.karma.asked_seconds IS 'resource-seconds asked for';
COMMENT ON COLUMN oar_report.karma.used_seconds IS 'resource-seconds used';
COMMENT ON COLUMN oar_report.karma.asked_share IS 'part of all that was asked for, 0 to 1';
COMMENT ON COLUMN oar_report.karma.used_share IS 'part of all that was used, 0 to 1';
"""


def upgrade() -> None:
    """Add the columns and the view of charges; the next pass records the settings of the site."""
    for name, (kind, default, meaning) in COLUMNS.items():
        op.add_column(TABLE, Column(name, kind, nullable=False, server_default=text(default), comment=meaning))
        condition = sound(name, kind) or f"jsonb_typeof({name}) = 'object'"
        op.create_check_constraint(f"{TABLE}_{name}_check", TABLE, condition)
    op.create_table_comment(TABLE, "the last scheduling pass, and what passes compute karma with; one row")
    make(op.get_bind(), "views", "charges", "karma")


def downgrade() -> None:
    """Take them away."""
    op.get_bind().exec_driver_sql(OLDER, execution_options={"no_parameters": True})
    for name in COLUMNS:
        op.drop_column(TABLE, name)
    op.create_table_comment(TABLE, "the last scheduling pass; one row")
