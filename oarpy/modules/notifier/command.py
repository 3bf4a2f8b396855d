"""Running the command of ``--notify exec:`` as the job's user."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

_PATH = "/usr/local/bin:/usr/bin:/bin"


def run_as_user(words: Sequence[str], user: str, prefix: Sequence[str], timeout: float) -> str:
    """Run a command to its end, at most ``timeout`` seconds; return why it failed, ``""`` when it did not.

    With a ``prefix`` (``%u`` in it is the user) that makes it the user's; else this process, if it may.
    """
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return f"user '{user}' does not exist on the server"
    me = os.geteuid()
    if not prefix and me not in (0, account.pw_uid):
        return f"the notifier runs as uid {me} and cannot run a command of '{user}' (jobs.notify_prefix)"
    become = not prefix and me != account.pw_uid
    home = account.pw_dir if os.path.isdir(account.pw_dir) else "/"
    environment = {"PATH": _PATH, "HOME": account.pw_dir, "USER": user, "LOGNAME": user, "SHELL": account.pw_shell}
    try:
        process = subprocess.Popen(
            [*(word.replace("%u", user) for word in prefix), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=environment,
            start_new_session=True,
            user=account.pw_uid if become else None,
            group=account.pw_gid if become else None,
            extra_groups=os.getgrouplist(user, account.pw_gid) if become else None,
        )
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    return _end_of(process, words[0], timeout)


def _end_of(process: subprocess.Popen[bytes], name: str, timeout: float) -> str:
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        # not reaped yet, so the number is still that of this session
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"{name}: ended after {timeout:g} s (jobs.notify_timeout)"
    if status == 0:
        return ""
    return f"{name}: exit status {status}" if status > 0 else f"{name}: signal {-status}"
