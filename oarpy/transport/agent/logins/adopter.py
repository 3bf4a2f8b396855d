"""``oaradopt``: run by PAM of sshd, it lets users log in into jobs of theirs on this node.

Else it is their shell there. PAM runs it as root, twice for each log-in: ``account`` refuses a user without a job here,
``open_session`` puts the process of sshd that serves the log-in into the control group of the job. The processes of the
log-in are then in the group: they are limited and measured with the job, and end with it. As ``ForceCommand`` of sshd
it is run by the user. Then it gives the user's command the variables of the job, and asks
:mod:`~oarpy.transport.agent.logins.choice` for the job that the client names.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import socket
import sys

from oarpy.transport.agent.admitted_keys import job_of_key
from oarpy.transport.agent.job.isolation import isolation_of
from oarpy.transport.agent.logins import choice
from oarpy.transport.agent.logins.entering import enter_job, is_stopped
from oarpy.transport.agent.logins.login_notes import notes_of, variables_file
from oarpy.transport.agent.statedir import StateDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OF_THE_LOG_IN = re.compile(r"SSH_.*|XDG_.*|DBUS_.*|DISPLAY|XAUTHORITY|TERM|LANG|LC_.*|PWD|OLDPWD", re.ASCII)
"""Variables of a session that its job does not set."""
_GROUP = re.compile(r"/oarpy/[0-9a-f]{8}/(\d+\.\d+)$", re.ASCII | re.MULTILINE)


def main(settings: dict[str, Any]) -> None:
    """Do the step for which PAM or sshd runs this program; the exit status is 0 for a user who may come in."""
    phase = os.environ.get("PAM_TYPE", "")
    if not phase:
        _be_the_shell(settings)
    elif phase in ("account", "open_session"):
        refusal = _let_in(settings, os.environ.get("PAM_USER", ""), adopt=phase == "open_session")
        if refusal:
            sys.stdout.write(f"{socket.gethostname()}: {refusal}\n")
            sys.exit(1)


def _let_in(settings: dict[str, Any], user: str, *, adopt: bool) -> str:
    """Return why a user may not log in, empty if allowed; ``adopt``: put the log-in into the user's newest job here."""
    try:
        if pwd.getpwnam(user).pw_uid == 0:
            return ""
    except KeyError:
        return f"there is no user {user[:64]}"
    state, isolation = StateDir(settings["state"]), isolation_of(settings)
    notes = notes_of(state, user)
    if key := job_of_key(state, user, os.environ.get("SSH_AUTH_INFO_0", "")):
        notes = [note for note in notes if note.key == key]
    if not notes:
        return "you have no job on this node (oarsub asks for one, oarstat -u lists yours)"
    awake = [note for note in notes if not is_stopped(state, isolation, note.key)]
    if not awake:
        return f"your job {notes[0].job} on this node is suspended"
    if not isolation.groups:
        return "this node has no control groups to put you into your job"
    if adopt:
        monitor = os.getppid()
        if refusal := enter_job(settings, awake[0], [monitor]):
            return refusal
        if len(notes) > 1:
            with contextlib.suppress(OSError):  # an old kernel, or a long path: the session is in the newest job
                choice.offer(settings, user, monitor)
    return ""


def _be_the_shell(settings: dict[str, Any]) -> None:
    """Become the program that the user of a session asked for, with the variables of the session's job."""
    state = StateDir(settings["state"])
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        match = _GROUP.search(file.read())
    key = match[1] if match else ""
    job = os.environ.get("OAR_JOB_ID", "")
    if job and job != key.partition(".")[0]:
        key, refusal = choice.ask(state, job)
        if refusal:
            sys.exit(refusal)
    if key:
        os.environ.update(_variables(state, key))
    shell = pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    name, command = os.path.basename(shell), os.environ.pop("SSH_ORIGINAL_COMMAND", None)
    os.execv(shell, [f"-{name}"] if command is None else [name, "-c", command])


def _variables(state: StateDir, key: str) -> dict[str, str]:
    """Return the variables that a job sets for its programs; empty where it has just ended."""
    try:
        with open(variables_file(state, key), encoding="utf-8", errors="surrogateescape") as file:
            pairs = [entry.partition("=") for entry in file.read().split("\0") if entry]
    except OSError:
        return {}
    return {name: text for name, _, text in pairs if not _OF_THE_LOG_IN.fullmatch(name)}
