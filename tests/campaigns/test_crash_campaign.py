"""A small round of the crash campaign: 60 jobs while everything is killed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.crash_campaign import TARGETS, run_round

pytestmark = pytest.mark.e2e


def test_jobs_end_exactly_once_whatever_is_killed(tmp_path: Path) -> None:
    campaign, wrong = run_round(tmp_path / "cluster", seed=2, jobs=60, kills=1)
    assert wrong == []
    assert campaign.killed == dict.fromkeys(TARGETS, 1)
