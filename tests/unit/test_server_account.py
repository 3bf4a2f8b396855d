"""The system user of an embedded server, which root's first use creates."""

from __future__ import annotations

import os
import pwd
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, local

import pytest

from oarpy.postgres import account

USERADD = """\
#!/bin/sh
echo >>{folder}/runs
"""


def test_two_first_uses_at_once_create_one_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """useradd run twice at once succeeds twice, and the user has another id afterwards."""
    (tmp_path / "useradd").write_text(USERADD.format(folder=tmp_path))
    (tmp_path / "useradd").chmod(0o755)
    runs = tmp_path / "runs"
    nobody_yet, thread = Barrier(2), local()

    def user(name: str) -> pwd.struct_passwd:
        if not hasattr(thread, "asked"):
            # both look before either creates
            thread.asked = True
            nobody_yet.wait(30)
            raise KeyError(name)
        if not runs.exists():
            raise KeyError(name)
        uid = 1000 - len(runs.read_text())
        return pwd.struct_passwd((name, "x", uid, uid, "", "/nonexistent", "/bin/false"))

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(account, "_LOCK", tmp_path / "lock")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", user)
    with ThreadPoolExecutor(2) as two:
        found = [one.result() for one in [two.submit(account.account) for _ in range(2)]]
    assert [one.uid for one in found] == [999, 999]
    assert len(runs.read_text()) == 1
