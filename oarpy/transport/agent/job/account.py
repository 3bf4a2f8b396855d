"""The user a job runs as, and becoming that user while files are opened and the command is started."""

from __future__ import annotations

import _thread
import ctypes
import os
import pwd
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Result = TypeVar("Result")

_FRESH = 60.0
_LIBC = ctypes.CDLL(None, use_errno=True)
_GENERIC = (159, 149, 147)
_WIDE = (206, 210, 208)
# The numbers of the kernel calls (setgroups, setresgid, setresuid) with ids of 32 bits, by the name of the machine.
_CALLS = {
    "x86_64": (116, 119, 117),
    "aarch64": _GENERIC,
    "riscv64": _GENERIC,
    "loongarch64": _GENERIC,
    "ppc64le": (81, 169, 164),
    "s390x": _WIDE,
    "i686": _WIDE,
    "armv7l": _WIDE,
}


class AccountRefusal(Exception):
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

    @property
    def command_shell(self) -> str:
        """What commands are given to: who may not log in may have work done all the same."""
        return "/bin/sh" if os.path.basename(self.shell) in _NO_LOGIN else self.shell


_NO_LOGIN = ("nologin", "false")
"""Shells that let nobody in."""


class Accounts:
    """Look-ups kept for a minute: a directory service may take long to answer."""

    def __init__(self) -> None:
        self._known: dict[str, Account] = {}

    def get(self, name: str) -> Account:
        """Return the account of ``name``; raise :class:`AccountRefusal` when there is none on this node."""
        known = self._known.get(name)
        if known is not None and time.monotonic() - known.read_at < _FRESH:
            return known
        try:
            self._known[name] = Account(name)
        except (KeyError, OSError, ValueError) as error:
            raise AccountRefusal("NO_SUCH_USER", f"user '{name[:64]}' does not exist on this node") from error
        return self._known[name]


def check_may_run(account: Account, allow_root: bool) -> None:
    """Raise :class:`AccountRefusal` unless this process may start a job of ``account``."""
    me = os.geteuid()
    if account.uid == 0 and not allow_root:
        raise AccountRefusal("NOT_PERMITTED", "jobs of root are not allowed")
    if me not in (0, account.uid):
        raise AccountRefusal(
            "NOT_PERMITTED", f"the agent runs as uid {me} and cannot start a job of user '{account.name}'"
        )
    if account.uid != me:
        _check_machine()


def run_as(account: Account, action: Callable[[], Result]) -> Result:
    """Return what ``action`` returns, run with the user and groups of ``account``.

    The ids are those of a thread made for it, set by the kernel's own calls (the C library's would change all threads).
    The process as a whole stays root's. What the action starts may kill all processes of its user and does not reach
    this one, and there are no privileges to take back.
    """
    if os.geteuid() != 0 or account.uid == 0:
        return action()
    outcome: list[tuple[Result | None, BaseException | None]] = []
    finished = _thread.allocate_lock()
    finished.acquire()

    def become_and_act() -> None:
        try:
            _become(account)
            outcome.append((action(), None))
        except BaseException as error:  # raised again below, in the thread that asked
            outcome.append((None, error))
        finally:
            finished.release()

    _thread.start_new_thread(become_and_act, ())
    finished.acquire()
    result, raised = outcome[0]
    if raised is not None:
        raise raised
    return result  # type: ignore[return-value]


def _check_machine() -> None:
    if os.uname().machine not in _CALLS:
        raise AccountRefusal("NOT_PERMITTED", f"running jobs of other users is not supported on {os.uname().machine}")


def _become(account: Account) -> None:
    set_groups, set_group, set_user = _CALLS[os.uname().machine]
    groups = (ctypes.c_uint32 * len(account.groups))(*account.groups)
    _call(set_groups, ctypes.c_long(len(account.groups)), groups)
    _call(set_group, *[ctypes.c_long(account.gid)] * 3)
    _call(set_user, *[ctypes.c_long(account.uid)] * 3)


def _call(number: int, *arguments: object) -> None:
    if _LIBC.syscall(ctypes.c_long(number), *arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
