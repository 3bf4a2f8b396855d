"""The session of a command: its user (by the kernel's word), its connection, its configuration."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oarpy.client.caller import current
from oarpy.configuration import Configuration
from oarpy.model.errors import NotAllowed
from oarpy.store.database import Connection, reachable

if TYPE_CHECKING:
    from oarpy.cluster_state.existing_resources import ExistingReader
    from oarpy.cluster_state.snapshot_reader import SnapshotReader


@dataclass(frozen=True, slots=True)
class Session:
    """An open connection on behalf of ``user``; an admin may act for others."""

    connection: Connection
    configuration: Configuration
    user: str
    uid: int
    is_admin: bool

    def snapshot_reader(self) -> SnapshotReader:
        """Return the reader of snapshots of a scheduling pass; where commands share it, it remembers the platform."""
        return current().snapshot_reader(self.configuration)

    def existing_reader(self) -> ExistingReader:
        """Return the reader of existing resources; where commands share it, it remembers them."""
        return current().existing_reader()

    def require_admin(self, action: str) -> None:
        """Raise :class:`NotAllowed` unless the caller is an admin; ``action`` completes "only an admin may ..."."""
        if not self.is_admin:
            raise NotAllowed(
                f"only an admin may {action}, and '{self.user}' is none", hint="submission.admins lists the admins"
            )

    def require_owner(self, owner: str, what: str) -> None:
        """Raise :class:`NotAllowed` unless ``what`` (such as ``job 12``) of ``owner`` is the caller's, or admin."""
        if owner != self.user and not self.is_admin:
            raise NotAllowed(f"{what} belongs to '{owner}', not to '{self.user}'", hint="its owner or an admin may")


@contextmanager
def open_session(command_name: str) -> Iterator[Session]:
    """Connect as configured; the database server shows ``command_name`` for the connection.

    Raises :class:`oarpy.model.errors.Unreachable` when nothing answers, also when the connection breaks inside.
    """
    caller = current()
    configuration = caller.configuration()
    uid = caller.uid
    user = user_name(uid)
    with reachable(), caller.database(configuration, command_name) as connection:
        is_admin = caller.administers and is_administrator(configuration, user, uid)
        yield Session(connection, configuration, user, uid, is_admin)


def user_name(uid: int) -> str:
    """Return the account name of ``uid``; raise :class:`NotAllowed` when the system knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise NotAllowed(f"user id {uid} has no account on this machine", hint="ask an admin to add it") from None


def has_account(user: str) -> bool:
    """Tell whether the system knows an account of this name."""
    try:
        pwd.getpwnam(user)
    except (KeyError, ValueError):
        return False
    return True


def is_administrator(configuration: Configuration, user: str, uid: int) -> bool:
    """Tell whether a user may act for others: root, an admin by the settings, or the owner of the database."""
    return uid == 0 or user in configuration.submission.admins or _owns_embedded_server(configuration, uid)


def _owns_embedded_server(configuration: Configuration, uid: int) -> bool:
    if configuration.database.url:
        return False
    try:
        return os.stat(configuration.database.directory).st_uid == uid
    except OSError:
        return False
