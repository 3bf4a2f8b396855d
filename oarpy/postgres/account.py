"""The system user an embedded server runs as: the caller, or for root a user of its own (PostgreSQL refuses root)."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from oarpy.model.errors import OarpyError

SERVER_USER = "oarpy-postgres"
"""Created on first use by root: a system user without password, home or shell, which owns embedded data alone."""

_LOCK = Path(f"/run/{SERVER_USER}.lock")
"""Held while the user is created, in a folder of root's alone."""

PASSABLE = 0o711
"""Others may go through a directory of this mode, not list it."""

_TESTS = {"execute": '[ -x "$1" ]', "write": 'cd "$1" && [ -w . ]'}


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """The owner of the server's processes. ``switch`` says whether the caller has to become that user."""

    name: str
    uid: int
    gid: int
    switch: bool

    def run(self, command: list[str], errors: IO[bytes] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program as this account, from ``/``, with a clean environment, in a session of its own.

        Its output is captured as text, and so is its standard error, unless there is a file for ``errors``.
        """
        return subprocess.run(
            command,
            cwd="/",
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if errors is None else errors,
            text=True,
            check=False,
            start_new_session=True,
            umask=0o077,
            user=self.uid if self.switch else None,
            group=self.gid if self.switch else None,
            extra_groups=() if self.switch else None,
        )

    def can(self, what: Literal["execute", "write"], path: Path) -> bool:
        """Tell whether this account can reach and use ``path``: asked to the kernel, so ACLs and mounts count."""
        return self.run(["/bin/sh", "-c", _TESTS[what], "sh", str(path)]).returncode == 0

    def give(self, path: Path) -> None:
        """Make this account the owner of ``path``."""
        if self.switch:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    @staticmethod
    def environment() -> dict[str, str]:
        """Return the environment of a server: without libpq's variables, which would change how it is initialised."""
        kept = {name: os.environ[name] for name in ("PATH", "TZ") if name in os.environ}
        return {"PATH": os.defpath, "LC_ALL": "C", **kept}


def account() -> ServerAccount:
    """Return the account for a server started by the caller; for root, :data:`SERVER_USER`, created if need be."""
    uid = os.geteuid()
    if uid != 0:
        try:
            return ServerAccount(pwd.getpwuid(uid).pw_name, uid, os.getegid(), switch=False)
        except KeyError:
            raise OarpyError(f"user id {uid} has no name", hint="add it to the system's users") from None
    entry = _known() or _create()
    if entry.pw_uid == 0:
        raise OarpyError(f"system user '{SERVER_USER}' has user id 0", hint="PostgreSQL refuses to run as root")
    return ServerAccount(SERVER_USER, entry.pw_uid, entry.pw_gid, switch=True)


def make_passable(path: Path) -> None:
    """Create a directory and its missing parents so that others may pass through, whatever root's umask is."""
    for directory in (*reversed(path.parents), path):
        try:
            directory.mkdir()
        except FileExistsError:
            continue
        directory.chmod(PASSABLE)


def _known() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(SERVER_USER)
    except KeyError:
        return None


def _create() -> pwd.struct_passwd:
    program = shutil.which("useradd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    hint = f"create a system user '{SERVER_USER}', or run as an ordinary user"
    if program is None:
        raise OarpyError(
            f"PostgreSQL does not run as root and there is no useradd to create '{SERVER_USER}'", hint=hint
        )
    shell = "/usr/sbin/nologin" if Path("/usr/sbin/nologin").exists() else "/bin/false"
    command = [program, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    with os.fdopen(os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as lock:
        # useradd looks for the user before it waits for the files: of two calls at once the second would give another
        # id
        fcntl.flock(lock, fcntl.LOCK_EX)
        if created := _known():
            return created
        done = subprocess.run(
            [*command, "--shell", shell, SERVER_USER],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    # also when useradd failed: an admin may have created the user at the same time
    if created := _known():
        return created
    raise OarpyError(f"system user '{SERVER_USER}' cannot be created: {done.stderr}", hint=hint)
