"""The state directory of a node: its layout, its modes and which *incarnation* of the node it belongs to."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os

from oarpy.transport.agent.job.record import parse_key, write_at_once
from oarpy.wire.foreign_paths import foreign_part

try:
    from _blake2 import blake2b  # `hashlib` takes longer to load, with OpenSSL
except ImportError:
    from hashlib import blake2b

FORMAT = 1
_SECRET = 32
"""Bytes of a node's secret."""
_TRIAL = 16384
"""Bytes to write before a directory is held for writable: the bytes of a few records."""
BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"


class StateError(Exception):
    """The state directory cannot be used; the text says why."""


class StateDir:
    """Paths below one state directory, created with modes that keep users' jobs apart."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.jobs = os.path.join(self.root, "jobs")
        self.files = os.path.join(self.root, "files")
        self.requests = os.path.join(self.root, "requests")
        self.logins = os.path.join(self.root, "logins")
        self.scripts = os.path.join(self.root, "scripts")
        self.forgotten = os.path.join(self.root, "forgotten")
        self.bell = os.path.join(self.root, "bell")
        self._incarnation = os.path.join(self.root, "incarnation")
        self._secret = os.path.join(self.root, "secret")
        self.commands = os.path.join(self.root, "bin")
        self._bell_fd = -1
        self._made: dict[str, tuple[int, int]] = {}

    def create(self) -> None:
        """Make the missing folders. Users may pass through ``files`` only, to the node files of their own jobs.

        Where the memory of starts is missing, a new incarnation begins, even if others are left. Rights of group and
        others to write are taken away. Raises :class:`StateError`; for root also if the directory belongs to another
        user.
        """
        if os.geteuid() == 0 and (foreign := foreign_part(self.root)):
            raise StateError(f"state directory {self.root} is not root's alone: {foreign}")
        try:
            if not (os.path.isdir(self.jobs) and os.path.isdir(self.forgotten)):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(self._incarnation)
            os.makedirs(self.root, mode=0o711, exist_ok=True)
            for path, mode in (
                (self.jobs, 0o700),
                (self.files, 0o711),
                (self.requests, 0o700),
                (self.logins, 0o700),
                (self.scripts, 0o700),
                (self.forgotten, 0o700),
            ):
                os.makedirs(path, mode=mode, exist_ok=True)
                self._made[path] = _identity(path)
            owners = {os.stat(path).st_uid for path in self._made}
            for path in (self.root, *self._made):
                _close_to_others(path)
            os.close(os.open(self.bell, os.O_CREAT | os.O_WRONLY, 0o600))
            self._make_secret()
        except OSError as error:
            raise StateError(f"state directory {self.root}: {error.strerror}") from error
        for owner in owners - {os.geteuid()}:
            raise StateError(
                f"state directory {self.root} belongs to uid {owner}, the agent runs as uid {os.geteuid()}"
            )

    def check_there(self) -> None:
        """Raise :class:`StateError` when a folder was removed, or replaced by another since the beginning.

        The records of jobs are gone with it, so the server must begin a new incarnation.
        """
        for path, identity in self._made.items():
            try:
                there = _identity(path) == identity
            except (FileNotFoundError, NotADirectoryError):
                there = False
            if not there:
                raise StateError(f"state directory {self.root} was removed while the agent used it: {path}")

    def lock(self) -> int:
        """Take the lock that serialises rare work on the whole directory; the caller closes the descriptor."""
        descriptor = os.open(os.path.join(self.root, "lock"), os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def ring(self) -> None:
        """Touch the bell: agents then read the records of the jobs that they follow without having started them."""
        with contextlib.suppress(OSError):  # they also look from time to time
            self.hold_bell()
            os.pwrite(self._bell_fd, b"!", 0)

    def hold_bell(self) -> None:
        """Keep the bell open: so a supervisor of this node is known among all processes. Raises ``OSError``."""
        if self._bell_fd < 0:
            self._bell_fd = os.open(self.bell, os.O_WRONLY)

    def _make_secret(self) -> None:
        """Write the secret of this node, unless it is there. Raises ``OSError``."""
        if os.path.exists(self._secret):
            return
        hidden = f"{self._secret}.{os.getpid()}"
        fd = os.open(hidden, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        try:
            write_at_once(fd, os.urandom(_SECRET))
        finally:
            os.close(fd)
        os.rename(hidden, self._secret)

    def word_of(self, key: str) -> str:
        """Return a word of a job that no other user can guess, always the same on this node."""
        with open(self._secret, "rb") as file:
            return blake2b(key.encode(), key=file.read(), digest_size=16).hexdigest()

    def step_note(self, key: str) -> str:
        """Return the file that is there when steps of a job were started on this node."""
        return f"{self.files}/{key}.steps"

    def suspension_note(self, key: str) -> str:
        """Return the file that exists while a job that is led from another node is suspended on this one."""
        return f"{self.files}/{key}.suspended"

    def note_suspension(self, key: str) -> None:
        """Note that a job is suspended, for processes that come into it later. Raises ``OSError``."""
        os.close(os.open(self.suspension_note(key), os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))

    def session_pipe(self, key: str) -> str:
        """Return the named pipe through which an interactive job learns of the end of its shell."""
        return f"{self.files}/{key}.session"

    def note_step(self, key: str) -> None:
        """Leave word for the end of a job that processes of it may not be below its supervisor."""
        os.close(os.open(self.step_note(key), os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))

    def job_keys(self) -> list[str]:
        """Return the names ``<job>.<attempt>`` of all records."""
        return [name for name in os.listdir(self.jobs) if parse_key(name)]

    def sync_jobs(self) -> None:
        """Make the existence of all records durable: one flush for many starts."""
        self.sync(self.jobs)

    @staticmethod
    def sync(directory: str) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def problem(self) -> str:
        """Return the reason why records and files of jobs cannot be written here; empty when there is none."""
        for directory in (self.jobs, self.files, self.requests, self.scripts, self.forgotten):
            path = os.path.join(directory, "trial")  # no record's name
            try:
                _try_to_write(path)
            except OSError as error:
                return f"{directory}: {error.strerror}"
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(path)
        return ""

    def read_incarnation(self) -> tuple[str, str]:
        """Return the (boot id, identity) the directory was last used under; two empty texts when it is new."""
        try:
            with open(self._incarnation, encoding="ascii") as file:
                content = json.load(file)
            known = int(content["format"])
            boot_identity = (str(content["boot"]), str(content["identity"]))
        except FileNotFoundError:
            return "", ""
        except (ValueError, KeyError, TypeError):
            return "", ""  # torn by a power cut: the same as a new directory
        if known > FORMAT:
            raise StateError(f"state directory {self.root} has format {known}, this agent knows {FORMAT}")
        return boot_identity

    def write_incarnation(self, boot: str) -> str:
        """Begin a new incarnation under ``boot``; return its identity."""
        identity = os.urandom(8).hex()
        path = self._incarnation
        content = json.dumps({"format": FORMAT, "boot": boot, "identity": identity})
        fd = os.open(path + ".new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        try:
            write_at_once(fd, content.encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(path + ".new", path)
        return identity


def _close_to_others(path: str) -> None:
    """Take from group and others the right to write, where an admin or a wide umask gave it."""
    status = os.stat(path)
    if status.st_uid == os.geteuid() and status.st_mode & 0o022:
        os.chmod(path, status.st_mode & 0o7755)


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _try_to_write(path: str) -> None:
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    try:
        write_at_once(fd, b"-" * _TRIAL)
        os.fsync(fd)
    finally:
        os.close(fd)


def boot_id(path: str = BOOT_ID_FILE) -> str:
    """Return the kernel's identity of this boot."""
    with open(path, encoding="ascii") as file:
        return file.read().strip()
