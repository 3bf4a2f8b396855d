"""The project that pays for a submission, where ``submission.projects`` requires one of its user's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property

from oarpy.client.rendering import local_date
from oarpy.client.session import Session
from oarpy.model.errors import AdmissionRefused, NotFound
from oarpy.model.submission import Submission
from oarpy.model.submission_checks import short
from oarpy.store.platform import projects
from oarpy.store.platform.projects import MemberRow, ProjectRow

UNNAMED = "default"
"""The project of a submission that names none."""
_MOST_NAMED = 10


class Payers:
    """The projects and their members, read once for all submissions of a moment.

    ``required`` tells whether a submission has to name a project of its user.
    """

    def __init__(self, session: Session) -> None:
        self._connection = session.connection
        self.required = session.configuration.submission.projects == "members"
        self._of_users: dict[str, list[MemberRow]] = {}

    def of(self, user: str) -> list[MemberRow]:
        """Return the memberships of a user."""
        if user not in self._of_users:
            self._of_users[user] = projects.members(self._connection, user=user)
        return self._of_users[user]

    def line(self, name: str) -> list[ProjectRow]:
        """Return a project and those above it, upwards; nothing if the project does not exist."""
        return projects.line(self._all, name)

    @cached_property
    def _all(self) -> list[ProjectRow]:
        return projects.projects(self._connection)


def with_project(payers: Payers, submission: Submission) -> Submission:
    """Return a submission that names no project with its user's project: the only one, or the preferred one.

    Where there is neither, the rules may still name a project; :func:`check_project` looks at what they leave.
    """
    if not payers.required or submission.project != UNNAMED:
        return submission
    mine = payers.of(submission.user)
    if any(row.project == UNNAMED for row in mine):
        return submission
    chosen = mine if len(mine) == 1 else [row for row in mine if row.preferred]
    return submission.changed(project=chosen[0].project) if chosen else submission


def check_project(payers: Payers, submission: Submission) -> None:
    """Raise for a project that does not pay for jobs of the user: :class:`NotFound`, :class:`AdmissionRefused`."""
    if not payers.required:
        return
    name, mine = submission.project, payers.of(submission.user)
    if name == UNNAMED and all(row.project != UNNAMED for row in mine):
        raise AdmissionRefused(_nothing_named(submission.user, mine), hint=_yours(mine))
    line = payers.line(name)
    if not line:
        raise NotFound(f"there is no project '{short(name)}'", hint=_yours(mine))
    if all(row.project != name for row in mine):
        raise AdmissionRefused(
            f"project '{short(name)}' does not pay for jobs of '{submission.user}'", hint=_yours(mine)
        )
    for row in line:
        if row.until is not None and row.until <= datetime.now(UTC):
            since = local_date(row.until.timestamp())
            raise AdmissionRefused(f"project '{short(row.project)}' is over since {since}", hint=_yours(mine))


def _nothing_named(user: str, mine: Sequence[MemberRow]) -> str:
    return "no project is named, and several are yours" if mine else f"no project pays for jobs of '{user}'"


def _yours(mine: Sequence[MemberRow]) -> str:
    """Say which projects a user has."""
    names = [short(row.project) for row in mine]
    if not names:
        return "ask an admin or a coordinator"
    more = ", ..." if len(names) > _MOST_NAMED else ""
    return f"yours: {', '.join(names[:_MOST_NAMED])}{more}; --project names one, oarproject prefer sets the usual one"
