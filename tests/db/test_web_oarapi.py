"""Programs written for the REST interface of OAR 2.5 find its paths and shapes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.harness.oarsub_cluster import build, run_pass
from tests.harness.web_client import ANN, Connection, token, web_client, web_settings

pytestmark = pytest.mark.db

JOB = {"resource": "/nodes=1,walltime=1:0:0", "command": "sleep 300", "workdir": "/tmp", "type": ["besteffort"]}


@pytest.fixture
def client(dsn: str, connection: Connection) -> Iterator[TestClient]:
    """A program that sends the token of ann."""
    build(connection)
    with web_client(web_settings(dsn)) as opened:
        opened.headers.update(token(connection, ANN))
        yield opened


def test_a_job_goes_its_way(client: TestClient, connection: Connection) -> None:
    made = client.post("/oarapi/jobs.json", json=JOB)
    assert made.status_code == 201, made.text
    job = made.json()["id"]
    assert f"OAR_JOB_ID={job}\n" in made.json()["cmd_output"]
    assert made.json()["links"] == [{"rel": "self", "href": f"/oarapi/jobs/{job}"}]
    run_pass(connection)
    shown = client.get(f"/oarapi/jobs/{job}.json").json()
    assert (shown["id"], shown["owner"], shown["types"], shown["type"]) == (job, ANN, ["besteffort"], "PASSIVE")
    assert (shown["command"], shown["launching_directory"], shown["walltime"]) == ("sleep 300", "/tmp", 3600)
    held = client.get(f"/oarapi/jobs/{job}/resources.json").json()
    assert (held["total"], held["offset"], {one["status"] for one in held["items"]}) == (4, 0, {"assigned"})
    (node,) = client.get(f"/oarapi/jobs/{job}/nodes").json()["items"]
    on_node = client.get(f"/oarapi/resources/nodes/{node['network_address']}.json").json()
    assert {one["id"] for one in held["items"]} <= {one["id"] for one in on_node["items"]}
    (holder,) = client.get(f"/oarapi/resources/{held['items'][0]['id']}/jobs").json()["items"]
    assert holder["id"] == job
    deleted = client.delete(f"/oarapi/jobs/{job}.json").json()
    assert (deleted["id"], deleted["status"]) == (job, "Delete request registered")


def test_a_waiting_job_is_held_and_resumed(client: TestClient) -> None:
    job = client.post("/oarapi/jobs", json=JOB).json()["id"]
    for path, state in (("holds/new", "Hold"), ("resumptions/new", "Waiting")):
        assert client.post(f"/oarapi/jobs/{job}/{path}.json").status_code == 200
        assert client.get(f"/oarapi/jobs/{job}").json()["state"] == state


def test_lists_come_in_pages_with_links(client: TestClient) -> None:
    jobs = [client.post("/oarapi/jobs", json=JOB).json()["id"] for _ in range(5)]
    page = client.get("/oarapi/jobs.json", params={"limit": 2, "offset": 2}).json()
    assert (page["total"], page["offset"], [one["id"] for one in page["items"]]) == (5, 2, [jobs[2], jobs[1]])
    links = {one["rel"]: one["href"] for one in page["links"]}
    assert set(links) == {"self", "next", "previous"}
    assert [one["id"] for one in client.get(links["next"]).json()["items"]] == [jobs[0]]
    assert {"rel": "self", "href": f"/oarapi/jobs/{jobs[2]}"} in page["items"][0]["links"]
    named = client.get("/oarapi/jobs", params={"ids": f"{jobs[0]}:{jobs[1]}"}).json()
    assert named["total"] == 2
    full = client.get("/oarapi/jobs/details.json", params={"state": "Waiting,Hold"}).json()["items"]
    assert [one["id"] for one in full] == jobs[::-1]
    assert full[0]["wanted_resources"] == "-l \"{type = 'default'}/nodes=1,walltime=1:0:0\""


def test_an_array_has_a_file_of_parameters(client: TestClient) -> None:
    made = client.post("/oarapi/jobs", json={**JOB, "param_file": "60\n90\n"}).json()
    assert client.get("/oarapi/jobs", params={"array": made["id"]}).json()["total"] == 2


def test_resources_are_listed(client: TestClient) -> None:
    brief = client.get("/oarapi/resources.json", params={"limit": 3}).json()
    assert (len(brief["items"]), brief["total"]) == (3, 23)
    full = client.get("/oarapi/resources/full.json").json()["items"]
    assert {"mem", "core", "state", "network_address", "links"} <= set(full[0])
    assert client.get("/oarapi/resources/5.json").json()["id"] == 5


def test_errors_have_the_form_of_oar(client: TestClient) -> None:
    missing = client.get("/oarapi/jobs/99999.json")
    assert missing.status_code == 404
    assert set(missing.json()) == {"code", "title", "message"}
    unknown = client.post("/oarapi/jobs", json={**JOB, "use-job-colour": "1"})
    assert (unknown.status_code, unknown.json()["code"]) == (400, 400)


def test_everybody_may_ask_for_the_version(dsn: str) -> None:
    with web_client(web_settings(dsn)) as nobody:
        assert nobody.get("/oarapi/version.json").json()["oar"] == "2.5.9"
        assert nobody.get("/oarapi/whoami.json").json()["authenticated_user"] is None
        assert "timezone" in nobody.get("/oarapi/timezone.json").json()
