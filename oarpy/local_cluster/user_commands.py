"""A command that root starts as another user of the machine: it needs nothing that this user could not read."""

from __future__ import annotations

import os
import sys

PROGRAM = """
import os, sys
uid, name = int(sys.argv[1]), sys.argv[2]
import shlex
from oarpy.frontend import attachment, conversation, discovery, editor, entry, job_key, local_files
from oarpy.frontend import relay, submission_environment, terminal
if uid != os.getuid():
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
sys.argv = [name, *sys.argv[3:]]
entry.start(name)
"""
"""The program of a command at its entry point.

Modules that the user may not import are imported before it becomes theirs.
"""


def user_command(uid: int | None, *words: str) -> list[str]:
    """Return the command line that runs a command as a user; None: as the present user."""
    return [sys.executable, "-c", PROGRAM, str(os.getuid() if uid is None else uid), *words]
