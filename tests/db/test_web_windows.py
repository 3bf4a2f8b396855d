"""Windows of reservations, moves and offers on the pages, in the Gantt, and in the stream of events."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from fastapi.testclient import TestClient

from oarpy.client.events.stream import cursor_of, next_batch
from tests.harness.small_cluster import Connection, SmallCluster, with_settings
from tests.harness.web_client import ANN, BOB, token, web_client, web_settings

pytestmark = [pytest.mark.db, pytest.mark.kept]


@pytest.fixture
def client(dsn: str) -> Iterator[TestClient]:
    with web_client(web_settings(dsn)) as found:
        yield found


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, with_settings(scheduler={"security_time": 0}))
    made.add_nodes("n1", "n2")
    return made


def reserve(cluster: SmallCluster, begin: datetime, room: int | None = None, nodes: int = 2) -> int:
    """Reserve nodes for an hour, with so many hours until the end of the window."""
    until = None if room is None else begin + timedelta(hours=room)
    job = cluster.submit(f"/nodes={nodes},walltime=1:0:0", user=ANN, reservation=begin, until=until)
    cluster.settle()
    return job


def text(client: TestClient, path: str, who: dict[str, str]) -> str:
    answer = client.get(path, headers={"Accept": "text/html", **who})
    assert answer.status_code == 200, answer.text
    return answer.text


def test_window_moves_and_offers_are_on_the_page_of_a_job(
    client: TestClient, connection: Connection, cluster: SmallCluster
) -> None:
    begin = (cluster.now() + timedelta(hours=2)).replace(microsecond=0)
    movable = reserve(cluster, begin, 4)
    page = text(client, f"/jobs/{movable}", token(connection, ANN))
    assert ("<dt>Window</dt>" in page, "it may move inside" in page, "<dt>Moved</dt>" in page) == (True, True, False)
    cursor = cursor_of(connection, None)
    strict = reserve(cluster, begin)
    assert "<dt>Window</dt>" not in text(client, f"/jobs/{strict}", token(connection, ANN))
    moved = text(client, f"/jobs/{movable}", token(connection, ANN))
    assert "<dt>Moved</dt><dd>1 time" in moved
    assert f"it makes room for reservation {strict}" in moved
    told = [(one.job, one.logged) for one in next_batch(connection, cursor).events if one.logged]
    assert [(job, logged.type) for job, logged in told] == [(movable, "RESERVATION_MOVED")]
    assert told[0][1].description.startswith("it starts at ")
    cluster.sql("UPDATE reservation_windows SET fixed_at = now()")
    assert "fixed: it no longer moves" in text(client, f"/jobs/{movable}", token(connection, ANN))

    refused = reserve(cluster, begin)
    ((offer, other),) = [tuple(row[0] for row in cluster.sql("SELECT offer_id FROM reservation_offers ORDER BY phi"))]
    mine, theirs = (text(client, f"/jobs/{refused}", token(connection, who)) for who in (ANN, BOB))
    assert (f"oarsub --accept {offer}" in mine, "oarsub --accept" in theirs, "Other starts" in theirs) == (
        *(True, False, True),
    )
    cluster.sql("UPDATE reservation_offers SET accepted_job = %s WHERE offer_id = %s", strict, offer)
    cluster.sql("UPDATE reservation_offers SET valid_until = now() - interval '1 second' WHERE offer_id = %s", other)
    page = text(client, f"/jobs/{refused}", token(connection, ANN))
    assert ("oarsub --accept" in page, f'/jobs/{strict}">{strict}</a>' in page, "its time is over" in page) == (
        *(False, True, True),
    )


def test_the_gantt_has_the_windows_of_those_that_may_move(
    client: TestClient, connection: Connection, cluster: SmallCluster
) -> None:
    begin = (cluster.now() + timedelta(hours=2)).replace(microsecond=0)
    movable = reserve(cluster, begin, 4, nodes=1)
    reserve(cluster, begin, nodes=1)
    fixed = reserve(cluster, begin + timedelta(hours=6), 4)
    cluster.sql("UPDATE reservation_windows SET fixed_at = now() WHERE job_id = %s", fixed)
    start = int(begin.timestamp())

    def windows(first: int, last: int) -> list[list[object]]:
        found = client.get(f"/data/gantt?begin={first}&end={last}", headers=token(connection, BOB)).json()["windows"]
        return [[*one[:3], sum(one[3][1::2])] for one in found]

    assert windows(start - 3600, start + 36000) == [[movable, 3600, 5 * 3600, 2]]
    # its bar is over before
    assert windows(start + 2 * 3600, start + 3 * 3600) == [[movable, -2 * 3600, 2 * 3600, 2]]
    assert windows(start + 4 * 3600, start + 36000) == []
