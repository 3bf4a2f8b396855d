"""The error hierarchy: every expected failure is an :class:`OarpyError` with a code, a hint and an exit status."""

from __future__ import annotations


class OarpyError(Exception):
    """An error that the caller can act on. ``str(error)`` is one line: what, which value, what to do.

    ``code`` is a stable word for programs, ``exit_status`` the exit status of a command.
    """

    code: str = "failed"
    exit_status: int = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.message} ({self.hint})" if self.hint else self.message
        return " ".join(text.split())


class UsageError(OarpyError):
    """The request itself is malformed: an option, a resource request, a filter, a date."""

    code = "usage"
    exit_status = 2


class AdmissionRefused(OarpyError):
    """An admission rule refused the submission, or the request can never be served."""

    code = "refused"
    exit_status = 3


class NotFound(OarpyError):
    """No such job, queue, node, property or rule."""

    code = "not_found"
    exit_status = 4


class NotAllowed(OarpyError):
    """The caller may not do this."""

    code = "not_allowed"
    exit_status = 5


class Unreachable(OarpyError):
    """The server or the database cannot be reached."""

    code = "unreachable"
    exit_status = 6
