"""A small number of the gateway's fuzz, from three seeds."""

from __future__ import annotations

import pytest

from tests.db.oarsub_cluster import build
from tests.db.sample_cluster import Connection
from tests.e2e.gateway_fuzz import fuzz
from tests.gateway_harness import gateway

pytestmark = pytest.mark.e2e


def test_no_crash_no_hang_no_effect(connection: Connection, cluster_environment: dict[str, str], dsn: str) -> None:
    build(connection)
    with gateway(cluster_environment, workers=2) as running:
        for seed in (1, 2, 3):
            outcomes, wrong = fuzz(running, dsn, 500, seed)
            assert wrong == []
            assert {"refused", "closed", "left", "status 2"} <= set(outcomes)
