"""Directories of which each job has its own, such as ``/tmp``: other jobs and users of the node do not see it.

What is a job's own is on the same file system, in a folder that root alone enters: ``/tmp/.oarpy-NODE/JOB``. Each
program of the job is started in a mount namespace where that folder is in the place of ``/tmp``. So the job and its
steps share it, and a namespace goes with the last process in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import zlib

from oarpy.transport.agent.job.record import parse_key
from oarpy.transport.agent.job.spawning import LaunchFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from oarpy.transport.agent.job.account import Account
    from oarpy.transport.agent.statedir import StateDir

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19
_CAP_SYS_ADMIN = 21
_RUNTIME, _MEMORY = "runtime", "/dev/shm"
_GONE = "gone."
"""Begins the name of a folder that is being removed."""
_EVERYBODY = 0o1777
_REMOVE = ["rm", "-rf", "--one-file-system", "--"]
_MOST_REMOVED = 1000
"""How many folders go at once: more names may be too long for a command."""


def may_be_had(account: Account) -> bool:
    """Tell whether this process can give jobs of ``account`` directories of their own; root's jobs get none."""
    return account.uid != 0 and not lack([])


def lack(paths: Iterable[str]) -> str:
    """Return why jobs of this node cannot have these directories for themselves, empty if they can."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        held = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    if os.geteuid() != 0 or not held >> _CAP_SYS_ADMIN & 1:
        return "the log-in of the server is not root there, or may not mount"
    for path in paths:
        try:
            _check(path)
        except OSError as error:
            return f"{path}: {error.strerror}"
    return ""


def make(state: StateDir, key: str, paths: Sequence[str], account: Account) -> None:
    """Make the missing ones of a job's own directories here. Raises :class:`LaunchFailure`."""
    if paths and may_be_had(account):
        with _failing_start():
            _make(state, key, paths, account)


def _make(state: StateDir, key: str, paths: Sequence[str], account: Account) -> None:
    note, hidden = _note(state, key), f"{_note(state, key)}.{os.getpid()}"
    if not os.path.exists(note):
        with open(hidden, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write("\n".join(paths))
        os.rename(hidden, note)  # first: what is begun below is removed with the job
    own_paths = noted(state, key)
    for path in own_paths:
        _check(path)
        own = os.path.join(_make_shelf(state, path), key)
        with contextlib.suppress(FileExistsError):
            os.mkdir(own)
        os.chmod(own, _EVERYBODY)
    runtime = os.path.join(_shelf(state, _home_of_runtime(own_paths)), key, _RUNTIME)
    with contextlib.suppress(FileExistsError):
        os.mkdir(runtime, 0o700)
        os.chown(runtime, account.uid, account.gid)


def noted(state: StateDir, key: str) -> list[str]:
    """Return the directories of which a job has its own here."""
    try:
        with open(_note(state, key), encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def variables(state: StateDir, key: str) -> dict[str, str]:
    """Return the variable with the job's directory for sockets and the like, if it has directories of its own."""
    paths = noted(state, key)
    return {"XDG_RUNTIME_DIR": os.path.join(_home_of_runtime(paths), _RUNTIME)} if paths else {}


def enter(state: StateDir, key: str) -> None:
    """Put this thread, and the processes that it forks, where the job's own directories are.

    Raises :class:`LaunchFailure`.
    """
    if paths := noted(state, key):
        with _failing_start():
            _enter(state, key, paths)


def _enter(state: StateDir, key: str, paths: Sequence[str]) -> None:
    _do(_LIBC.unshare(_CLONE_NEWNS))
    # later mounts of the node come here, too, and no mount made here is seen there
    _do(_LIBC.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None))
    for path in paths:
        own = os.path.join(_shelf(state, path), key)
        _do(_LIBC.mount(os.fsencode(own), os.fsencode(path), None, ctypes.c_ulong(_MS_BIND), None))


@contextlib.contextmanager
def _failing_start() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LaunchFailure.of_private_directories(error) from error


def begin_removal(state: StateDir, keys: Iterable[str]) -> int:
    """Take the directories of jobs away; return the process that removes their content, 0 where there is none.

    What cannot be taken away is left for a later :func:`sweep`.
    """
    gone = []
    for key in keys:
        for path in noted(state, key):
            with contextlib.suppress(OSError):
                shelf = _shelf(state, path)
                renamed = os.path.join(shelf, f"{_GONE}{key}.{os.urandom(4).hex()}")
                os.rename(os.path.join(shelf, key), renamed)
                gone.append(renamed)
        with contextlib.suppress(OSError):
            os.unlink(_note(state, key))
    return _remove(gone)


def sweep(state: StateDir, paths: Iterable[str]) -> int:
    """Begin to remove the remains of jobs that are unknown here, as :func:`begin_removal`."""
    left = []
    for path in paths:
        with contextlib.suppress(OSError):
            shelf = _shelf(state, path)
            for name in os.listdir(shelf):
                known = parse_key(name) and os.path.exists(_note(state, name))
                if not known:
                    left.append(os.path.join(shelf, name))
    return _remove(left)


def _remove(folders: list[str]) -> int:
    """Remove folders, which may be full and deep, beside this process; return the process that does."""
    if not folders:
        return 0
    # the agent's channel is not held open when the agent dies
    streams = [(os.POSIX_SPAWN_OPEN, stream, "/dev/null", os.O_RDWR, 0) for stream in (0, 1)]
    command, variables = [*_REMOVE, *folders[:_MOST_REMOVED]], {"PATH": "/usr/bin:/bin"}
    try:
        return os.posix_spawnp("rm", command, variables, file_actions=streams, setsid=True, setsigmask=[])
    except OSError:  # the next sweep tries again
        return 0


def _note(state: StateDir, key: str) -> str:
    return f"{state.files}/{key}.private"


def _home_of_runtime(paths: Sequence[str]) -> str:
    return _MEMORY if _MEMORY in paths else paths[0]


def _check(path: str) -> None:
    """Raise ``OSError`` unless users can write in a directory, and cannot replace files of others there."""
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode) or os.path.realpath(path) != os.path.normpath(path):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if status.st_uid != 0 or stat.S_IMODE(status.st_mode) != _EVERYBODY:
        raise PermissionError(errno.EPERM, "it is not root's, with the mode 1777")


def _shelf(state: StateDir, path: str) -> str:
    """Return the folder below ``path`` with the directories of all jobs of this node, which root alone enters.

    Raises ``FileNotFoundError`` where there is none. What a user has put there under its name is none.
    """
    shelf = _name_of_shelf(state, path)
    if not _is_root_s(shelf):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), shelf)
    return shelf


def _make_shelf(state: StateDir, path: str) -> str:
    """Make the folder of :func:`_shelf` where it is missing. Raises ``OSError``."""
    shelf = _name_of_shelf(state, path)
    if os.path.lexists(shelf) and not _is_root_s(shelf):
        os.rename(shelf, f"{shelf}.{os.urandom(4).hex()}")  # a user has made it, to be in the way
    with contextlib.suppress(FileExistsError):
        os.mkdir(shelf)
    if not _is_root_s(shelf):
        raise PermissionError(errno.EPERM, "a user is in the way")
    os.chmod(shelf, 0o700)
    return shelf


def _name_of_shelf(state: StateDir, path: str) -> str:
    return os.path.join(path, f".oarpy-{zlib.crc32(os.fsencode(state.root)):08x}")


def _is_root_s(folder: str) -> bool:
    """Tell whether a name in a directory of everybody is a folder of root, which no user can replace."""
    try:
        status = os.lstat(folder)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == 0


def _do(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
