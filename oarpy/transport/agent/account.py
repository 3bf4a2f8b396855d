"""The user a job runs as, and becoming that user while files are opened and the command is started."""

from __future__ import annotations

import os
import pwd
import time
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_FRESH = 60.0


class Refusal(Exception):
    """A job that must not be started here: a stable reason word, and a text for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Account:
    """What the password and group databases say of one user."""

    __slots__ = ("gid", "groups", "home", "name", "read_at", "shell", "uid")

    def __init__(self, name: str) -> None:
        entry = pwd.getpwnam(name)
        self.name = name
        self.uid = entry.pw_uid
        self.gid = entry.pw_gid
        self.home = entry.pw_dir
        self.shell = entry.pw_shell or "/bin/sh"
        self.groups = os.getgrouplist(name, entry.pw_gid)
        self.read_at = time.monotonic()


class Accounts:
    """Look-ups kept for a minute: a directory service may take long to answer."""

    def __init__(self) -> None:
        self._known: dict[str, Account] = {}

    def get(self, name: str) -> Account:
        """The account of ``name``; raise :class:`Refusal` when there is none on this node."""
        known = self._known.get(name)
        if known is not None and time.monotonic() - known.read_at < _FRESH:
            return known
        try:
            self._known[name] = Account(name)
        except (KeyError, OSError, ValueError) as error:
            raise Refusal("NO_SUCH_USER", f"user '{name[:64]}' does not exist on this node") from error
        return self._known[name]


def check_may_run(account: Account, allow_root: bool) -> None:
    """Raise :class:`Refusal` unless this process may start a job of ``account``."""
    me = os.geteuid()
    if account.uid == 0 and not allow_root:
        raise Refusal("NOT_PERMITTED", "jobs of root are not allowed")
    if me not in (0, account.uid):
        raise Refusal("NOT_PERMITTED", f"the agent runs as uid {me} and cannot start a job of user '{account.name}'")


@contextmanager
def acting_as(account: Account) -> Iterator[None]:
    """Be ``account`` (real and effective ids, groups) inside the block; a saved id of 0 brings the privileges back.

    A command started in the block cannot come back: executing it replaces the saved ids by the effective ones.
    """
    if os.geteuid() != 0 or account.uid == 0:
        yield
        return
    groups = os.getgroups()
    try:
        os.setgroups(account.groups)
        os.setresgid(account.gid, account.gid, 0)
        os.setresuid(account.uid, account.uid, 0)
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)
