"""``oarproject report``: what projects used in a month, printed or mailed to their coordinators."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from oarpy.client.analytics import report
from oarpy.client.past.past_months import month_after, parse_month
from oarpy.client.platform import projects
from oarpy.client.platform.projects import ListedProject
from oarpy.client.rendering import JsonValue
from oarpy.client.session import Session
from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.submission_checks import short
from oarpy.modules.notifier.mail import Failure, Letter, send
from oarpy.store.analytics.report_rows import ReportTable
from oarpy.store.platform.projects import MemberRow


@dataclass(frozen=True, slots=True)
class ProjectReport:
    """The tables of a project and of those below it for the days from ``begin`` on, and what it has left now."""

    project: ListedProject
    members: Sequence[MemberRow]
    begin: date
    tables: Mapping[str, ReportTable]

    @property
    def name(self) -> str:
        """The name of the project."""
        return self.project.row.project

    @property
    def coordinators(self) -> list[str]:
        """The users who get it."""
        return [member.user_name for member in self.members if member.role == "coordinator"]

    def text(self) -> str:
        """Return it as text."""
        used = report.text(self.tables) or "No job of it used anything.\n"
        return f"Project {self.name} in {self.begin:%Y-%m} (UTC)\n\n{used}\nToday\n\n{projects.table([self.project])}"

    def data(self) -> JsonValue:
        """Return it as JSON."""
        return {"project": self.name, "month": f"{self.begin:%Y-%m}", "tables": report.document(self.tables)}


def reports(session: Session, names: Sequence[str], month: str | None) -> list[ProjectReport]:
    """Return the reports of projects that the caller may see, without names of all, for a month; None: the last one.

    Raises :class:`NotFound` for another project, :class:`UsageError` for what is no month, or is to come.
    """
    begin = _last_month() if month is None else parse_month(month)
    if begin > datetime.now(UTC).date():
        raise UsageError(f"month {begin:%Y-%m} is to come", hint="reports tell what was used")
    end = month_after(begin)
    return [
        ProjectReport(project, members, begin, report.tables(session.connection, begin, end, project.row.project))
        for project, members in projects.shown_each(session, names)
    ]


def mail(session: Session, mailed: Sequence[ProjectReport]) -> str:
    """Mail each report to the coordinators of its project; return a line a project. Only an admin may.

    Raises :class:`OarpyError` with the projects of the mails that were not taken; the others are sent.
    """
    session.require_admin("mail reports")
    settings = session.configuration.mail
    if not settings.server:
        raise UsageError("no mail server is configured", hint="mail.server in the configuration file")
    cluster, host = settings.cluster_name or socket.gethostname(), settings.domain
    addressed = [
        (project.name, _letter(project, user, host, cluster)) for project in mailed for user in project.coordinators
    ]
    failures: dict[int, Failure] = {}

    def note(place: int, failure: Failure | None) -> None:
        if failure is not None:
            failures[place] = failure

    if addressed:
        send([letter for _, letter in addressed], settings, note)
    if failures:
        place, failure = next(iter(failures.items()))
        projects_left = dict.fromkeys(short(addressed[place][0]) for place in failures)
        raise OarpyError(
            f"{len(failures)} of {len(addressed)} mails were not sent, of projects {', '.join(projects_left)};"
            f" the first to {short(addressed[place][1].recipient)}: {failure.reason}",
            hint="name these projects to send their reports again, and no other twice",
        )
    return "".join(
        f"{short(project.name)}: {', '.join(project.coordinators) or 'no coordinator'}\n" for project in mailed
    )


def _letter(project: ProjectReport, user: str, domain: str, cluster: str) -> Letter:
    address = f"{user}@{domain}" if domain and "@" not in user else user
    number = hashlib.sha256(f"{cluster} {project.name} {address}".encode()).hexdigest()[:16]
    month = f"{project.begin:%Y-%m}"
    subject = f"Project {project.name} on {cluster} in {month}"
    return Letter(f"report-{month}.{number}", address, subject, project.text(), datetime.now(UTC).timestamp())


def _last_month() -> date:
    today = datetime.now(UTC).date()
    return (today.replace(day=1) - timedelta(days=1)).replace(day=1)
