"""The application of the web in the process of the test, with users who come through its Unix socket or with tokens.

Whatever REST answers is compared with what it says that it answers.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any, TypeAlias

import httpx2
import psycopg
from fastapi.testclient import TestClient

from oarpy import configuration
from oarpy.client.platform import tokens
from oarpy.client.platform.tokens import Scope
from oarpy.client.session import Session
from oarpy.configuration import Configuration
from oarpy.web.app import application
from tests.harness.described_answers import DescribedAnswers

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


@cache
def described() -> DescribedAnswers:
    """Return what every application says that it answers."""
    return DescribedAnswers(application(Configuration()).openapi())


class CheckingClient(TestClient):
    """A client for which an answer that is not described is an error; ``answered`` has what was done."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.answered: set[tuple[str, str]] = set()

    def request(self, method: str, url: Any, **options: Any) -> httpx2.Response:
        """Send a request; raise :class:`AssertionError` for an answer that is not described."""
        answer = super().request(method, url, **options)
        operation = described().check(method.lower(), httpx2.URL(url).path, answer)
        if operation is not None and answer.status_code < 400:
            self.answered.add(operation)
        return answer


@contextmanager
def web_client(settings: Configuration, uid: int | None = None) -> Iterator[CheckingClient]:
    """Serve the application to a client that comes as user ``uid`` (None: from an address) without a token."""
    host = "203.0.113.7" if uid is None else f"uid:{uid}"
    name = "http://testserver" if uid is None else "http://oarpy"
    # an error that nobody expected is an answer of 500 here too
    with CheckingClient(application(settings), name, client=(host, 1), raise_server_exceptions=False) as client:
        yield client


def token(connection: Connection, user: str, scope: Scope = Scope.SUBMIT, **lifetime: int) -> dict[str, str]:
    """Make a token for a user; return the header that carries it."""
    length = timedelta(**(lifetime or {"hours": 1}))
    session = Session(connection, Configuration(), user, pwd.getpwnam(user).pw_uid, is_admin=True)
    return {"Authorization": f"Bearer {tokens.make(session, scope, length).secret}"}
