"""The caller of a command: this very process, or a process at the other end of the gateway.

Whatever depends on the caller (identity, directory, environment, files, terminal) comes from :func:`current`, so that
the same code of a command runs in both.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from oarpy.configuration import Configuration, load
from oarpy.frontend import local_files
from oarpy.frontend.submission_environment import submission_environment
from oarpy.frontend.terminal import RawTerminal
from oarpy.frontend.windowed_shell import WindowedShell
from oarpy.model.errors import Unreachable

if TYPE_CHECKING:
    from oarpy.cluster_state.existing_resources import ExistingReader
    from oarpy.cluster_state.snapshot_reader import SnapshotReader
    from oarpy.store.database import Connection

_CHUNK = 1 << 16


class Size(NamedTuple):
    """The size of a terminal in characters."""

    rows: int
    columns: int


class Streams(Protocol):
    """The caller's standard streams while a program far away uses them."""

    @property
    def ended(self) -> bool:
        """True while nothing can be received: before input is asked for, after its end."""

    @property
    def gateway(self) -> int | None:
        """A descriptor that is readable once the gateway has ended that took the call; None: it came another way."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when something can be received."""

    def begin_input(self, *, terminal: bool) -> Size | None:
        """Pass standard input on from here. ``terminal``: unfiltered if it is one; then its size is returned."""

    def take_early(self) -> list[bytes | Size]:
        """Return what :meth:`receive` would, for input that arrived while input began.

        ``fileno`` does not signal it.
        """

    def open_shell(self, job: int, node: str) -> None:
        """Open a shell with windows on a node of a job, on the caller's own streams.

        From now on a line is received when that has ended, which is its exit status, and nothing else.
        """

    def end_input(self) -> None:
        """Pass no more on, and give a terminal back as it was."""

    def receive(self) -> list[bytes | Size]:
        """Return pieces of standard input, ``b""`` for its end, and new sizes of the terminal.

        Raises :class:`BrokenPipeError` when the caller is gone, ``KeyboardInterrupt`` when the user interrupts.
        """

    def send(self, stream: int, data: bytes) -> None:
        """Write to the caller's standard output (1) or error (2); raise :class:`BrokenPipeError`."""


class Caller(Protocol):
    """The caller of one command."""

    @property
    def uid(self) -> int:
        """The user id that the kernel vouches for."""

    @property
    def administers(self) -> bool:
        """Whether the rights of an admin are theirs here; not on the word of a node, or of a token for less."""

    @property
    def arguments(self) -> Sequence[str]:
        """The arguments as typed."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The caller's environment, or the part of it that the command uses. It does not prove the user."""

    def directory(self) -> str:
        """Return the current directory; raise :class:`OSError` when it is gone."""

    def has_directory(self, path: str) -> bool:
        """Tell whether the caller sees a directory there."""

    def has_program(self, name: str) -> bool:
        """Tell whether the caller has a file of this name in a folder of PATH, or may have it."""

    def program_facts(self, name: str) -> tuple[int, int] | None:
        """Return the size (bytes) and date (epoch seconds) of a program, None if the caller has none of this name."""

    def read_file(self, path: str, largest: int, *, plain: bool = True, executable: bool = False) -> bytes:
        """Return at most ``largest`` + 1 bytes of a file that the caller may read; raise :class:`OSError`.

        ``executable``: the caller must be allowed to execute it, the error is ``ENOEXEC`` otherwise.
        """

    def last_line(self, path: str) -> str:
        """Return the last line of a file that the caller may read, empty when there is none to be read."""

    def write_private(self, named: str, path: str, text: str) -> None:
        """Write a file that the caller alone may read; it was ``named`` in a call, with ids to be filled in.

        Raises :class:`OSError`.
        """

    def read_input(self, largest: int) -> bytes:
        """Return at most ``largest`` + 1 bytes of the caller's standard input."""

    def edit(self, name: str, text: str) -> bytes:
        """Let the user change a text; raise :class:`oarpy.frontend.editor.EditorFailed`."""

    def waiting(self) -> AbstractContextManager[None]:
        """Inside the block the command waits for something that may take long."""

    def attached(self) -> AbstractContextManager[Streams]:
        """Connect the caller's streams, inside the block, to a program far away.

        The block may last as long as it likes. A connection to the database that was open before must not be used from
        here on; a new one may be opened.
        """

    def hand_over(self) -> None:
        """Connect the negotiator with the caller directly; raise :class:`oarpy.model.errors.Unreachable`."""

    def may_keep_connection(self) -> bool:
        """Tell whether a connection to the database may be kept while the command waits, attached."""

    def require_presence(self) -> None:
        """Raise :class:`BrokenPipeError` when no caller waits for the outcome any more."""

    def configuration(self) -> Configuration:
        """Return the settings that hold for this caller."""

    def database(self, configuration: Configuration, name: str) -> AbstractContextManager[Connection]:
        """Return a connection for a command called ``name``."""

    def snapshot_reader(self, configuration: Configuration) -> SnapshotReader:
        """Return the reader of snapshots of a scheduling pass; it may have read for other commands before."""

    def existing_reader(self) -> ExistingReader:
        """Return the reader of existing resources; it may have read for other commands before."""


class ProcessStreams:
    """The standard streams of this process."""

    gateway: int | None = None

    def __init__(self) -> None:
        self.ended = True
        self._terminal: RawTerminal | None = None
        self._poll: select.epoll | None = None
        self._shell: WindowedShell | None = None

    def fileno(self) -> int:
        """Standard input, with a terminal also the changes of its size; or what tells that a shell has ended."""
        if self._shell is not None:
            return self._shell.fileno()
        return 0 if self._poll is None else self._poll.fileno()

    def begin_input(self, *, terminal: bool) -> Size | None:
        """Read from now on."""
        self.ended = False
        if not terminal or not os.isatty(0):
            return None
        self._terminal = RawTerminal()
        self._poll = select.epoll()
        for file in (0, self._terminal.fileno()):
            self._poll.register(file, select.EPOLLIN)
        return Size(*self._terminal.size())

    def take_early(self) -> list[bytes | Size]:
        """Return nothing: input is read when it is received."""
        return []

    def open_shell(self, job: int, node: str) -> None:
        """Start ssh; nothing is read meanwhile."""
        self.ended = False
        self._shell = WindowedShell(job, node)

    def end_input(self) -> None:
        """Read no more, and end a shell whose job is over."""
        self.ended = True
        if self._shell is not None:
            shell, self._shell = self._shell, None
            shell.close()
        if self._poll is not None:
            self._poll.close()
            self._poll = None
        if self._terminal is not None:
            terminal, self._terminal = self._terminal, None
            terminal.leave()

    def receive(self) -> list[bytes | Size]:
        """Read the input that waits; a closed or broken standard input is at its end."""
        if self._shell is not None:
            line = self._shell.status_line()
            self.end_input()
            return [line, b""]
        ready = {0} if self._poll is None else {file for file, _ in self._poll.poll(0)}
        pieces: list[bytes | Size] = []
        if self._terminal is not None and self._terminal.fileno() in ready:
            pieces.append(Size(*self._terminal.size()))
        if 0 in ready:
            try:
                data = os.read(0, _CHUNK)
            except OSError:
                data = b""
            self.ended = not data
            pieces.append(data)
        return pieces

    def send(self, stream: int, data: bytes) -> None:
        """Write all of it."""
        while data:
            data = data[os.write(stream, data) :]


class ProcessCaller:
    """The user of this process, which connects to the database itself."""

    @property
    def uid(self) -> int:
        """The real user id of the process."""
        return os.getuid()

    @property
    def administers(self) -> bool:
        """Always: the kernel vouches for the user."""
        return True

    @property
    def arguments(self) -> Sequence[str]:
        """The arguments of the process."""
        return sys.argv[1:]

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of the process."""
        return submission_environment()

    def directory(self) -> str:
        """Return the current directory of the process."""
        return os.getcwd()

    def has_directory(self, path: str) -> bool:
        """Look in the file system."""
        return os.path.isdir(path)

    def has_program(self, name: str) -> bool:
        """Look in the file system."""
        return local_files.has_program(name)

    def program_facts(self, name: str) -> tuple[int, int] | None:
        """Look in the file system."""
        return local_files.program_facts(name)

    def read_file(self, path: str, largest: int, *, plain: bool = True, executable: bool = False) -> bytes:
        """Read the file."""
        return local_files.read_file(path, largest, plain=plain, executable=executable)

    def last_line(self, path: str) -> str:
        """Read the file."""
        return local_files.last_line(path)

    def write_private(self, named: str, path: str, text: str) -> None:
        """Write the file."""
        local_files.write_private(path, text)

    def read_input(self, largest: int) -> bytes:
        """Read standard input."""
        return local_files.read_input(largest)

    def edit(self, name: str, text: str) -> bytes:
        """Start the editor."""
        from oarpy.frontend.editor import edit

        return edit(name, text, os.environ)

    def waiting(self) -> AbstractContextManager[None]:
        """Return a context that does nothing: the wait holds up no other caller."""
        return nullcontext()

    @contextmanager
    def attached(self) -> Iterator[Streams]:
        """Yield the streams of this process. A terminal that hangs up interrupts, as the interrupt key does."""
        sys.stdout.flush()
        streams = ProcessStreams()
        kept = {number: signal.getsignal(number) for number in _ATTACHED}
        for number, handler in _ATTACHED.items():
            signal.signal(number, handler)
        try:
            yield streams
        finally:
            streams.end_input()
            for number, before in kept.items():
                signal.signal(number, before)

    def hand_over(self) -> None:
        """Refuse: launchers speak through the gateway."""
        raise Unreachable("no gateway listens here", hint="launchers speak through the gateway (gateway.socket)")

    def may_keep_connection(self) -> bool:
        """Allow it: the admin who gave the process a way to the database knows its limits."""
        return True

    def require_presence(self) -> None:
        """The caller is this process, and here."""

    def configuration(self) -> Configuration:
        """Read the configuration."""
        return load()

    def database(self, configuration: Configuration, name: str) -> AbstractContextManager[Connection]:
        """Connect; raise :class:`oarpy.model.errors.Unreachable`."""
        from oarpy.store.database import connect, database_dsn  # oarprint needs none of it

        return connect(database_dsn(configuration), name, timeout=configuration.database.connect_timeout)

    def snapshot_reader(self, configuration: Configuration) -> SnapshotReader:
        """Return a new reader of snapshots."""
        from oarpy.cluster_state.snapshot_reader import SnapshotReader

        return SnapshotReader(configuration)

    def existing_reader(self) -> ExistingReader:
        """Return a new reader of snapshots."""
        from oarpy.cluster_state.existing_resources import ExistingReader

        return ExistingReader()


class KeptReader:
    """A reader of the platform for commands, which one thread uses one after the other, with its memory.

    It is made at its first use: only commands that need it fail by settings that it cannot use.
    """

    def __init__(self, configuration: Configuration) -> None:
        from oarpy.cluster_state.existing_resources import ExistingReader

        self._configuration = configuration
        self._reader: SnapshotReader | None = None
        self.existing = ExistingReader()
        """Reads which resources exist, whatever the settings."""

    def get(self) -> SnapshotReader:
        """Return the reader; raise :class:`oarpy.model.errors.UsageError` when the settings are wrong."""
        if self._reader is None:
            from oarpy.cluster_state.snapshot_reader import SnapshotReader

            self._reader = SnapshotReader(self._configuration)
        return self._reader


def _hang_up(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


_ATTACHED: dict[int, Callable[[int, FrameType | None], None] | signal.Handlers] = {
    signal.SIGHUP: _hang_up,
    # a program in the job gets these by itself where they are meant for the whole job
    signal.SIGUSR1: signal.SIG_IGN,
    signal.SIGUSR2: signal.SIG_IGN,
}

_PRESENT: ContextVar[Caller | None] = ContextVar("caller", default=None)


def current() -> Caller:
    """Return the present caller."""
    return _PRESENT.get() or ProcessCaller()


@contextmanager
def acting_for(caller: Caller) -> Iterator[None]:
    """Inside the block :func:`current` is ``caller``."""
    token = _PRESENT.set(caller)
    try:
        yield
    finally:
        _PRESENT.reset(token)
