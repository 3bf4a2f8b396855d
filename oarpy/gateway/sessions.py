"""How many sessions of a user go on at one time: each holds the lock of a place, freed by the kernel at its end."""

from __future__ import annotations

import fcntl
import os

from oarpy.model.errors import OarpyError


class Sessions:
    """The places of all users, one byte each in a file of no name; made before the workers that share it are forked."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places = os.memfd_create("sessions")

    def enter(self, uid: int) -> None:
        """Take a place for this process, until its end; raise :class:`OarpyError` when none is free."""
        first = uid * self._most
        for place in range(first, first + self._most):
            try:
                fcntl.lockf(self._places, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except OSError:
                continue
            return
        raise OarpyError(
            f"you are attached to {self._most} programs in jobs, and may not be to more",
            hint="end one of them (gateway.sessions_per_user)",
        )
