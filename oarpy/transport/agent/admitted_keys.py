"""The SSH keys of jobs on this node, for its sshd: a file of authorized keys for each user.

A key opens nothing but ``oarsh`` for its job on this node. So its holder acts as the job's user, inside the job.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from oarpy.transport.agent.statedir import StateDir
    from oarpy.wire.jobs import JobKey

_PUBLIC_KEY = re.compile(r"[a-z0-9@.-]+ [A-Za-z0-9+/=]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*", re.ASCII)
"""A name that is fit for a file, and a word for any shell."""


def admit(state: StateDir, job: JobKey, user: str, public_key: str, node: str) -> None:
    """Let the holder of the key into a job as its user.

    Raises ``ValueError`` for a key that does not fit into such a file.
    """
    if not (_PUBLIC_KEY.fullmatch(public_key) and _NAME.fullmatch(user) and _NAME.fullmatch(node)):
        raise ValueError(f"the key of job {job} cannot be let in")
    command = f'{state.commands}/oarsh -t -j {job.job} {node} \\"$SSH_ORIGINAL_COMMAND\\"'
    line = f'restrict,pty,command="{command}" {public_key} {_comment(str(job))}\n'
    lock = state.lock()
    try:
        os.makedirs(_folder(state), mode=0o755, exist_ok=True)
        path = os.path.join(_folder(state), user)
        _write(path, [kept for kept in _lines(path) if kept != line] + [line])
    finally:
        os.close(lock)


def withdraw(state: StateDir, jobs: Collection[str]) -> None:
    """Admit no log-in by the keys of these jobs (``JOB.ATTEMPT``) any more."""
    if not os.path.isdir(_folder(state)):
        return
    ends = tuple(f" {_comment(job)}\n" for job in jobs)
    lock = state.lock()
    try:
        for user in os.listdir(_folder(state)):
            path = os.path.join(_folder(state), user)
            before = _lines(path)
            after = [line for line in before if not line.endswith(ends)]
            if after != before:
                _write(path, after)
    finally:
        os.close(lock)


def job_of_key(state: StateDir, user: str, authentication: str) -> str:
    """Return the job (``JOB.ATTEMPT``) of the key that sshd used (``SSH_AUTH_INFO_0``); empty for any other key."""
    used = [" ".join(words[1:3]) for words in map(str.split, authentication.splitlines()) if words[:1] == ["publickey"]]
    for line in _lines(os.path.join(_folder(state), user)) if _NAME.fullmatch(user) else ():
        known, _, comment = line.rstrip("\n").rpartition(" ")
        if any(known.endswith(f" {key}") for key in used):
            return comment[len(_comment("")) :]
    return ""


def _comment(job: str) -> str:
    return f"oar-job-{job}"


def _folder(state: StateDir) -> str:
    return os.path.join(state.root, "keys")


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.readlines()
    except FileNotFoundError:
        return []


def _write(path: str, lines: list[str]) -> None:
    """Put a file in the place of another; without lines, none."""
    if not lines:
        os.unlink(path)
        return
    hidden = f"{path}.~new"
    with open(os.open(hidden, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o644), "w") as file:
        file.writelines(lines)
    os.rename(hidden, path)
