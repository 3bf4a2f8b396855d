"""Puts processes that other programs started, sshd above all, into the groups of a job."""

from __future__ import annotations

import os

from oarpy.transport.agent.job import record, suspending
from oarpy.transport.agent.job.isolation import isolation_of
from oarpy.transport.agent.logins.login_notes import runs
from oarpy.transport.agent.statedir import StateDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from oarpy.transport.agent.job.isolation import Isolation
    from oarpy.transport.agent.logins.login_notes import LoginNote


def enter_job(settings: dict[str, Any], note: LoginNote, pids: list[int]) -> str:
    """Put processes into the groups of a job; return why that cannot be, empty if it is done."""
    state, isolation = StateDir(settings["state"]), isolation_of(settings)
    try:
        state.note_step(note.key)  # first: the end of the job then looks for processes that came this way
        isolation.enter(note.key, note.processors, note.memory, note.gpus)
        for pid in pids:
            isolation.bring(note.key, pid)
    except OSError as error:
        return f"you cannot be put into your job {note.job}: {error.strerror or error}"
    finally:
        isolation.leave()
    if not runs(state, note):
        return f"your job {note.job} has ended"
    if is_stopped(state, isolation, note.key):  # since it was looked at first
        return f"your job {note.job} on this node is suspended"
    return ""


def is_stopped(state: StateDir, isolation: Isolation, key: str) -> bool:
    """Tell whether a job is suspended here, also without a group that could be frozen."""
    if os.path.exists(state.suspension_note(key)) or any(map(suspending.is_frozen, isolation.freezers(key))):
        return True
    job_record = record.open_record(state.jobs, key, create=False)
    if job_record is None:
        return False
    try:
        return job_record.history().suspended
    finally:
        job_record.close()
