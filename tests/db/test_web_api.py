"""The endpoints do what the commands of the same purpose do, under the same rules of who may."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from oarpy.client.platform.tokens import Scope
from tests.harness.oarsub_cluster import build, run_pass
from tests.harness.web_client import ANN, BOB, ME, Connection, token, web_client, web_settings

pytestmark = pytest.mark.db

JOB = {"command": "sleep 1000", "alternatives": ["/nodes=1,walltime=1:0:0"], "directory": "/tmp"}


@dataclass(frozen=True)
class Site:
    """A cluster and its web, with a user of each kind."""

    client: TestClient
    connection: Connection
    ann: dict[str, str]
    bob: dict[str, str]
    admin: dict[str, str]

    def submit(self, **fields: Any) -> int:
        """Submit a job as ann; return its id."""
        answer = self.client.post("/api/v1/jobs", json={**JOB, **fields}, headers=self.ann)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["job_id"])


@pytest.fixture
def site(dsn: str, connection: Connection) -> Iterator[Site]:
    build(connection)
    with web_client(web_settings(dsn)) as client:
        tokens = (token(connection, ANN), token(connection, BOB), token(connection, ME, Scope.ADMIN))
        yield Site(client, connection, *tokens)


def test_a_job_is_submitted_seen_held_resumed_and_deleted(site: Site) -> None:
    job = site.submit(name="first", environment={"COLOUR": "green"})
    run_pass(site.connection)
    where = f"/api/v1/jobs/{job}"
    shown = site.client.get(where, headers=site.ann, params={"environment": True}).json()
    assert (shown["owner"], shown["name"], shown["command"]) == (ANN, "first", "sleep 1000")
    assert shown["environment"] == {"COLOUR": "green"}
    waiting = site.submit(alternatives=["/nodes=3,walltime=1:0:0"])
    run_pass(site.connection)
    where = f"/api/v1/jobs/{waiting}"
    assert site.client.get(f"{where}/why", headers=site.ann).json()["job_id"] == waiting
    assert site.client.post(f"{where}/hold", headers=site.ann).json() == {"action": "hold", "jobs": [waiting]}
    assert site.client.get(where, headers=site.ann).json()["state"] == "Hold"
    body = {"alternatives": ["/nodes=1"], "name": "later"}
    assert site.client.patch(where, json=body, headers=site.bob).status_code == 403
    trial = site.client.patch(where, json={**body, "dry_run": True}, headers=site.ann).json()
    assert site.client.get(where, headers=site.ann).json()["name"] is None
    changed = site.client.patch(where, json=body, headers=site.ann).json()
    assert changed == trial
    assert [change["what"] for change in changed["changes"][str(waiting)]] == ["name", "resources", "message"]
    assert site.client.get(where, headers=site.ann).json()["name"] == "later"
    assert site.client.patch(where, json={"command": "date"}, headers=site.ann).status_code == 422
    assert site.client.post(f"{where}/resume", headers=site.ann).status_code == 200
    assert site.client.delete(where, headers=site.bob).status_code == 403
    assert site.client.delete(where, headers=site.ann).json() == {"action": "delete", "jobs": [waiting]}
    refused = site.client.post(f"{where}/signal", json={"signal": "USR1"}, headers=site.ann)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "failed")


def test_programs_are_told_why_a_job_waits(site: Site) -> None:
    holder = site.submit()
    run_pass(site.connection)
    job = site.submit(alternatives=["/nodes=3,walltime=1:0:0"])
    run_pass(site.connection)
    where = f"/api/v1/jobs/{job}"

    def read(path: str) -> dict[str, Any]:
        return dict(site.client.get(path, headers=site.ann).json())

    full, why = read(where), read(f"{where}/why")
    (brief,) = (one for one in read("/api/v1/jobs")["items"] if one["job_id"] == job)
    told = brief["reason_data"]
    assert (told["kind"], told["jobs"], full["reason_data"]) == ("busy", [holder], told)
    assert told["until"] == brief["predicted"]
    assert (why["reason_data"]["kind"], why["stored"]["reason_data"]) == ("busy", told)
    assert brief["reason"] == full["reason"] == why["stored"]["reason"]
    assert brief["reason"].endswith(f"when job {holder} should be over, 60 s of security time included")
    # what was said before reasons were kept for programs
    site.connection.execute("UPDATE gantt_predictions SET reason = 'as it was said', reason_data = NULL")
    assert read(where)["reason_data"] == {"kind": "words", "subject": "as it was said"}
    assert read(where)["reason"] == "as it was said"
    site.client.delete(where, headers=site.ann)
    assert read(where)["reason_data"] == {"kind": "words", "subject": read(where)["reason"]}
    assert read(where)["reason"].startswith("Killing: ")


def test_a_list_is_read_by_pages(site: Site) -> None:
    jobs = [site.submit(name=name) for name in "abcde"]
    seen: list[int] = []
    key: dict[str, Any] = {}
    while key.get("before", 0) is not None:
        page = site.client.get("/api/v1/jobs", params={"limit": 2, **key}, headers=site.bob).json()
        seen += [one["job_id"] for one in page["items"]]
        key = {"before": page["next"]}
        if page["next"] is None:
            break
    assert seen == sorted(jobs, reverse=True)


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ({"name": "b"}, 1),
        ({"user": ANN}, 3),
        ({"user": [BOB, ME]}, 0),
        ({"state": "Waiting", "queue": "default"}, 3),
        ({"state": "Terminated"}, 0),
        ({"since": "-1h", "until": "now"}, 3),
        ({"until": "-1h"}, 0),
        ({"ended": True}, 3),
        ({"project": "none"}, 0),
    ],
)
def test_a_list_is_filtered(site: Site, question: dict[str, Any], number: int) -> None:
    for name in "abc":
        site.submit(name=name)
    page = site.client.get("/api/v1/jobs", params=question, headers=site.bob).json()
    assert len(page["items"]) == number, page


def test_jobs_are_found_by_node_part_of_the_name_and_date(site: Site) -> None:
    job, other = site.submit(name="Alpha_1"), site.submit(name="Alpha-1")
    run_pass(site.connection)
    shown = site.client.get(f"/api/v1/jobs/{job}", headers=site.ann).json()
    (node,) = shown["assigned_network_address"]
    found = site.client.get("/api/v1/jobs", params={"node": node}, headers=site.bob).json()["items"]
    assert [(one["job_id"], one["walltime"]) for one in found] == [(job, 3600)]

    def on_page(**question: str) -> list[int]:
        text = site.client.get("/jobs", params=question, headers={**site.bob, "Accept": "text/html"}).text
        return [int(one) for one in re.findall(r'data-row="(\d+)"', text)]

    assert on_page(node=node) == [job]
    assert on_page(name="PHA_1") == [job], "a line under a name stands for itself"
    assert on_page(name="pha", since="-1d", state="hold") == on_page(name="pha", until="-3d") == []
    assert on_page(name="pha", since="-1d") == [other, job]


def test_an_array_has_a_line_of_parameters_for_each_job(site: Site) -> None:
    first = site.submit(array_parameters=["one", "two words"])
    shown = site.client.get(f"/api/v1/jobs/{first + 1}", headers=site.ann).json()
    assert (shown["array_id"], shown["command"]) == (first, "sleep 1000 two words")


def test_what_is_wrong_with_a_request_is_said_in_one_line(site: Site) -> None:
    for body, status, code in (
        ({**JOB, "alternatives": ["/nodes=x"]}, 400, "usage"),
        ({**JOB, "alternatives": ["/nodes=4000"]}, 422, "refused"),
        ({**JOB, "colour": "green"}, 422, "usage"),
        ({**JOB, "queue": "none"}, 404, "not_found"),
    ):
        answer = site.client.post("/api/v1/jobs", json=body, headers=site.ann)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
        assert "\n" not in answer.json()["error"]["message"]
    assert site.client.get("/api/v1/jobs/999999", headers=site.ann).status_code == 404


def test_a_dry_run_submits_nothing(site: Site) -> None:
    answer = site.client.post("/api/v1/jobs", json={**JOB, "dry_run": True}, headers=site.ann).json()
    assert (answer["admitted"], answer["verdict"]) == (True, "starts")
    assert site.connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)


def test_a_token_for_reading_changes_nothing(site: Site) -> None:
    reading = token(site.connection, ANN, Scope.READ)
    job = site.submit()
    for method, path, body in (
        ("POST", "/api/v1/jobs", JOB),
        ("DELETE", f"/api/v1/jobs/{job}", None),
        ("POST", f"/api/v1/jobs/{job}/hold", None),
        ("PATCH", f"/api/v1/jobs/{job}", {"name": "x"}),
    ):
        answer = site.client.request(method, path, json=body, headers=reading)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")


def test_a_job_without_a_directory_is_told_what_to_give(site: Site) -> None:
    for given in ({}, {"directory": "here"}):
        answer = site.client.post("/api/v1/jobs", json={"command": "date", **given}, headers=site.ann)
        assert answer.status_code == 400
        assert "no directory for the job" in answer.text
        assert "its absolute path" in answer.text


def test_the_owner_reads_the_end_of_the_output(site: Site, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root becomes the owner of a job")
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.stat().st_mode & 0o001 == 0:
            folder.chmod(folder.stat().st_mode | 0o011)
    job = site.submit(directory=str(tmp_path), stdout="out.%jobid%")
    (tmp_path / f"out.{job}").write_text("x" * 100 + "the end\n", "utf-8")
    where = f"/api/v1/jobs/{job}/output"
    answer = site.client.get(where, params={"size": 8}, headers=site.ann).json()
    assert (answer["content"], answer["size"]) == ("the end\n", 108)
    (tmp_path / f"out.{job}").chmod(0o600)
    assert site.client.get(where, headers=site.ann).status_code == 403
    for other in (site.bob, site.admin):
        assert site.client.get(where, headers=other).status_code == 403


def test_nodes_queues_quotas_and_periods_are_shown(site: Site) -> None:
    page = site.client.get("/api/v1/resources", params={"limit": 2}, headers=site.bob).json()
    assert [one["resource_id"] for one in page["items"]] == [1, 2]
    assert page["next"] == 2
    rest = site.client.get("/api/v1/resources", params={"after": 2}, headers=site.bob).json()
    name = rest["items"][0]["network_address"]
    assert site.client.get(f"/api/v1/nodes/{name}", headers=site.bob).json()["name"] == name
    assert site.client.get("/api/v1/nodes/nowhere", headers=site.bob).status_code == 404
    assert "default" in site.client.get("/api/v1/queues", headers=site.bob).json()
    for path in ("quotas", "gantt", "accounting", "maintenance", "nodes", f"nodes/{name}/events", "tokens"):
        assert site.client.get(f"/api/v1/{path}", headers=site.bob).status_code == 200, path


def test_admins_act_and_it_is_on_record(site: Site) -> None:
    name = site.client.get("/api/v1/resources", headers=site.bob).json()["items"][0]["network_address"]
    drain = {"hosts": [name], "drain": True, "reason": "a fan"}
    assert site.client.post("/api/v1/nodes/settings", json=drain, headers=site.bob).status_code == 403
    assert site.client.post("/api/v1/nodes/settings", json=drain, headers=site.admin).status_code == 200
    rule = {"text": "def check(job, site):\n    pass\n", "enabled": False}
    assert site.client.put("/api/v1/rules/mine", json=rule, headers=site.admin).status_code == 201
    assert site.client.patch("/api/v1/rules/mine", json={"enabled": True}, headers=site.admin).json()["enabled"]
    versions = site.client.get("/api/v1/rules/mine/versions", headers=site.admin).json()
    assert [one["changed_by"] for one in versions] == [ME, ME]
    assert site.client.patch("/api/v1/queues/default", json={"active": False}, headers=site.admin).status_code == 200
    record = site.client.get("/api/v1/audit", headers=site.admin).json()["items"]
    assert [(one["user_name"], one["method"], one["path"], one["status"]) for one in reversed(record)] == [
        (BOB, "POST", "/api/v1/nodes/settings", 403),
        (ME, "POST", "/api/v1/nodes/settings", 200),
        (ME, "PUT", "/api/v1/rules/mine", 201),
        (ME, "PATCH", "/api/v1/rules/mine", 200),
        (ME, "PATCH", "/api/v1/queues/default", 200),
    ]
    assert record[-1]["address"] == "203.0.113.7"
    assert '"drain": true' in record[-1]["detail"]


def test_commands_and_environments_are_not_kept_with_actions(site: Site) -> None:
    site.submit(command="echo SECRET", environment={"KEY": "SECRET"})
    ((detail,),) = site.connection.execute("SELECT detail FROM web_actions").fetchall()
    assert "SECRET" not in detail
    assert "/nodes=1" in detail


def test_reads_cannot_write(site: Site) -> None:
    """The database refuses what an endpoint that only reads would change."""
    from oarpy.web.identity import Identity

    seats = site.client.app.state.seats  # type: ignore[attr-defined]
    me = Identity(ME, os.getuid(), Scope.ADMIN, "peer", "")
    with pytest.raises(Exception, match="read-only"), seats.session(me) as session:
        session.connection.execute("DELETE FROM quotas")
    with seats.session(me, changes=True) as session:
        session.connection.execute("DELETE FROM quotas")


def test_what_takes_too_long_is_cancelled(dsn: str, connection: Connection) -> None:
    build(connection)
    header = token(connection, ANN)
    with web_client(web_settings(dsn, time_limit=0.2)) as client, connection.transaction():
        # somebody holds what a request needs
        connection.execute("LOCK TABLE queues IN ACCESS EXCLUSIVE MODE")
        answer = client.get("/api/v1/queues", headers=header)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unreachable")
