"""Browsers that log in, actions from other sites, and requests that are too many or too large."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from oarpy.web.identity import COOKIE, Submitting, csrf_token
from tests.harness.oarsub_cluster import build
from tests.harness.web_client import ANN, Connection, token, web_client, web_settings

pytestmark = pytest.mark.db

HOST = "203.0.113.7"
"""Where the client of the tests is."""


def add_action(client: TestClient) -> None:
    """Give the application an action that says who did it."""
    app: Any = client.app
    assert isinstance(app, FastAPI)

    @app.post("/act")
    def act(identity: Submitting) -> str:
        return identity.user


def test_a_browser_logs_in_acts_and_logs_out(dsn: str, connection: Connection) -> None:
    secret = token(connection, ANN)["Authorization"].removeprefix("Bearer ")
    with web_client(web_settings(dsn)) as client:
        add_action(client)
        answer = client.post("/login", data={"token": secret}, follow_redirects=False)
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert secret.lower() not in cookie
        session = client.cookies[COOKIE]
        assert client.get("/api/v1/whoami").json()["source"] == "session"
        assert client.post("/act").status_code == 403
        assert client.post("/act", data={"csrf_token": "0" * 64}).status_code == 403
        assert client.post("/act", data={"csrf_token": csrf_token(session)}).json() == ANN
        assert client.post("/act", headers={"X-CSRF-Token": csrf_token(session)}).json() == ANN
        # what is in a cookie proves nothing in a header
        assert client.get("/api/v1/whoami", headers={"Authorization": f"Bearer {session}"}).status_code == 401
        assert "max-age=43200" in cookie
        assert client.post("/logout", headers={"X-CSRF-Token": csrf_token(session)}).url.path == "/login"
        client.cookies.set(COOKIE, session)
        assert client.get("/api/v1/whoami").status_code == 401


def test_a_session_ends_with_its_token(dsn: str, connection: Connection) -> None:
    secret = token(connection, ANN)["Authorization"].removeprefix("Bearer ")
    with web_client(web_settings(dsn)) as client:
        client.post("/login", data={"token": secret})
        connection.execute("UPDATE access_tokens SET revoked_at = now() WHERE parent_id IS NULL")
        assert client.get("/api/v1/whoami").status_code == 401


def test_a_log_in_that_fails_or_comes_from_elsewhere_is_refused(dsn: str, connection: Connection) -> None:
    secret = token(connection, ANN)["Authorization"].removeprefix("Bearer ")
    with web_client(web_settings(dsn)) as client:
        assert client.post("/login", data={"token": "oarpy_x"}).status_code == 401
        other = client.post("/login", data={"token": secret}, headers={"Sec-Fetch-Site": "cross-site"})
        assert other.status_code == 403
    assert connection.execute("SELECT user_name, source, detail, status FROM web_actions").fetchall() == [
        ("", "none", "", 401)
    ]


def test_requests_that_are_too_many_or_too_large_are_refused(dsn: str, connection: Connection) -> None:
    build(connection)
    header = token(connection, ANN)
    with web_client(web_settings(dsn, requests_per_minute=18, largest_body=1000)) as client:
        large = client.post("/api/v1/jobs", json={"command": "x" * 2000}, headers=header)
        assert large.status_code == 413
        answers = [client.get("/api/v1/whoami", headers=header).status_code for _ in range(5)]
        assert answers[0] == 200
        assert 429 in answers
        assert client.get("/api/v1/version").status_code == 200  # who has no token counts apart


def test_guesses_of_tokens_count_together(dsn: str, connection: Connection) -> None:
    header = token(connection, ANN)
    with web_client(web_settings(dsn, requests_per_minute=30)) as client:
        assert client.get("/api/v1/whoami", headers=header).status_code == 200
        guesses = ({"Authorization": f"Bearer oarpy_{n}", "X-Forwarded-For": str(n)} for n in range(20))
        assert [client.get("/api/v1/whoami", headers=guess).status_code for guess in guesses][-1] == 429
        assert client.get("/api/v1/whoami", headers=header).status_code == 200, "who has proved to be somebody goes on"


def test_a_token_counts_once_however_its_header_is_written(dsn: str, connection: Connection) -> None:
    secret = token(connection, ANN)["Authorization"].removeprefix("Bearer ")
    with web_client(web_settings(dsn, requests_per_minute=30)) as client:
        forms = [f"{word}{' ' * space}{secret}" for word in ("Bearer", "bearer", "BEARER") for space in range(1, 6)]
        answers = [client.get("/api/v1/whoami", headers={"Authorization": form}).status_code for form in forms]
        assert answers[0] == 200
        assert answers[-1] == 429


def test_who_connects_says_nothing_of_an_address_unless_it_is_a_known_proxy(dsn: str, connection: Connection) -> None:
    assert web_settings(dsn).web.proxy_addresses == (), "any program of this machine comes from 127.0.0.1"
    header = token(connection, ANN)
    for settings, addresses in (({}, {HOST}), ({"proxy_addresses": (HOST,)}, {"192.0.2.7"})):
        with web_client(web_settings(dsn, **settings)) as client:
            for said in ("192.0.2.7", "192.0.2.1, 192.0.2.7"):
                client.post("/api/v1/jobs", json={}, headers={**header, "X-Forwarded-For": said})
        found = {row[0] for row in connection.execute("DELETE FROM web_actions RETURNING address")}
        assert found == addresses


def test_a_body_without_a_length_is_bounded(dsn: str, connection: Connection) -> None:
    with web_client(web_settings(dsn, largest_body=1000)) as client:
        pieces = client.post("/api/v1/jobs", content=iter([b"x" * 600] * 3), headers=token(connection, ANN))
        assert pieces.status_code == 413


def test_a_user_has_at_most_half_of_the_connections(dsn: str) -> None:
    from oarpy.client.platform.tokens import Scope
    from oarpy.web import seats as seats_module
    from oarpy.web.identity import Identity

    with web_client(web_settings(dsn, connections=2)) as client, pytest.MonkeyPatch.context() as patch:
        patch.setattr(seats_module, "PATIENCE", 0.05)
        app: Any = client.app
        ann = Identity(ANN, 1, Scope.READ, "token", "")
        with app.state.seats.session(ann):
            with pytest.raises(seats_module.Busy, match="1 requests at work"), app.state.seats.session(ann):
                raise AssertionError("a second session")
            with app.state.seats.session(Identity("bin", 2, Scope.READ, "token", "")) as other:
                assert other.user == "bin"
