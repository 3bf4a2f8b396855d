"""A small round of the accounting check, and that it would see a difference."""

from __future__ import annotations

import pytest

from oarpy.store.analytics import recount
from tests.campaigns.accounting_check import check, stored
from tests.campaigns.lives_of_jobs import WINDOW, Connection
from tests.harness.hand_written import rewrite

pytestmark = pytest.mark.db


def test_every_row_is_that_of_the_second_implementation(connection: Connection) -> None:
    kinds, rows, wrong = check(connection, 160, seed=3)
    assert wrong == []
    assert len(kinds) >= 12
    assert rows > 100
    before = len(stored(connection))
    rewrite(connection, "UPDATE jobs SET accounted = false WHERE user_name = 'sue'")
    rewrite(connection, "DELETE FROM accounting WHERE user_name = 'mona'")
    assert len(stored(connection)) < before
    assert {one.user for one in recount.differences(connection, WINDOW)} == {"sue", "mona"}
    assert {one.user for one in recount.day_differences(connection)} == {"sue"}
