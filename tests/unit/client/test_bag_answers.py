"""What ``oarsub`` prints of a bag: other programs read it."""

from __future__ import annotations

from oarpy.client.rendering import local_date
from oarpy.client.submission.bags import BagAnswer
from oarpy.client.submission.report import promise_text


def test_a_deadline_is_met_or_missed_by_a_time() -> None:
    promised = f"promised completion : {local_date(7200)}\n"
    assert promise_text(BagAnswer(1, 7200.0, None)) == promised
    assert promise_text(BagAnswer(1, 7200.0, 7200.0)) == f"{promised}deadline met\n"
    assert promise_text(BagAnswer(1, 7200.0, 6600.0)) == f"{promised}deadline missed by 0:10:00\n"
