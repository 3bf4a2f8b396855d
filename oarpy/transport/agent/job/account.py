"""The user a job runs as: looking at files as that user, the user's limits by PAM, and becoming the user for good."""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import time
from functools import cache

_FRESH = 60.0
_LIBC = ctypes.CDLL(None, use_errno=True)
_NO_ID = 0xFFFFFFFF
_GENERIC = 159
_WIDE = 206
# The number of the kernel call setgroups with ids of 32 bits, by the name of the machine.
_SET_GROUPS = {
    "x86_64": 116,
    "aarch64": _GENERIC,
    "riscv64": _GENERIC,
    "loongarch64": _GENERIC,
    "ppc64le": 81,
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
    """The entries of one user in the password and group databases."""

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
        """The shell that runs commands: an account without a log-in shell may have commands run all the same."""
        return "/bin/sh" if os.path.basename(self.shell) in _NO_LOGIN else self.shell


PAM = "PAM"
"""Why an account is refused that the PAM service of the node does not let in, or when there is no such service."""
_NO_LOGIN = ("nologin", "false")
"""Shells that do not allow a log-in."""


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
    if account.uid != me and os.uname().machine not in _SET_GROUPS:
        raise AccountRefusal("NOT_PERMITTED", f"running jobs of other users is not supported on {os.uname().machine}")


def take_file_rights(account: Account) -> None:
    """Let this thread, alone, look at files as ``account``, until its end. Raises ``OSError``.

    Only the ids for file access change, by which no process may signal or limit a thread. The other ids stay root's:
    otherwise a process with the ids of one thread could stop, limit or kill the whole process.
    """
    groups = (ctypes.c_uint32 * len(account.groups))(*account.groups)
    number = _SET_GROUPS[os.uname().machine]  # the C library's own function would change all threads
    if _LIBC.syscall(ctypes.c_long(number), ctypes.c_long(len(groups)), groups) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    for change, wanted in ((_LIBC.setfsgid, account.gid), (_LIBC.setfsuid, account.uid)):
        change(ctypes.c_uint32(wanted))
        if change(ctypes.c_uint32(_NO_ID)) & _NO_ID != wanted:  # they report no error, only the value before
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


class PamService:
    """A PAM service of this node, whose limits (``pam_limits``) apply to jobs. Raises :class:`AccountRefusal`."""

    def __init__(self, name: str) -> None:
        self._name = name
        # PAM itself would take the service "other", which limits nothing.
        if not any(os.path.exists(os.path.join(folder, name)) for folder in _PAM_FOLDERS):
            raise self._refusal(f"there is no {_PAM_FOLDERS[0]}/{name} on this node")
        try:
            self._library = _pam_library()
        except OSError as error:
            raise self._refusal(str(error)) from error

    def limit(self, account: Account) -> None:
        """Give this process, a child that will become ``account``, the limits of a session of that user.

        The account must be allowed to log in. The session is not closed: the process becomes a program.
        """
        os.setresgid(0, 0, 0)  # the thread it was forked by looks at files as the user
        os.setresuid(0, 0, 0)
        library, handle = self._library, ctypes.c_void_p()
        library.pam_strerror.restype = ctypes.c_char_p
        conversation = _Conversation(_Converse(lambda *_: _PAM_CONVERSATION_ERROR), None)  # there is no answer
        name, user = os.fsencode(self._name), os.fsencode(account.name)
        status = library.pam_start(name, user, ctypes.byref(conversation), ctypes.byref(handle))
        for step in (library.pam_acct_mgmt, library.pam_open_session):
            status = status or step(handle, _PAM_SILENT)
        if status:
            reason = library.pam_strerror(handle, status) or b"refused"
            raise self._refusal(f"user '{account.name}': {reason.decode(errors='replace')}")
        library.pam_end(handle, _PAM_KEEP_DATA)

    def _refusal(self, detail: str) -> AccountRefusal:
        return AccountRefusal(PAM, f"PAM service {self._name}: {detail}"[:500])


_PAM_FOLDERS = ("/etc/pam.d", "/usr/lib/pam.d")
_PAM_SILENT = 0x8000
_PAM_KEEP_DATA = 0x40000000
"""The flag PAM_DATA_SILENT: notes of modules are freed, as in any child, and not acted on."""
_PAM_CONVERSATION_ERROR = 19
_Converse = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class _Conversation(ctypes.Structure):
    _fields_ = (("converse", _Converse), ("data", ctypes.c_void_p))


@cache
def _pam_library() -> ctypes.CDLL:
    return ctypes.CDLL("libpam.so.0")


def become(account: Account) -> None:
    """Make this process, a child forked for it by a thread with the file rights, that of ``account`` for good."""
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
