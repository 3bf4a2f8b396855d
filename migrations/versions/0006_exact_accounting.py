"""Consumption is kept exactly instead of in whole resource-seconds.

Revision ID: 0006
"""

from __future__ import annotations

from pathlib import Path

from oarpy.migrations.statements import run, run_file

revision = "0006"
down_revision = "0005"

_EXACT = "ALTER TABLE accounting ALTER COLUMN consumption TYPE numeric"
_WHOLE = "ALTER TABLE accounting ALTER COLUMN consumption TYPE bigint USING round(consumption)"

_GRANT_AGAIN = """
DO $$
DECLARE kept record;
BEGIN
    FOR kept IN SELECT * FROM kept_grants LOOP
        EXECUTE format('GRANT %s ON oar_report.%I TO %s%s', kept.privilege_type, kept.relname, kept.grantee,
            CASE WHEN kept.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END $$;
DROP TABLE kept_grants
"""


def upgrade() -> None:
    """Keep fractions from now on; what was rounded before stays as it is."""
    _retype(_EXACT)


def downgrade() -> None:
    """Round each sum to whole resource-seconds."""
    _retype(_WHOLE)


def _retype(statement: str) -> None:
    """Change the column below the views ``accounting`` and ``karma``, which are made again as they were."""
    run_file(__file__)
    for text in (statement, _views(), _GRANT_AGAIN):
        run(text)


def _views() -> str:
    """Return the two views with their comments as the revision that brought them has them."""
    text = Path(__file__).with_name("0002_report_views.sql").read_text(encoding="utf-8")
    return text[text.index("CREATE VIEW oar_report.accounting") : text.index("CREATE VIEW oar_report.waiting_jobs")]
