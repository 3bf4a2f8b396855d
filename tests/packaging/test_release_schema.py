"""The newest revision becomes the baseline: of the others remains what they do to rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.test_contracts import script

release_schema = script("release_schema")
BASELINE = """
revision = "0076"
down_revision = None
replaces = (
    *("0074", "0075"),
)
"""
REVISION = '''"""Queues of the night come later.

Revision ID: 0077
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Connection, text

revision = "0077"
down_revision = "0076"
_LATER = "UPDATE queues SET priority = 1 WHERE queue_name = 'night'"


def upgrade() -> None:
    """Move them."""
    rows(op.get_bind())


def rows(connection: Connection) -> None:
    """Move them."""
    connection.execute(text(_LATER))


def downgrade() -> None:
    """Leave them."""
'''
REMAINS = '''"""Queues of the night come later."""

from __future__ import annotations

from sqlalchemy import Connection, text

_LATER = "UPDATE queues SET priority = 1 WHERE queue_name = 'night'"

def rows(connection: Connection) -> None:
    """Move them."""
    connection.execute(text(_LATER))
'''


@pytest.fixture
def migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("versions", "older"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(release_schema, name.upper(), tmp_path / name)
    monkeypatch.setattr(release_schema, "ROOT", tmp_path)
    (tmp_path / "versions" / "0076_baseline.py").write_text(BASELINE, encoding="utf-8")
    return tmp_path


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.py"))


def test_the_newest_revision_becomes_the_baseline(migrations: Path) -> None:
    (migrations / "versions" / "0077_nights.py").write_text(REVISION, encoding="utf-8")
    (migrations / "versions" / "0078_index.py").write_text(REVISION.replace("rows", "all_rows"), encoding="utf-8")
    release_schema.main()
    assert files(migrations) == ["older/0077_nights.py", "versions/0078_baseline.py"]
    assert (migrations / "older" / "0077_nights.py").read_text(encoding="utf-8") == REMAINS
    made: dict[str, object] = {}
    exec((migrations / "versions" / "0078_baseline.py").read_text(encoding="utf-8"), made)
    assert (made["revision"], made["replaces"]) == ("0078", ("0074", "0075", "0076", "0077"))


def test_a_baseline_that_is_the_newest_stays(migrations: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release_schema.main()
    assert files(migrations) == ["versions/0076_baseline.py"]
    assert capsys.readouterr().out == "versions/0076_baseline.py is the newest revision\n"
