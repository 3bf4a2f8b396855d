"""Acts as a local user for a broker: never as an admin, and with nothing of the broker's own process."""

from __future__ import annotations

import errno
import pwd
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from oarpy.client.caller import Streams, acting_for
from oarpy.client.session import Session, open_session
from oarpy.cluster_state.existing_resources import ExistingReader
from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.configuration import Configuration
from oarpy.frontend.editor import EditorFailed
from oarpy.grid.door.call_context import CallContext
from oarpy.model.errors import NotAllowed, UsageError
from oarpy.store.database import Connection


@contextmanager
def session_of(context: CallContext, local_user: str) -> Iterator[Session]:
    """Yield the session that a command of this user would have, without files, terminal and an admin's rights.

    Its connection is the context's. Raises :class:`NotAllowed` for a user without an account here.
    """
    with acting_for(LocalUser(context, local_user)), open_session("oargriddoor") as session:
        yield session


class LocalUser:
    """The local user of a grant. The user's own processes are not here, so it has no environment, files or answers."""

    environment: Mapping[str, str] = {}
    administers = False

    def __init__(self, context: CallContext, name: str) -> None:
        try:
            account = pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise NotAllowed(f"'{name}' has no account on this cluster", hint="revoke the grant") from None
        self.uid = account.pw_uid
        self.arguments: Sequence[str] = ()
        self._home = account.pw_dir
        self._visit = context

    def directory(self) -> str:
        """Return the user's home."""
        return self._home

    def has_directory(self, path: str) -> bool:
        """Return True: only the user's own processes may see the folder, and the node says so when it is missing."""
        return True

    def has_program(self, name: str) -> bool:
        """Take it for granted, too."""
        return True

    def program_facts(self, name: str) -> tuple[int, int] | None:
        """Return nothing: a broker's part is mapped by the broker."""
        return None

    def read_file(self, path: str, largest: int, *, plain: bool = True, executable: bool = False) -> bytes:
        """Refuse it, as everything that needs a process of the user."""
        raise PermissionError(errno.EACCES, "a broker reads no files", path)

    def last_line(self, path: str) -> str:
        """Return nothing."""
        return ""

    def write_private(self, named: str, path: str, text: str) -> None:
        """Refuse it."""
        raise PermissionError(errno.EACCES, "a broker writes no files", path)

    def read_input(self, largest: int) -> bytes:
        """Return nothing."""
        return b""

    def edit(self, name: str, text: str) -> bytes:
        """Raise :class:`EditorFailed`."""
        raise EditorFailed("a broker has no editor", "send the text")

    def waiting(self) -> AbstractContextManager[None]:
        """Return a context that does nothing: the wait holds up no other caller."""
        return nullcontext()

    def attached(self) -> AbstractContextManager[Streams]:
        """Raise :class:`UsageError`."""
        raise UsageError("a broker has no terminal", hint="submit a program")

    def hand_over(self) -> None:
        """Refuse it."""
        raise UsageError("a broker carries no lines of a launcher", hint="use oarnegotiate on the cluster")

    def may_keep_connection(self) -> bool:
        """Refuse it: the connection is for the next call."""
        return False

    def require_presence(self) -> None:
        """Take it for granted."""

    def configuration(self) -> Configuration:
        """Return the settings of the session."""
        return self._visit.configuration

    def database(self, configuration: Configuration, name: str) -> AbstractContextManager[Connection]:
        """Lend the connection of the session."""
        return nullcontext(self._visit.connection)

    def snapshot_reader(self, configuration: Configuration) -> SnapshotReader:
        """Return that of the session."""
        return self._visit.reader.get()

    def existing_reader(self) -> ExistingReader:
        """Return that of the session."""
        return self._visit.reader.existing
