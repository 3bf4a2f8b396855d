"""A small number of the fuzz of a negotiator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.campaigns.negotiation_fuzz import fuzz
from tests.harness.gateway_process import gateway
from tests.harness.launchers import negotiator
from tests.harness.oarsub_cluster import build, settings
from tests.harness.sample_cluster import Connection

pytestmark = pytest.mark.e2e


def test_each_line_is_refused_and_nothing_changes(
    connection: Connection,
    cluster_environment: dict[str, str],
    dsn: str,
    record_property: Callable[[str, object], None],
) -> None:
    build(connection)
    environment = {**cluster_environment, **settings()}
    with gateway(environment, workers=2) as running, negotiator(environment, running, message_rate=1_000_000):
        outcomes, wrong = fuzz(running, dsn, 3000, 1)
    record_property("counts", ", ".join(f"{what} {times}" for what, times in sorted(outcomes.items())))
    assert wrong == []
    assert {"refused 1", "refused 2", "pong", "clustersInfo"} <= set(outcomes)
