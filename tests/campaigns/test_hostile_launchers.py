"""One round of the campaign of hostile launchers, with two of each kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaigns.hostile_launchers import run_rounds

pytestmark = pytest.mark.e2e


def test_hostile_launchers_ahead_delay_nobody_beyond_fair_start(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    campaign, wrong = run_rounds(tmp_path / "cluster", each=2, rounds=1, fair_start=2.0)
    did = ", ".join(f"{number} {what}" for what, number in sorted(campaign.done.items()))
    record_property("counts", f"{did}; {max(campaign.delays):.2f} s from freed hosts to a start")
    assert wrong == []
    assert len(campaign.delays) == 1
    assert set(campaign.done) == {"floods", "silences", "slow bytes", "deaths"}
