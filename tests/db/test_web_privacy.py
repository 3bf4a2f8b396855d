"""What is private stays private on every path: secrets are planted, and looked for in all that others are answered."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from oarpy.client.platform.tokens import Scope
from oarpy.store import event_stream
from oarpy.web.pages.actions import ACTIONS
from oarpy.web.pages.routes import AREAS
from tests.harness.oarsub_cluster import build, run_pass
from tests.harness.passable_folder import passable_folder
from tests.harness.web_client import ANN, BOB, ME, Connection, token, web_client, web_settings

pytestmark = pytest.mark.db

SECRETS = ("s3cret-command", "s3cret-variable", "s3cret-output", "s3cret-text", "s3cret-mail")
JOB = {
    "command": "echo s3cret-command",
    "environment": {"KEY": "s3cret-variable"},
    "directory": "/tmp",
    "alternatives": ["/nodes=1,walltime=1"],
    "notify": "mail:s3cret-mail@example.org",
    "stdout": "out.%jobid%",
}
OPEN = r"/(version|health|whoami|timezone|openapi\.json|docs|login|logout)(\?|$)"
"""What is answered to nobody in particular."""


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


def pages_asked(jobs: list[int]) -> Iterator[tuple[str, str]]:
    """Yield method and path of every page and every form, about each of the jobs where it is about one."""
    for route in [route for area in AREAS for route in area.router.routes if isinstance(route, APIRoute)]:
        for name in ("n2",) if "nodes" in route.path else ("private",) if "rules" in route.path else ACTIONS:
            for job in jobs:
                path = route.path.replace("{name}", name).replace("{job_id:int}", str(job))
                for method in route.methods or ():
                    yield method, f"{path}?job={job}"
            if "{" not in route.path:
                yield from (
                    (method, f"{path}?begin=1600000000&end=1630000000&node=n2") for method in route.methods or ()
                )
                break  # it is about no name


@pytest.mark.parametrize("who", ["another", "reader", "nobody"])
def test_nobody_else_is_answered_what_is_private(dsn: str, connection: Connection, who: str) -> None:
    build(connection)
    with web_client(web_settings(dsn)) as client, passable_folder("oarpy-private-") as folder:
        cursor = str(event_stream.begin(connection))
        ann = token(connection, ANN)
        admin = token(connection, ME, Scope.ADMIN)
        rule = {"text": "# s3cret-text\ndef check(job, site):\n    pass\n", "enabled": False}
        client.put("/api/v1/rules/private", json=rule, headers=admin)
        wish = {**JOB, "directory": str(folder)}
        jobs = [client.post("/api/v1/jobs", json=wish, headers=ann).json()["job_id"] for _ in range(2)]
        for job in jobs:
            (folder / f"out.{job}").write_text("s3cret-output")
        run_pass(connection)
        digests = [row[0] for row in connection.execute("SELECT digest FROM access_tokens").fetchall()]
        kept = (*SECRETS, *digests, ann["Authorization"][-20:], admin["Authorization"][-20:])
        header = {
            "another": token(connection, BOB, Scope.SUBMIT),
            "reader": token(connection, BOB, Scope.READ),
            "nobody": {},
        }[who]
        html = {**header, "Accept": "text/html"}
        form = {"job": str(jobs[0]), "node": "n2", "name": "private", "queue": "default", "confirmed": "yes"}
        words: list[tuple[str, str, dict[str, Any]]] = [
            (method, path, {"headers": header, "json": {} if method in ("post", "put", "patch") else None})
            for method, path in asked(client, jobs, cursor)
        ]
        words += [
            (method, path, {"headers": html, "data": form if method == "POST" else None})
            for method, path in pages_asked(jobs)
        ]
        for method, path, sent in words:
            answer = client.request(method, path, follow_redirects=False, **sent)
            text = answer.text + str(answer.headers)
            if "once=true" in path and who != "nobody":
                assert str(jobs[0]) in text, text  # the stream did tell of it
            assert not [secret for secret in kept if secret in text], (method, path, text[:2000])
            assert answer.status_code < 500, (method, path, text[:500])
            if who == "nobody" and answer.status_code < 300:
                assert re.search(OPEN, path), path
        assert len(words) > 150
        # the same is there for who it belongs to, so it could have been seen
        own = client.get(f"/api/v1/jobs/{jobs[0]}", params={"environment": True}, headers=ann).text
        assert "s3cret-command" in own
        assert "s3cret-variable" in own
        if os.geteuid() == 0:
            shown = client.get(f"/jobs/{jobs[0]}/output", headers={**ann, "Accept": "text/html"}).text
            assert "s3cret-output" in shown
        assert {row[0] for row in connection.execute("SELECT state FROM jobs").fetchall()} <= {"Running", "Waiting"}
        assert connection.execute("SELECT count(*) FROM kill_requests").fetchone() == (0,)


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
