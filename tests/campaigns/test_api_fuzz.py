"""A short run of the campaign; tests/campaigns/api_fuzz.py tells of a long one."""

from __future__ import annotations

import pytest

from tests.campaigns.api_fuzz import campaign
from tests.harness.web_client import Connection


@pytest.mark.db
@pytest.mark.filterwarnings("ignore")
def test_no_request_fails(dsn: str, connection: Connection) -> None:
    statuses = campaign(dsn, connection, 2)
    assert {200, 400, 401, 404, 422} <= set(statuses)
