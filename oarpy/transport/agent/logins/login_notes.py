"""The jobs whose users may log in on this node: a note of each, for root alone, and its variables, for its user."""

from __future__ import annotations

import contextlib
import json
import os

from oarpy.transport.agent.job import record
from oarpy.transport.agent.job.environment import write_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from oarpy.transport.agent.job.account import Account
    from oarpy.transport.agent.statedir import StateDir
    from oarpy.wire.jobs import JobSpec


class LoginNote:
    """The facts of a job that a log-in needs: its user, the limits of its group, whether its program runs here."""

    __slots__ = ("gpus", "head", "key", "memory", "processors", "user")

    def __init__(self, key: str, content: dict[str, Any]) -> None:
        self.key = key
        self.user: str = content["user"]
        self.head: bool = content["head"]
        self.processors: list[int] = content["processors"]
        self.memory: int = content["memory"]
        self.gpus: list[int] | None = content["gpus"]

    @property
    def job(self) -> int:
        """The number of the job."""
        return record.job_of(self.key).job


def leave_note(state: StateDir, spec: JobSpec, account: Account, variables: dict[str, str], *, head: bool) -> None:
    """Write the note by which the user of a job may log in here from now on. Raises ``OSError``."""
    key = str(spec.key)
    content = {
        "user": account.name,
        "head": head,
        "processors": spec.processors,
        "memory": spec.memory,
        "gpus": spec.gpus,
    }
    write_for(account, variables_file(state, key), "".join(f"{name}={text}\0" for name, text in variables.items()))
    path = os.path.join(state.logins, key)
    with open(os.open(f"{path}~", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        json.dump(content, file)
    os.rename(f"{path}~", path)


def remove_notes(state: StateDir, keys: Collection[str]) -> None:
    """Admit no log-in for these jobs any more."""
    for key in keys:
        for path in (os.path.join(state.logins, key), variables_file(state, key), state.suspension_note(key)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def remove_all_notes(state: StateDir) -> None:
    """Admit no log-in for jobs of an earlier life of this node."""
    remove_notes(state, os.listdir(state.logins))


def notes_of(state: StateDir, user: str) -> list[LoginNote]:
    """Return the notes of a user's jobs that run here, that of the newest first."""
    dated: list[tuple[int, LoginNote]] = []
    for key in os.listdir(state.logins):
        path = os.path.join(state.logins, key)
        with contextlib.suppress(OSError, ValueError, KeyError):
            if record.parse_key(key):
                with open(path, encoding="utf-8") as file:
                    note = LoginNote(key, json.load(file))
                if note.user == user and runs(state, note):
                    dated.append((os.stat(path).st_mtime_ns, note))
    return [note for _, note in sorted(dated, key=lambda entry: entry[0], reverse=True)]


def runs(state: StateDir, note: LoginNote) -> bool:
    """Tell whether a job runs here: where its program is, its record says so; on other nodes its note is there."""
    if not note.head:
        return os.path.exists(os.path.join(state.logins, note.key))
    job_record, held = record.lock_record(state.jobs, note.key, create=False)
    if job_record is None:
        return False
    try:
        return not held and job_record.history().ended is None
    finally:
        job_record.close()


def variables_file(state: StateDir, key: str) -> str:
    """Return where the variables of a job are, as its user may read them."""
    return f"{state.files}/{key}.login"
