"""Bags of tasks on the pages, in REST, and in ``oarstat -J``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.harness.small_cluster import Connection, SmallCluster, with_settings
from tests.harness.web_client import ANN, BOB, token, web_client, web_settings

pytestmark = pytest.mark.db


@pytest.fixture
def client(dsn: str) -> Iterator[TestClient]:
    with web_client(web_settings(dsn)) as found:
        yield found


@pytest.fixture
def tasks(connection: Connection) -> list[int]:
    """Ten tasks of a bag on four cores; four were deleted, and the others are promised earlier."""
    cluster = SmallCluster(connection, with_settings(scheduler={"security_time": 60, "promised_share": 100}))
    cluster.add_nodes("n1", "n2")
    jobs = cluster.submit_array(10, "/core=1,walltime=0:9:0", bag=10, types=("bag",), user=ANN)
    cluster.settle()
    cluster.delete(*jobs[:4])
    cluster.settle()
    return jobs


def text(client: TestClient, path: str, who: dict[str, str]) -> str:
    answer = client.get(path, headers={"Accept": "text/html", **who})
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_bag_has_a_page_with_its_tasks_its_promise_and_what_became_of_it(
    client: TestClient, connection: Connection, tasks: list[int]
) -> None:
    who = token(connection, BOB)
    page = text(client, f"/bags/{tasks[0]}", who)
    for words in ("Failed</span><span>4<", "Running</span><span>4<", "Waiting</span><span>2<", "<dt>Expected</dt>"):
        assert words in page
    assert [page.count(f">{kind}<") for kind in ("PROMISED", "IMPROVED", "BROKEN")] == [1, 1, 0]
    assert "resources are free earlier than was expected" in page
    assert f'<a href="/bags/{tasks[0]}">{tasks[0]}</a>, task 5 of 10' in text(client, f"/jobs/{tasks[4]}", who)
    assert f'href="/bags/{tasks[0]}">5 of bag {tasks[0]}</a>' in text(client, "/jobs", who)
    for missing in (tasks[0] + 1, 10**30):
        answer = client.get(f"/bags/{missing}", headers={"Accept": "text/html", **who})
        assert answer.status_code == 404


def test_programs_read_the_bag_and_each_task_names_its_bag(
    client: TestClient, connection: Connection, tasks: list[int]
) -> None:
    who = token(connection, BOB)
    bag = client.get(f"/api/v1/bags/{tasks[0]}", headers=who).json()
    assert bag["states"] == {"Failed": 4, "Running": 4, "Waiting": 2}
    assert [change["kind"] for change in bag["changes"]] == ["PROMISED", "IMPROVED"]
    task = client.get(f"/api/v1/jobs/{tasks[5]}", headers=who).json()
    assert task["bag"] == {
        "bag_id": tasks[0], "tasks": 10, "deadline": None, "promise": bag["promise"], "expected": bag["expected"],
        "ended": None,
    }  # fmt: skip
    assert client.get(f"/api/v1/bags/{tasks[0] + 1}", headers=who).status_code == 404
