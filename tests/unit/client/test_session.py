"""Who the caller is, and what they may."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest

from oarpy.client.session import Session, open_session, user_name
from oarpy.configuration import Configuration
from oarpy.model.errors import NotAllowed, Unreachable
from oarpy.store.database import Connection


def session(*, is_admin: bool) -> Session:
    return Session(cast("Connection", None), Configuration(), "ann", 1000, is_admin)


def test_owner_or_admin() -> None:
    session(is_admin=False).require_owner("ann", "job 7")
    session(is_admin=True).require_owner("bob", "job 7")
    with pytest.raises(NotAllowed, match="job 7 belongs to 'bob'"):
        session(is_admin=False).require_owner("bob", "job 7")


def test_admin() -> None:
    session(is_admin=True).require_admin("delete a queue")
    with pytest.raises(NotAllowed, match="delete a queue"):
        session(is_admin=False).require_admin("delete a queue")


def test_user_of_the_process() -> None:
    assert user_name(0) == "root"
    with pytest.raises(NotAllowed, match="4123456789"):
        user_name(4123456789)


def test_no_embedded_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OARPY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OARPY_DATABASE_DIRECTORY", str(tmp_path / "none"))
    monkeypatch.setenv("OARPY_DATABASE_URL", "")
    with pytest.raises(Unreachable), open_session("test"):
        pass
