"""A small number of the gateway's fuzz, from three seeds."""

from __future__ import annotations

import pytest

from tests.campaigns.gateway_fuzz import fuzz
from tests.harness.gateway_process import gateway
from tests.harness.oarsub_cluster import build
from tests.harness.sample_cluster import Connection

pytestmark = pytest.mark.e2e


def test_no_crash_no_hang_no_effect(connection: Connection, cluster_environment: dict[str, str], dsn: str) -> None:
    build(connection)
    with gateway(cluster_environment, workers=2) as running:
        for seed in (1, 2, 3):
            outcomes, wrong = fuzz(running, dsn, 500, seed)
            assert wrong == []
            assert {"refused", "closed", "left", "status 2"} <= set(outcomes)
