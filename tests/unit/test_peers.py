"""Root asks the database as the account whose role it is, where PostgreSQL lets in that account alone."""

from __future__ import annotations

import os
import pwd
import threading
from typing import Any

import psycopg
import pytest

from oarpy.model.errors import Unreachable
from oarpy.store.database import connect, peer_account

NOBODY = pwd.getpwnam("nobody").pw_uid
DSN = "postgresql://nobody@/oarpy"


class Server:
    """Lets in the account of the same name alone, as ``peer`` in pg_hba.conf says."""

    def __init__(self, role: str) -> None:
        self.role, self.asked = role, list[int]()

    def connect(self, dsn: str, **how: Any) -> None:
        self.asked.append(os.geteuid())
        if self.asked[-1] != NOBODY:
            raise psycopg.OperationalError(f'FATAL:  Peer authentication failed for user "{self.role}"')
        raise psycopg.OperationalError("the server knows the account")


def asked(monkeypatch: pytest.MonkeyPatch, role: str = "nobody") -> list[int]:
    server = Server(role)
    monkeypatch.setattr(psycopg, "connect", server.connect)
    return server.asked


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account")
def test_root_asks_as_the_account_of_the_role(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = asked(monkeypatch)
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # those of pytest do not count
    with pytest.raises(Unreachable, match="the server knows the account"):
        connect(DSN, "test")
    assert (accounts, os.geteuid()) == ([0, NOBODY], 0)
    assert peer_account(DSN) == NOBODY


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account")
def test_beside_other_threads_root_stays_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be the other account too."""
    accounts, over = asked(monkeypatch), threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    with pytest.raises(Unreachable, match="does not let you in"):
        connect(DSN, "test")
    over.set()
    thread.join()
    assert accounts == [0]


@pytest.mark.parametrize("role", ["root", "no_such_account"])
def test_another_account_would_not_help(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    accounts = asked(monkeypatch, role)
    with pytest.raises(Unreachable, match="does not let you in: FATAL"):
        connect(DSN, "test")
    assert accounts == [os.geteuid()]
