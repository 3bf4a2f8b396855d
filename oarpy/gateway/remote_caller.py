"""The caller of a command at the other end of the gateway's socket."""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from oarpy.client.caller import KeptReader, Streams
from oarpy.cluster_state.existing_resources import ExistingReader
from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.configuration import Configuration
from oarpy.frontend.editor import EditorFailed
from oarpy.gateway.attached_streams import HandedOver, RemoteStreams
from oarpy.gateway.shares import Shares
from oarpy.model.errors import Unreachable
from oarpy.negotiation.modules import handover
from oarpy.store.database import Connection, KeptConnection, connect, database_dsn
from oarpy.wire.frames import CONTENT, LARGEST_FRAME, Channel, Gone, Malformed, read_message
from oarpy.wire.openings import Request

PATIENCE = 10.0
"""Seconds for the caller's process to take a frame, and to send a whole one."""

WAITING, INPUT, WORKING = b"W", b"N", b"R"
"""The states of a command for the gateway: it waits for something slow, for standard input, or for nothing."""


class RemoteCaller:
    """A caller whose own process answers for its files, directories and editor, over the connection.

    ``uid`` comes from the kernel, or from ``node`` if that is not empty. ``tell`` takes one of the words above.
    ``leave_worker`` gives up, in a user's session, everything that belongs to the worker alone; it may refuse. It
    returns a descriptor that is readable once the gateway has ended.
    """

    def __init__(
        self,
        uid: int,
        node: str,
        request: Request,
        connection: socket.socket,
        configuration: Configuration,
        database: KeptConnection,
        reader: KeptReader,
        shares: Shares,
        tell: Callable[[bytes], None],
        leave_worker: Callable[[int], int],
    ) -> None:
        self._uid = uid
        self._node = node
        self._request = request
        self._socket = connection
        self._configuration = configuration
        self._database = database
        self._reader = reader
        self._shares = shares
        self._tell = tell
        self._leave_worker = leave_worker
        self.in_session = False
        self._listens = False
        self._directories = {} if request.directory is None else {request.directory: True}
        connection.settimeout(PATIENCE)
        self.channel = Channel(connection)

    @property
    def uid(self) -> int:
        """The user id of the process that connected, as the kernel recorded it, here or on the node."""
        return self._uid

    @property
    def administers(self) -> bool:
        """Tell whether the caller is on this host: a caller on a node is no admin."""
        return not self._node

    @property
    def arguments(self) -> Sequence[str]:
        """The arguments as typed."""
        return self._request.arguments

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that the command asks for; ``oarsub`` asks for all."""
        return self._request.environment

    def directory(self) -> str:
        """Return the caller's current directory."""
        if self._request.directory is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory")
        return self._request.directory

    def has_directory(self, path: str) -> bool:
        """Ask once for each path; the caller's own directory is known to be there."""
        if path not in self._directories:
            self._directories[path] = self._answer({"has_directory": path}).get("answer") is True
        return self._directories[path]

    def has_program(self, name: str) -> bool:
        """Have the caller's process look for it."""
        return self._answer({"has_program": name}).get("answer") is True

    def program_facts(self, name: str) -> tuple[int, int] | None:
        """Have the caller's process look at it."""
        answer = self._answer({"program": name}).get("answer")
        match answer:
            case [int(size), int(date)]:
                return size, date
            case _:
                return None

    def read_file(self, path: str, largest: int, *, plain: bool = True, executable: bool = False) -> bytes:
        """Have the file read by the caller's process."""
        question = {"file": path, "largest": largest, "plain": plain, "executable": executable}
        return self._content(question, largest, path)

    def last_line(self, path: str) -> str:
        """Have the line read by the caller's process."""
        answer = self._answer({"last_line": path}).get("answer")
        return answer if isinstance(answer, str) else ""

    def write_private(self, named: str, path: str, text: str) -> None:
        """Have the file written by the caller's process."""
        answer = self._answer({"write": path, "named": named, "text": text})
        number = answer.get("errno")
        if type(number) is int:
            raise OSError(number, _word(answer.get("strerror")), path)

    def read_input(self, largest: int) -> bytes:
        """Have standard input read; raise :class:`Unreachable` when it does not arrive in time."""
        limit = self._configuration.gateway.input_limit
        began = time.monotonic()
        try:
            with self._waiting(INPUT, limit):
                return self._content({"input": largest}, largest, "standard input")
        except BrokenPipeError:
            if time.monotonic() - began < limit:
                raise
            raise Unreachable(
                f"standard input did not end within {limit:g} s", hint="give a file instead (gateway.input_limit)"
            ) from None

    def edit(self, name: str, text: str) -> bytes:
        """Have the text edited by the user."""
        with self.waiting():
            kind, payload = self._ask({"edit": name, "text": text})
        if kind == CONTENT:
            return payload
        answer = self._message(kind, payload)
        raise EditorFailed(_word(answer.get("failed")), _word(answer.get("hint")))

    def waiting(self) -> AbstractContextManager[None]:
        """Let the command go on beyond its time limit, up to the limit of a wait; raise :class:`Unreachable`.

        A user may have some workers only that wait.
        """
        return self._waiting(WAITING, self._configuration.gateway.waiting_limit)

    @contextmanager
    def _waiting(self, word: bytes, limit: float) -> Iterator[None]:
        with self._shares.wait(self._uid):
            self._tell(word)
            self._socket.settimeout(limit)
            try:
                yield
            finally:
                self._socket.settimeout(PATIENCE)
                self._tell(WORKING)

    def hand_over(self) -> None:
        """Pass the connection on and be free; raise :class:`Unreachable` when no process takes it."""
        handover.pass_on(self._configuration, self._socket, handover.Speaking(self._uid, self._node, self._request))
        raise HandedOver

    def may_keep_connection(self) -> bool:
        """Ask for one of the places of sessions that keep a connection; it is kept until this session ends."""
        self._listens = self._listens or self._shares.listen(self._uid)
        return self._listens

    @contextmanager
    def attached(self) -> Iterator[Streams]:
        """Continue in a new process, the session. In the worker, which is free then, raise :class:`HandedOver`."""
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork():
            raise HandedOver
        self.in_session = True
        self._database.abandon()
        gateway = self._leave_worker(self._uid)
        # A stopped caller disturbs nobody else; a caller that is gone is noticed.
        self._socket.settimeout(None)
        try:
            self.channel.send_message({"attached": True})
        except Gone as error:
            raise BrokenPipeError(errno.EPIPE, str(error)) from None
        streams = RemoteStreams(self._socket, self.channel, gateway)
        try:
            yield streams
        finally:
            streams.end_input()

    def require_presence(self) -> None:
        """Raise :class:`BrokenPipeError` if the caller's process has closed its end."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        # nothing was asked, so readable bytes can only be the end
        if poll.poll(0):
            raise BrokenPipeError(errno.EPIPE, "the caller is gone")

    def configuration(self) -> Configuration:
        """Return the gateway's own settings: nothing of the caller's counts."""
        return self._configuration

    @contextmanager
    def database(self, configuration: Configuration, name: str) -> Iterator[Connection]:
        """Lend the worker's connection. A session opens one of its own; a user's that do not listen take turns."""
        if not self.in_session:
            yield self._database.get()
            return
        with nullcontext() if self._listens else self._shares.look(self._uid):
            timeout = configuration.database.connect_timeout
            with connect(database_dsn(configuration), name, timeout=timeout) as connection:
                yield connection

    def snapshot_reader(self, configuration: Configuration) -> SnapshotReader:
        """Return the worker's own."""
        return self._reader.get()

    def existing_reader(self) -> ExistingReader:
        """Return the worker's own."""
        return self._reader.existing

    def _content(self, question: Mapping[str, object], largest: int, name: str) -> bytes:
        kind, payload = self._ask(question)
        if kind == CONTENT:
            return payload[: largest + 1]
        answer = self._message(kind, payload)
        number = answer.get("errno")
        raise OSError(number if type(number) is int else errno.EIO, _word(answer.get("strerror")), name)

    def _answer(self, question: Mapping[str, object]) -> dict[str, object]:
        return self._message(*self._ask(question))

    def _ask(self, question: Mapping[str, object]) -> tuple[int, bytes]:
        try:
            self.channel.send_message(question)
            return self.channel.receive(LARGEST_FRAME)
        except (Gone, Malformed) as error:
            raise BrokenPipeError(errno.EPIPE, str(error)) from None

    def _message(self, kind: int, payload: bytes) -> dict[str, object]:
        try:
            if kind == CONTENT:
                raise Malformed("content, not a message")
            return read_message(payload)
        except Malformed as error:
            raise BrokenPipeError(errno.EPIPE, str(error)) from None


def _word(value: object) -> str:
    return value if isinstance(value, str) else "the caller's process gave no reason"
