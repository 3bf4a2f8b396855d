"""One round of the campaign of hostile launchers, with two of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.hostile_launchers import run_rounds

pytestmark = pytest.mark.e2e


def test_hostile_launchers_ahead_delay_nobody_beyond_fair_start(tmp_path: Path) -> None:
    campaign, wrong = run_rounds(tmp_path / "cluster", each=2, rounds=1, fair_start=2.0)
    assert wrong == []
    assert len(campaign.delays) == 1
    assert set(campaign.done) == {"floods", "silences", "slow bytes", "deaths"}
