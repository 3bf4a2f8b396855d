"""The end of what a job wrote, read as its user: this process, or a child of root that becomes them."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from typing import Any

from oarpy.client.jobs import description
from oarpy.model.errors import NotAllowed, NotFound, OarpyError
from oarpy.store.jobs.details import JobDetails
from oarpy.web.identity import Identity

_PATIENCE = 5.0
"""Seconds for the file system of the user to answer."""

# Becomes the user, and opens nothing but plain files, without waiting for the other end of a pipe.
_READER = """
import os, stat, sys
if len(sys.argv) > 3:
    uid, gid, *groups = map(int, sys.argv[3:])
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
file = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
status = os.fstat(file)
if not stat.S_ISREG(status.st_mode):
    sys.exit("is no plain file")
size = int(sys.argv[2])
print(status.st_size, flush=True)
sys.stdout.buffer.write(os.pread(file, size, max(0, status.st_size - size)))
"""


def tail(identity: Identity, job: JobDetails, stream: str, size: int) -> dict[str, Any]:
    """Return at most ``size`` bytes from the end of what the job wrote.

    Raises :class:`NotAllowed` for another's job and where this process cannot become its user, :class:`NotFound` for
    a file that is not there.
    """
    if job.row.user != identity.user:
        raise NotAllowed(f"the output of job {job.row.job_id} is for its owner alone")
    path = os.path.join(job.row.directory, description.output_file(job.row, stream))
    own = os.geteuid()
    if own not in (0, identity.uid):
        raise NotAllowed("the output cannot be read from here: oarpy web runs as another user", hint=f"it is in {path}")
    become = [] if own == identity.uid else _account(identity)
    words = [sys.executable, "-I", "-c", _READER, path, str(size), *become]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_PATIENCE, cwd="/", env={}, check=False)
    except subprocess.TimeoutExpired:
        raise OarpyError(f"'{path}' cannot be read: its file system does not answer") from None
    if done.returncode:
        raise NotFound(f"'{path}' cannot be read", hint="it is not there yet, or only on the node")
    length, _, content = done.stdout.partition(b"\n")
    return {"path": path, "size": int(length), "content": content.decode("utf-8", "replace")}


def _account(identity: Identity) -> list[str]:
    account = pwd.getpwuid(identity.uid)
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    return [str(number) for number in (account.pw_uid, account.pw_gid, *groups)]
