"""Call requests: commands on this node that want to be connected to the server.

Each listens in a folder and writes its token to a pipe. Both are open to everybody. A text that is no token of an
existing socket goes no further, and requests that come too fast wait.

Where jobs are of several users, the folder is in shared memory, and a link leads there. So whatever users leave in it,
the disk with the records of jobs has no less room. In that memory everybody may write anyhow.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import time
import zlib

from oarpy.frontend.call import CALLS, KNOCKS
from oarpy.wire.fields import is_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select

_READ = 4096
_MOST_BYTES = 1 << 16
"""Bytes read between two rests: all that a pipe holds."""
_PRICE = 512
"""Bytes that a token which goes further counts for: it costs the server more than nonsense costs the agent."""
_STALE = 60.0
"""Seconds after which no command listens under a name any more: a killed command left it."""
_MOST_PRUNED = 1000
_MOST_PER_USER = 256
"""Commands of a user that may listen at one time; further ones are removed at a look."""
_MEMORY = "/dev/shm"


class CallListener:
    """The pipe and the folder, made here. ``fd`` is -1 where they cannot be: then there are no calls."""

    def __init__(self, root: str, poll: select.epoll, event: int) -> None:
        self._root = root
        self._folder = os.path.join(root, CALLS)
        self._poll = poll
        self._event = event
        self._rest = b""
        self._left = 0
        self._told: set[str] = set()
        self._next_prune = 0.0
        self.fd = -1
        with contextlib.suppress(OSError):
            self._open(os.path.join(root, KNOCKS))

    def _open(self, path: str) -> None:
        self._make_folder()
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o622)
        # also for writing: the pipe has no end when the last command closes it
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.close(fd)
            return
        os.fchmod(fd, 0o622)
        self.fd = fd

    def _make_folder(self) -> None:
        if os.geteuid() == 0:
            self._link(_in_memory(self._root))
        os.makedirs(self._folder, exist_ok=True)
        os.chmod(self._folder, 0o1733)

    def _link(self, target: str) -> None:
        """Let the folder be ``target``; one on the disk, of an older version, is put out of reach."""
        if os.path.islink(self._folder) and os.readlink(self._folder) == target:
            return
        if os.path.isdir(self._folder) and not os.path.islink(self._folder):
            os.chmod(self._folder, 0o700)
            os.rename(self._folder, f"{self._folder}.{time.time_ns()}")
        hidden = f"{self._folder}.{os.getpid()}"
        os.symlink(target, hidden)
        os.rename(hidden, self._folder)

    def listen(self) -> None:
        """Read on after a rest, and tidy up now and then; to be called once a second."""
        if self.fd >= 0 and self._left <= 0:
            self._poll.register(self.fd, self._event)
        self._left = _MOST_BYTES
        self._told.clear()
        if (now := time.monotonic()) >= self._next_prune:
            self._next_prune = now + _STALE
            if self.fd >= 0:
                with contextlib.suppress(OSError):
                    self._make_folder()  # should somebody have tidied up there
            self.prune()

    def hear(self) -> list[str]:
        """Read once; return the tokens under which something listens, each once between two rests."""
        try:
            content = os.read(self.fd, _READ)
        except OSError:
            return []
        *lines, rest = (self._rest + content).split(b"\n")
        self._rest = rest[:_READ]
        tokens = dict.fromkeys(line.decode("ascii", "replace") for line in lines)
        heard = [token for token in tokens if is_token(token) and token not in self._told and self._is_there(token)]
        self._told.update(heard)
        # a read has its price however little there is: each is a turn of the agent
        self._left -= max(len(content), _PRICE) + _PRICE * len(heard)
        if self._left <= 0:
            self._poll.unregister(self.fd)
        return heard

    def _is_there(self, token: str) -> bool:
        try:
            return stat.S_ISSOCK(os.lstat(os.path.join(self._folder, token)).st_mode)
        except OSError:
            return False

    def prune(self) -> None:
        """Remove sockets of killed commands, and everything that is no socket: nothing else belongs there."""
        of_user: dict[int, int] = {}
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            before = time.time() - _STALE
            for entry in itertools.islice(entries, _MOST_PRUNED):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        os.rmdir(entry.path)
                    elif not stat.S_ISSOCK(status.st_mode) or min(status.st_mtime, status.st_ctime) < before:
                        os.unlink(entry.path)
                    else:
                        of_user[status.st_uid] = of_user.get(status.st_uid, 0) + 1
                        if of_user[status.st_uid] > _MOST_PER_USER:
                            os.unlink(entry.path)


def _in_memory(root: str) -> str:
    """Return a folder in shared memory for the node with this state directory, made when it is missing.

    Raises ``OSError``. Another user's folder under its name is left alone, and another name taken.
    """
    home = os.path.join(_MEMORY, f"oarpy-calls-{zlib.crc32(os.fsencode(os.path.abspath(root))):08x}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(home, 0o700)
    status = os.lstat(home)
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
        return home
    link = os.path.join(root, CALLS)
    if os.path.islink(link) and os.path.isdir(link) and os.stat(link).st_uid == os.geteuid():
        return os.readlink(link)
    other = f"{home}-{os.urandom(8).hex()}"
    os.mkdir(other, 0o700)
    return other
