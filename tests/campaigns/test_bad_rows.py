"""A few wrong rows: all other jobs go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.bad_rows import run_campaign

pytestmark = pytest.mark.e2e


def test_a_wrong_row_stops_nobody_else(tmp_path: Path, dsn: str) -> None:
    campaign, wrong = run_campaign(tmp_path / "cluster", seed=7, changes=25, within=10, database=dsn)
    assert wrong == []
    assert sum(campaign.made.values()) == 25
