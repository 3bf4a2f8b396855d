"""Seconds of the campaign of an analyst who does all that SQL allows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaigns.hammering_analyst import run_campaign

pytestmark = pytest.mark.e2e


def test_an_analyst_who_hammers_makes_nothing_late(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    campaign, wrong = run_campaign(tmp_path / "cluster", seconds=1, in_flight=10, sessions=2)
    record_property("counts", f"{campaign.jobs} jobs, {campaign.slowest:.2f} s; {dict(campaign.done)}")
    assert wrong == []
    assert campaign.done["refused"] > 10
    assert {what for what in campaign.done if "advisory" in what or "lo_" in what or "LOCK" in what} == set()
