"""The share of the gateway that a user may take at one time: each piece is the lock of a place, freed with its process.

Workers and sessions are processes that know nothing of each other. Places are the bytes of files without names, made
before these processes are forked.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from oarpy.configuration import GatewaySettings
from oarpy.model.errors import OarpyError, Unreachable

_EVERYBODY = 0
"""The owner of the places that all users share."""


class _Places:
    """``most`` places of each user."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._file = os.memfd_create("places")

    def take(self, uid: int) -> int | None:
        """Take a place for this process, until its end or :meth:`leave`; None when none is free."""
        first = uid * self._most
        for place in range(first, first + self._most):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except OSError:
                continue
            return place
        return None

    def leave(self, place: int) -> None:
        """Give a place of this process back."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    @contextmanager
    def turn(self, uid: int) -> Iterator[None]:
        """Hold the user's first place inside the block, after all other processes that want it."""
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, uid * self._most)
        try:
            yield
        finally:
            self.leave(uid * self._most)


class Shares:
    """The shares of all users."""

    def __init__(self, limits: GatewaySettings) -> None:
        self._limits = limits
        self._sessions = _Places(limits.sessions_per_user)
        self._waits = _Places(limits.waiting_per_user)
        self._listeners = _Places(limits.listeners_per_user)
        self._all_listeners = _Places(limits.listeners)
        self._looks = _Places(1)

    def enter_session(self, uid: int) -> None:
        """Count this process as a session of the user until its end; raise :class:`OarpyError` at the limit."""
        if self._sessions.take(uid) is None:
            raise OarpyError(
                f"you are attached to {self._limits.sessions_per_user} programs in jobs, and may not be to more",
                hint="end one of them (gateway.sessions_per_user)",
            )

    @contextmanager
    def wait(self, uid: int) -> Iterator[None]:
        """Count the worker among the user's waiting workers; raise :class:`Unreachable` at the limit."""
        place = self._waits.take(uid)
        if place is None:
            raise Unreachable(
                f"{self._limits.waiting_per_user} commands of yours wait already",
                hint="try again when one has ended (gateway.waiting_per_user)",
            )
        try:
            yield
        finally:
            self._waits.leave(place)

    def listen(self, uid: int) -> bool:
        """Let this process keep a connection to the database; False at the limit of the user or of all."""
        place = self._listeners.take(uid)
        if place is not None and self._all_listeners.take(_EVERYBODY) is None:
            self._listeners.leave(place)
            return False
        return place is not None

    def look(self, uid: int) -> AbstractContextManager[None]:
        """Wait for the user's turn to have a connection to the database for a moment."""
        return self._looks.turn(uid)
