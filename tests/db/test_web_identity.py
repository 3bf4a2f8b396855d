"""Who a request over the web comes from, and the most that it may do."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2 as httpx
import pytest

from oarpy.client.platform.tokens import Scope
from tests.harness.oarsub_cluster import build
from tests.harness.waiting import until
from tests.harness.web_client import ANN, ME, Connection, token, web_client, web_settings

pytestmark = pytest.mark.db


def test_a_token_says_whose_the_request_is(dsn: str, connection: Connection) -> None:
    with web_client(web_settings(dsn)) as client:
        answer = client.get("/api/v1/whoami", headers=token(connection, ANN, Scope.READ))
    assert answer.json() == {"user": ANN, "admin": False, "scope": "read", "source": "token"}


def test_nobody_is_told_to_bring_a_token(dsn: str) -> None:
    with web_client(web_settings(dsn)) as client:
        answer = client.get("/api/v1/whoami")
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthenticated"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_rights_of_an_admin_need_a_token_for_them(dsn: str, connection: Connection) -> None:
    with web_client(web_settings(dsn)) as client:
        admins = [client.get("/api/v1/whoami", headers=token(connection, ME, scope)).json()["admin"] for scope in Scope]
    assert admins == [False, False, True]


def test_an_expired_or_revoked_or_unknown_token_proves_nothing(dsn: str, connection: Connection) -> None:
    good = token(connection, ANN)
    with web_client(web_settings(dsn)) as client:
        assert client.get("/api/v1/whoami", headers=good).status_code == 200
        connection.execute("UPDATE access_tokens SET expires_at = now() - interval '1 second'")
        assert client.get("/api/v1/whoami", headers=good).status_code == 401
        connection.execute("UPDATE access_tokens SET expires_at = now() + interval '1 hour', revoked_at = now()")
        assert client.get("/api/v1/whoami", headers=good).status_code == 401
        unknown = {"Authorization": "Bearer oarpy_" + "x" * 43}
        assert client.get("/api/v1/whoami", headers=unknown).status_code == 401


def test_the_database_keeps_no_secret(dsn: str, connection: Connection) -> None:
    secret = token(connection, ANN)["Authorization"].removeprefix("Bearer ")
    ((kept,),) = connection.execute("SELECT access_tokens::text FROM access_tokens").fetchall()
    assert secret not in kept


def test_the_kernel_says_who_came_through_the_socket(dsn: str) -> None:
    with web_client(web_settings(dsn), os.getuid()) as client:
        answer = client.get("/api/v1/whoami").json()
        assert (answer["user"], answer["source"], answer["admin"]) == (ME, "peer", True)
        # whoever passes requests on speaks for somebody else
        assert client.get("/api/v1/whoami", headers={"X-Forwarded-For": "192.0.2.1"}).status_code == 401
    with web_client(web_settings(dsn, proxy_users=(ME,)), os.getuid()) as client:
        assert client.get("/api/v1/whoami").status_code == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("[::1]:8000", 200),
        (socket.gethostname().upper(), 200),
        ("cluster.example", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("[", 403),
    ],
)
def test_a_name_that_a_site_lets_mean_this_machine_reads_nothing(dsn: str, host: str, status: int) -> None:
    with web_client(web_settings(dsn, host_names=("Cluster.example",)), os.getuid()) as client:
        assert client.get("/api/v1/whoami", headers={"Host": host}).status_code == status


@pytest.mark.e2e
def test_the_process_serves_on_its_socket(cluster_environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    words = [sys.executable, "-c", "from oarpy.commands.oarpy import main; main()", "web", "--listen", str(path)]
    with subprocess.Popen(words, env=cluster_environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: _listens(path) or process.poll() is not None, "the socket")
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://oarpy") as client:
                assert client.get("/api/v1/whoami").json()["user"] == ME
                assert client.get("/api/v1/health").json() == {"database": "ok"}
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert f"oarpy web listens on {path}\n" in errors


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def test_another_sites_page_does_nothing_through_the_socket(dsn: str, connection: Connection) -> None:
    build(connection)
    with web_client(web_settings(dsn), uid=pwd.getpwnam(ANN).pw_uid) as client:
        wish = {"command": "date", "directory": "/tmp", "alternatives": ["/nodes=1"]}
        assert client.post("/api/v1/jobs", json=wish).status_code == 201
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://other.example"}):
            assert client.post("/oarapi/jobs/1/deletions/new", headers=headers).status_code == 403
        assert client.get("/api/v1/jobs/1").json()["state"] == "Waiting"
        assert client.post("/oarapi/jobs/1/deletions/new").status_code == 200
