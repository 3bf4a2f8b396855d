"""A small round of the campaign of a grid: faults of each main kind, and at steps of transactions."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.e2e.grid_campaign import run_round

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.getuid() != 0, reason="only root can make users")]

FAULTS = 12


def test_jobs_run_once_in_all_their_components_whatever_fails(
    cluster_databases: Callable[[], dict[str, str]], record_property: Callable[[str, object], None]
) -> None:
    cores = {"north": 4, "south": 4}
    sizes = {"faults": FAULTS, "mapped": 16, "coallocated": 2, "lead": 15.0, "pause": 0.4}
    campaign, wrong, told = run_round(3, sizes, cores, cluster_databases)
    record_property("counts", told)
    assert wrong == []
    assert campaign.striker.struck.total() + campaign.striker.steps.total() == FAULTS
    assert campaign.striker.steps.total() > 0
    assert campaign.watch.samples > 0
    assert campaign.over.ended["mapped Terminated"] >= 16
