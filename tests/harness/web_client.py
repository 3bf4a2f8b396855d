"""The application of the web in the process of the test, with users who come through its Unix socket or with tokens."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias

import psycopg
from fastapi.testclient import TestClient

from oarpy import configuration
from oarpy.client.platform import tokens
from oarpy.client.platform.tokens import Scope
from oarpy.client.session import Session
from oarpy.configuration import Configuration
from oarpy.web.app import application

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

ME = pwd.getpwuid(os.getuid()).pw_name
ANN, BOB = ("daemon", "bin")
"""Two accounts of every system that are nobody's admin."""


def web_settings(dsn: str, **web: Any) -> Configuration:
    """Return the settings of a web process on this database."""
    return Configuration(
        database=configuration.Database(url=dsn),
        submission=replace(configuration.SubmissionSettings(), refused_users=(), admins=("root", ME)),
        web=replace(configuration.WebSettings(), **{"requests_per_minute": 0, "connections": 4, **web}),
    )


@contextmanager
def web_client(settings: Configuration, uid: int | None = None) -> Iterator[TestClient]:
    """Serve the application to a client that comes as user ``uid`` (None: from an address) without a token."""
    host = "203.0.113.7" if uid is None else f"uid:{uid}"
    name = "http://testserver" if uid is None else "http://oarpy"
    # an error that nobody expected is an answer of 500 here too
    with TestClient(application(settings), name, client=(host, 1), raise_server_exceptions=False) as client:
        yield client


def token(connection: Connection, user: str, scope: Scope = Scope.SUBMIT, **lifetime: int) -> dict[str, str]:
    """Make a token for a user; return the header that carries it."""
    length = timedelta(**(lifetime or {"hours": 1}))
    session = Session(connection, Configuration(), user, pwd.getpwnam(user).pw_uid, is_admin=True)
    return {"Authorization": f"Bearer {tokens.make(session, scope, length).secret}"}
