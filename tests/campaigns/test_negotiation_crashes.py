"""A small round of the campaign of applications: some processes of each side are killed once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaigns.negotiation_crashes import LAUNCHER, WORKER, run_round, told
from tests.harness.server_processes import SESSION

pytestmark = pytest.mark.e2e

TARGETS = ("negotiator", "metascheduler", WORKER, LAUNCHER, "supervisor", SESSION)


def test_applications_lose_and_double_nothing_whatever_is_killed(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    campaign, wrong = run_round(tmp_path / "cluster", 3, applications=8, jobs=6, kills=1, targets=TARGETS)
    record_property("counts", told(campaign))
    assert wrong == []
    assert campaign.killed == dict.fromkeys(TARGETS, 1)
    assert sum(one.attached for one in campaign.threads) > 0
    assert campaign.compared > 0
