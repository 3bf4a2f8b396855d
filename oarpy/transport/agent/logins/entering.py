"""Putting processes that were started by somebody else, sshd above all, into the groups of a job."""

from __future__ import annotations

from oarpy.transport.agent.job import suspending
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
        state.note_step(note.key)  # first: the end of the job then looks for what came this way
        isolation.enter(note.key, note.processors, note.memory, note.gpus)
        for pid in pids:
            isolation.bring(note.key, pid)
    except OSError as error:
        return f"you cannot be put into your job {note.job}: {error.strerror or error}"
    finally:
        isolation.leave()
    if not runs(state, note):
        return f"your job {note.job} has ended"
    return ""


def is_stopped(isolation: Isolation, key: str) -> bool:
    """Tell whether a job is suspended here: what enters its group stands still, too."""
    return any(map(suspending.is_frozen, isolation.freezers(key)))
