"""What is private stays private on every path: secrets are planted, and looked for in all that others are answered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from oarpy.client.platform.tokens import Scope
from oarpy.store import event_stream
from tests.harness.oarsub_cluster import build, run_pass
from tests.harness.web_client import ANN, BOB, ME, Connection, token, web_client, web_settings

pytestmark = pytest.mark.db

SECRETS = ("s3cret-command", "s3cret-variable", "s3cret-output", "s3cret-text", "s3cret-mail")
JOB = {
    "command": "echo s3cret-command",
    "environment": {"KEY": "s3cret-variable"},
    "directory": "/tmp",
    "alternatives": ["/nodes=1,walltime=1"],
    "notify": "mail:s3cret-mail@example.org",
}


def asked(client: TestClient, jobs: list[int], cursor: str) -> Iterator[tuple[str, str]]:
    """Yield method and path of every operation, about each of the jobs where it is about one."""
    app: Any = client.app
    for path, operations in app.openapi()["paths"].items():
        for method in operations:
            if path.endswith("/events") and "nodes" not in path:
                yield method, f"{path}?once=true&since={cursor}"
                continue
            for job in jobs:
                filled = path.replace("{job_id}", str(job)).replace("{signal}", "10")
                filled = filled.replace("{name}", "private" if "rules" in path else "n2")
                filled = re.sub(r"\{[a-z_]*id\}|\{window\}", "1", filled)
                yield method, filled
                if method == "get":
                    yield method, f"{filled}?environment=true&ended=true&everybody=true&stream=stdout&user={ANN}"


@pytest.mark.parametrize("who", ["another", "reader", "nobody"])
def test_nobody_else_is_answered_what_is_private(dsn: str, connection: Connection, tmp_path: Path, who: str) -> None:
    build(connection)
    with web_client(web_settings(dsn)) as client:
        cursor = str(event_stream.begin(connection))
        ann = token(connection, ANN)
        admin = token(connection, ME, Scope.ADMIN)
        rule = {"text": "# s3cret-text\ndef check(job, site):\n    pass\n", "enabled": False}
        client.put("/api/v1/rules/private", json=rule, headers=admin)
        jobs = [client.post("/api/v1/jobs", json=JOB, headers=ann).json()["job_id"] for _ in range(2)]
        run_pass(connection)
        digests = [row[0] for row in connection.execute("SELECT digest FROM access_tokens").fetchall()]
        kept = (*SECRETS, *digests, ann["Authorization"][-20:], admin["Authorization"][-20:])
        header = {
            "another": token(connection, BOB, Scope.SUBMIT),
            "reader": token(connection, BOB, Scope.READ),
            "nobody": {},
        }[who]
        tried = 0
        for method, path in asked(client, jobs, cursor):
            answer = client.request(
                method, path, headers=header, json={} if method in ("post", "put", "patch") else None
            )
            tried += 1
            text = answer.text + str(answer.headers)
            if "once=true" in path and who != "nobody":
                assert str(jobs[0]) in text, text  # the stream did tell of it
            assert not [secret for secret in kept if secret in text], (method, path, text[:2000])
            assert answer.status_code < 500, (method, path, text[:500])
            if who == "nobody" and answer.status_code < 400:
                assert re.search(r"/(version|health|whoami|timezone|openapi\.json)(\?|$)", path), path
        assert tried > 60
        # the same is there for who it belongs to, so it could have been seen
        own = client.get(f"/api/v1/jobs/{jobs[0]}", params={"environment": True}, headers=ann).text
        assert "s3cret-command" in own
        assert "s3cret-variable" in own
        assert {row[0] for row in connection.execute("SELECT state FROM jobs").fetchall()} <= {"Running", "Waiting"}


def test_the_command_of_another_is_null(dsn: str, connection: Connection) -> None:
    build(connection)
    with web_client(web_settings(dsn)) as client:
        ann = token(connection, ANN)
        job = client.post("/api/v1/jobs", json=JOB, headers=ann).json()["job_id"]
        shown = client.get(f"/api/v1/jobs/{job}", headers=token(connection, BOB)).json()
        assert (shown["command"], shown["initial_request"]) == (None, None)
        assert client.get(f"/oarapi/jobs/{job}.json", headers=token(connection, BOB)).json()["command"] is None


def test_a_record_of_what_was_sent_holds_no_key_and_no_argument(dsn: str, connection: Connection) -> None:
    build(connection)
    with web_client(web_settings(dsn)) as client:
        ann = token(connection, ANN)
        client.post("/api/v1/jobs", json={**JOB, "key_text": "s3cret-text"}, headers=ann)
        client.post("/api/v1/jobs", json={**JOB, "array_parameters": ["s3cret-variable"]}, headers=ann)
        client.post("/api/v1/jobs", json=[JOB], headers=ann)
        for name in ("import-job-key-inline-priv", "import-job-key-inline", "param_file"):
            client.post("/oarapi/jobs", json={"resource": "/nodes=1", name: "s3cret-output"}, headers=ann)
        kept = [row[0] for row in connection.execute("SELECT detail FROM web_actions").fetchall()]
    assert len(kept) == 6
    assert not [detail for detail in kept if any(secret in detail for secret in SECRETS)]
