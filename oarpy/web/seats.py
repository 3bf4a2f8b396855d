"""The pool: requests take a seat, a connection to the database with its memory, and leave it as they found it."""

from __future__ import annotations

import errno
import queue
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from fastapi import Request

from oarpy.client.caller import KeptReader, Streams, acting_for
from oarpy.client.platform.tokens import Scope
from oarpy.client.session import Session, open_session
from oarpy.cluster_state.existing_resources import ExistingReader
from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.configuration import Configuration
from oarpy.frontend.editor import EditorFailed
from oarpy.model.errors import Unreachable, UsageError
from oarpy.store.database import Connection, KeptConnection, reachable
from oarpy.web.identity import Identity

PATIENCE = 5.0
"""Seconds that a request waits for a seat."""


class Busy(Unreachable):
    """Every seat is taken, or the user has as many as one may have."""

    code = "busy"


class Seat:
    """A connection, and its thread's memory of the platform."""

    def __init__(self, configuration: Configuration) -> None:
        self.connection = KeptConnection(configuration, "web", configuration.web.time_limit)
        self.reader = KeptReader(configuration)


class Seats:
    """At most ``web.connections`` at one time, of one user at most half of them."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        number = configuration.web.connections
        self._largest_share = max(1, number // 2)
        # the last used seat first: its connection is open and its memory fresh
        self._free: queue.LifoQueue[Seat] = queue.LifoQueue()
        for _ in range(number):
            self._free.put(Seat(configuration))
        self._taken: Counter[str] = Counter()
        self._guard = threading.Condition()

    @contextmanager
    def session(
        self, identity: Identity, *, changes: bool = False, files: Mapping[str, bytes] | None = None
    ) -> Iterator[Session]:
        """Open the session that a command of this user would have; without ``changes`` the database refuses writes.

        ``files`` has the contents that the request carries instead of files of the user, by name.

        Raises :class:`Busy`, :class:`Unreachable`.
        """
        with self._turn(identity.user), self._seat() as seat, reachable():
            connection = seat.connection.get(read_only=not changes)
            caller = WebCaller(identity, self._configuration, connection, seat.reader, files or {})
            with acting_for(caller), open_session("web") as session:
                yield session

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection for the process's own reads and writes: identities, the audit."""
        with self._seat() as seat, reachable():
            yield seat.connection.get()

    def close(self) -> None:
        """Close the connections that are not in use."""
        while not self._free.empty():
            self._free.get_nowait().connection.drop()

    @contextmanager
    def _seat(self) -> Iterator[Seat]:
        try:
            seat = self._free.get(timeout=PATIENCE)
        except queue.Empty:
            raise Busy("every connection to the database is in use", hint="try again in a moment") from None
        try:
            yield seat
        finally:
            seat.connection.clean()
            self._free.put(seat)

    @contextmanager
    def _turn(self, user: str) -> Iterator[None]:
        with self._guard:
            if not self._guard.wait_for(lambda: self._taken[user] < self._largest_share, PATIENCE):
                raise Busy(f"'{user}' has {self._largest_share} requests at work", hint="try again in a moment")
            self._taken[user] += 1
        try:
            yield
        finally:
            with self._guard:
                self._taken[user] -= 1
                self._guard.notify_all()


INPUT = "-"
"""Name of the content that a request carries for the standard input of a command."""


class WebCaller:
    """The sender of a request: a user without directory, files or terminal here."""

    environment: Mapping[str, str] = {}

    def __init__(
        self,
        identity: Identity,
        configuration: Configuration,
        connection: Connection,
        reader: KeptReader,
        files: Mapping[str, bytes],
    ) -> None:
        self.uid = identity.uid
        self.administers = identity.scope is Scope.ADMIN
        self.arguments: Sequence[str] = ()
        self._configuration = configuration
        self._connection = connection
        self._reader = reader
        self._files = files

    def directory(self) -> str:
        """Raise :class:`UsageError`: a request has none."""
        raise UsageError("no directory for the job", hint='give "directory": its absolute path')

    def has_directory(self, path: str) -> bool:
        """Assume it exists: only the user's own processes may see it, and the node reports a missing one."""
        return True

    def has_program(self, name: str) -> bool:
        """Take it for granted, too."""
        return True

    def program_facts(self, name: str) -> tuple[int, int] | None:
        """Return nothing: a request has no programs."""
        return None

    def read_file(self, path: str, largest: int, *, plain: bool = True, executable: bool = False) -> bytes:
        """Return the content that the request carries under that name; raise :class:`OSError` for any other name."""
        if path in self._files and not executable:
            return self._files[path][: largest + 1]
        raise PermissionError(errno.EACCES, "a request reads no files", path)

    def last_line(self, path: str) -> str:
        """Return nothing: a request reads no files."""
        return ""

    def write_private(self, named: str, path: str, text: str) -> None:
        """Refuse: the caller's files are elsewhere."""
        raise PermissionError(errno.EACCES, "files are not written over the web", path)

    def read_input(self, largest: int) -> bytes:
        """Return the content that the request carries for standard input, if any."""
        return self._files.get(INPUT, b"")[: largest + 1]

    def edit(self, name: str, text: str) -> bytes:
        """Raise :class:`EditorFailed`."""
        raise EditorFailed("a request has no editor", "send the text")

    def waiting(self) -> AbstractContextManager[None]:
        """Return a context that does nothing: the wait holds up no other caller."""
        return nullcontext()

    def attached(self) -> AbstractContextManager[Streams]:
        """Raise :class:`UsageError`."""
        raise UsageError("a request has no terminal", hint="use oarsub -I")

    def hand_over(self) -> None:
        """Refuse it: launchers speak through the gateway."""
        raise UsageError("a request carries no lines of a launcher", hint="use oarnegotiate")

    def may_keep_connection(self) -> bool:
        """Refuse it: the seat is for the next request."""
        return False

    def require_presence(self) -> None:
        """Take it for granted."""

    def configuration(self) -> Configuration:
        """Return the settings of this process."""
        return self._configuration

    def database(self, configuration: Configuration, name: str) -> AbstractContextManager[Connection]:
        """Lend the connection of the seat."""
        return nullcontext(self._connection)

    def snapshot_reader(self, configuration: Configuration) -> SnapshotReader:
        """Return that of the seat."""
        return self._reader.get()

    def existing_reader(self) -> ExistingReader:
        """Return that of the seat."""
        return self._reader.existing


def seats_of(request: Request) -> Seats:
    """Return the seats of the application that answers a request."""
    seats: Seats = request.app.state.seats
    return seats
