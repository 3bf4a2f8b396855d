"""The job of a log-in, among several: the user's own process names it, a process of root moves the session.

sshd reads the client's variables (``OAR_JOB_ID``) after PAM has let the user in. So a session begins in the newest job.
If the user has other jobs, a process that lives as long as the session waits for the choice, at a socket that only this
user opens. It moves only processes of that session, and only into jobs of that user.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import socket
import struct

from oarpy.transport.agent.job import processes
from oarpy.transport.agent.job.isolation import isolation_of
from oarpy.transport.agent.job.spawning import close_all_but
from oarpy.transport.agent.logins.entering import enter_job, is_stopped
from oarpy.transport.agent.logins.login_notes import notes_of
from oarpy.transport.agent.statedir import StateDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PATIENCE = 10.0
_LONGEST = 200


def offer(settings: dict[str, Any], user: str, monitor: int) -> None:
    """Leave a process that moves the session of ``monitor``, sshd's process, into the job that its user names.

    Raises ``OSError``.
    """
    state, uid = StateDir(settings["state"]), pwd.getpwnam(user).pw_uid
    session = os.pidfd_open(monitor)
    path = _socket(state, monitor)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # it is left from an earlier process of this number
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o600)
    os.chown(path, uid, -1)
    listener.listen(4)
    if os.fork():
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)  # a process that waits for children of sshd sees none
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        close_all_but({listener.fileno(), session})
        os.chdir("/")
        _serve(settings, user, uid, monitor, listener, session)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os._exit(0)


def _serve(settings: dict[str, Any], user: str, uid: int, monitor: int, listener: socket.socket, session: int) -> None:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(session, select.POLLIN)
    while not any(descriptor == session for descriptor, _ in poll.poll()):
        with contextlib.suppress(OSError), listener.accept()[0] as asking:
            asking.settimeout(_PATIENCE)
            pid, peer, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if peer == uid:
                job = asking.recv(_LONGEST).decode("ascii", "replace")
                asking.sendall("\n".join(_move(settings, user, monitor, pid, job)).encode())


def _move(settings: dict[str, Any], user: str, monitor: int, pid: int, job: str) -> tuple[str, str]:
    """Move a session into a job; return the key of the job, or an empty text and why not."""
    state = StateDir(settings["state"])
    wanted = [note for note in notes_of(state, user) if str(note.job) == job]
    if not wanted:
        return "", _not_here(job)
    if is_stopped(state, isolation_of(settings), wanted[0].key):
        return "", f"your job {job} on this node is suspended"
    session = _up_to(monitor, pid)
    if not session:
        return "", "this is no process of your log-in"
    refusal = enter_job(settings, wanted[0], session)
    return ("", refusal) if refusal else (wanted[0].key, "")


def ask(state: StateDir, job: str) -> tuple[str, str]:
    """Ask for this process's session to be moved into a job; return the job's key, or an empty text and the reason."""
    for pid in processes.ancestors():
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(_PATIENCE)
            try:
                asking.connect(_socket(state, pid))
            except OSError:
                continue
            asking.sendall(job[:_LONGEST].encode("ascii", "replace"))
            key, _, refusal = asking.recv(1 << 12).decode(errors="replace").partition("\n")
            return key, refusal
    return "", _not_here(job)


def _up_to(monitor: int, pid: int) -> list[int]:
    """Return the processes from the monitor down to one of its session; none where that is not below it."""
    line = [pid]
    while line[-1] > 1 and line[-1] != monitor:
        line.append(processes.parent(line[-1]))
    return line[::-1] if line[-1] == monitor else []


def _not_here(job: str) -> str:
    return f"job {job[:20]} (OAR_JOB_ID) is none of yours that runs on this node"


def _socket(state: StateDir, monitor: int) -> str:
    return os.path.join(state.files, f"choice.{monitor}")
