"""Who logs in on a node comes into his job, also where the rest of what is done for him fails."""

from __future__ import annotations

import errno
import pwd
from pathlib import Path
from typing import Any

import pytest

from oarpy.transport.agent.job.isolation import AUTO
from oarpy.transport.agent.logins import adopter, choice
from oarpy.transport.agent.logins.login_notes import LoginNote


def test_who_cannot_be_offered_a_choice_is_in_the_newest_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"user": "games", "head": False, "processors": [], "memory": 0, "gpus": None}
    entered: list[str] = []

    def offer(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    def enter(_settings: dict[str, Any], note: LoginNote, _pids: list[int]) -> str:
        entered.append(note.key)
        return ""

    monkeypatch.setattr(adopter, "notes_of", lambda *_: [LoginNote(key, content) for key in ("2.1", "1.1")])
    monkeypatch.setattr(adopter, "is_stopped", lambda *_: False)
    monkeypatch.setattr(adopter, "enter_job", enter)
    monkeypatch.setattr(choice, "offer", offer)
    root = tmp_path / "groups"
    root.mkdir()
    for name in ("cgroup.controllers", "cgroup.procs"):
        (root / name).write_text("")
    settings = {
        "state": str(tmp_path),
        "isolation": AUTO,
        "cgroup_root": str(root),
        "pids_limit": 0,
        "limit_swap": False,
        "machine_root": "/",
        "device_rules": (),
    }
    user = next(entry.pw_name for entry in pwd.getpwall() if entry.pw_uid)
    assert adopter._let_in(settings, user, adopt=True) == ""
    assert entered == ["2.1"]
