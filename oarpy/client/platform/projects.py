"""``oarproject``: the projects that pay for jobs, their members, and the rights to change them."""

from __future__ import annotations

import grp
import pwd
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, TypedDict

from oarpy.client.past.periods import parse_date
from oarpy.client.platform import queues
from oarpy.client.platform.queues import giving_way_text, read_giving_way
from oarpy.client.rendering import Column, Table, local_date
from oarpy.client.session import Session
from oarpy.model.errors import NotAllowed, NotFound, OarpyError, UsageError
from oarpy.model.submission_checks import check_project, short
from oarpy.scheduler.levels import depths
from oarpy.store.histories import sign
from oarpy.store.platform import projects
from oarpy.store.platform.projects import MemberRow, ProjectRow, UseRow
from oarpy.store.platform.queues import Manner

ROLES = ("member", "coordinator")
PERIODS = ("week", "month", "quarter", "year", "ever")
WHEN_SPENT = ("refuse", "wait", "besteffort")
NONE = queues.NONE
"""The word for no parent, no limit of hours, no end, and nobody to give way to."""
_LARGEST = 1e12
_LOGIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*\$?(@[A-Za-z0-9.-]+)?", re.ASCII)
"""What the system may call a user; directories put a domain behind."""
_LONGEST_LOGIN = 255
_NEW = ProjectRow("", None, 1.0, None, "ever", 1.0, None, "refuse")
_BY_COORDINATORS = frozenset({"share"})
"""The fields that coordinators may change in projects below theirs."""


@dataclass(frozen=True, slots=True)
class ProjectChange:
    """The typed changes of a project; None leaves a field as it is."""

    parent: str | None = None
    share: str | None = None
    hours: str | None = None
    period: str | None = None
    weight: str | None = None
    until: str | None = None
    when_spent: str | None = None
    gives_way: str | None = None

    def given(self) -> dict[str, str]:
        """Return the typed texts, by field."""
        texts = {name: getattr(self, name) for name in self.__slots__}
        return {name: text for name, text in texts.items() if text is not None}

    def of(self, row: ProjectRow) -> ProjectRow:
        """Return the changed ``row``. Raises :class:`UsageError`."""
        given = self.given()
        if (text := given.pop("gives_way", None)) is not None:
            way = read_giving_way(text)
            row = replace(row, gives_way_to=way.others, manner=way.manner, grace=way.grace, grace_signal=way.signal)
        return replace(row, **{name: _READERS[name](name, text) for name, text in given.items()})


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not (isfinite(number) and 0 <= number <= _LARGEST):
        raise UsageError(f"--{name} {short(text)} is not a number from 0 on", hint=f"for example --{name} 2")
    return number


def _maybe_number(name: str, text: str) -> float | None:
    return None if text == NONE else _number(name, text)


def _one_of(words: Sequence[str], name: str, text: str) -> str:
    if text not in words:
        raise UsageError(f"--{name.replace('_', '-')} {short(text)} is not one of {', '.join(words)}")
    return text


_READERS: Mapping[str, Any] = {
    "parent": lambda name, text: None if text == NONE else text,
    "share": _number,
    "hours": _maybe_number,
    "period": lambda name, text: _one_of(PERIODS, name, text),
    "weight": _number,
    "until": lambda name, text: None if text == NONE else parse_date(text).astimezone(),
    "when_spent": lambda name, text: _one_of(WHEN_SPENT, name, text),
}


def create(session: Session, name: str, change: ProjectChange) -> ProjectRow:
    """Make a project. Only an admin may. Raises :class:`UsageError`, :class:`OarpyError` if it exists."""
    session.require_admin("make projects")
    check_project(name)
    if name == NONE or set(name) & set("+,"):
        raise UsageError(
            f"a project cannot be called '{short(name)}'",
            hint=f"--gives-way and --parent could not name it: no + , {NONE}",
        )
    project = change.of(replace(_NEW, project=name))
    with session.connection.transaction():
        projects.lock(session.connection)
        known = projects.projects(session.connection)
        if any(row.project == name for row in known):
            raise OarpyError(f"project '{short(name)}' exists already", hint=f"oarproject change {short(name)}")
        _check_parent(project, known)
        _check_giving_way(project, known)
        sign(session.connection, session.user)
        projects.add(session.connection, project)
    return project


def change(session: Session, name: str, wanted: ProjectChange) -> ProjectRow:
    """Change a project: admins change anything, coordinators shares of projects below. Raises as :func:`create`."""
    if not wanted.given():
        raise UsageError("nothing to change", hint="for example --hours 1000 --period month")
    with session.connection.transaction():
        projects.lock(session.connection)
        known = projects.projects(session.connection)
        before = _find(known, name)
        if not wanted.given().keys() <= _BY_COORDINATORS:
            session.require_admin("change more of a project than its share")
        elif not (session.is_admin or _coordinates(session, known, before.parent)):
            raise _not_allowed(session, f"change the share of project '{short(name)}'", "above it")
        after = wanted.of(before)
        _check_parent(after, known)
        if wanted.given().keys() & {"gives_way", "parent"}:
            _check_giving_way(after, known)
        sign(session.connection, session.user)
        projects.change(session.connection, after)
    return after


def remove(session: Session, name: str) -> None:
    """Remove a project without jobs that are not over, and without others below it. Only an admin may."""
    session.require_admin("remove projects")
    with session.connection.transaction():
        projects.lock(session.connection)
        known = projects.projects(session.connection)
        _find(known, name)
        if below := [row.project for row in known if row.parent == name]:
            raise OarpyError(f"project '{short(below[0])}' is below '{short(name)}'", hint="move or remove it first")
        if giving := [row.project for row in known if name in row.gives_way_to]:
            raise OarpyError(
                f"project '{short(giving[0])}' gives way to '{short(name)}'",
                hint=f"oarproject change {short(giving[0])} --gives-way {NONE}",
            )
        if (job := projects.live_job(session.connection, name)) is not None:
            raise OarpyError(f"project '{short(name)}' pays for job {job}", hint="wait for its end, or oardel it")
        sign(session.connection, session.user)
        projects.remove(session.connection, name)


def add_members(session: Session, name: str, users: Sequence[str], role: str) -> None:
    """Add members, all or none. Admins and coordinators may. Raises :class:`OarpyError` for a member."""
    _one_of(ROLES, "role", role)
    if wrong := [user for user in users if not _is_login(user)]:
        raise UsageError(
            f"{short(wrong[0])!a} is no name of a user", hint=f"letters, digits, _ . - and at most {_LONGEST_LOGIN}"
        )
    _require_coordinator(session, name)
    with session.connection.transaction():
        sign(session.connection, session.user)
        added = projects.add_members(session.connection, name, users, role)
        if there := [user for user in users if user not in added]:
            raise OarpyError(f"'{short(there[0])}' is a member of project '{short(name)}' already")


def remove_members(session: Session, name: str, users: Sequence[str]) -> None:
    """Remove members, all or none. Admins and coordinators may. Raises :class:`NotFound`."""
    _require_coordinator(session, name)
    with session.connection.transaction():
        sign(session.connection, session.user)
        removed = projects.remove_members(session.connection, name, users)
        if missing := [user for user in users if user not in removed]:
            raise _no_member(missing[0], name)


def set_role(session: Session, name: str, user: str, role: str) -> None:
    """Make a member a coordinator, or the reverse. Admins and coordinators may. Raises :class:`NotFound`."""
    _one_of(ROLES, "role", role)
    _require_coordinator(session, name)
    with session.connection.transaction():
        sign(session.connection, session.user)
        if not projects.set_role(session.connection, name, user, role):
            raise _no_member(user, name)


def prefer(session: Session, name: str) -> None:
    """Let the caller's jobs that name no project be for this one. Raises :class:`NotFound`."""
    with session.connection.transaction():
        _find(projects.projects(session.connection), name)
        sign(session.connection, session.user)
        if not projects.prefer(session.connection, name, session.user):
            raise _no_member(session.user, name)


@dataclass(frozen=True, slots=True)
class Seeded:
    """The numbers of projects and members made from names in jobs; ``left_out``: users whose names do not fit."""

    projects: int
    members: int
    left_out: tuple[str, ...]


def seed(session: Session) -> Seeded:
    """Make the projects that jobs have named so far, with their users. Only an admin may."""
    session.require_admin("make projects")
    with session.connection.transaction():
        sign(session.connection, session.user)
        used = projects.used(session.connection)
        members = [(project, user) for project, user in used if _is_login(user)]
        counts = projects.seed(session.connection, [project for project, _ in used], members)
    return Seeded(*counts, _left_out(user for _, user in used))


def _is_login(user: str) -> bool:
    """Tell whether a member may be called so."""
    return len(user) <= _LONGEST_LOGIN and _LOGIN.fullmatch(user) is not None


def _left_out(users: Iterable[str]) -> tuple[str, ...]:
    """Return the names that no member may have."""
    return tuple(sorted({user for user in users if not _is_login(user)}))


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The changes of the members of a project by a group of the system; names that no member has are ``left_out``."""

    project: str
    group: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    left_out: tuple[str, ...]


def sync(session: Session, pairs: Sequence[str], *, dry_run: bool = False) -> list[GroupChange]:
    """Make the members of projects those of the groups of the same names, or of ``PROJECT=GROUP``. Only an admin may.

    A project without such a group stays as it is, and coordinators stay. Raises :class:`NotFound`, also for a group
    that was named and is not there.
    """
    session.require_admin("make members of groups")
    with session.connection.transaction():
        known = projects.projects(session.connection)
        wanted = [text.partition("=")[::2] for text in pairs] or [(row.project, "") for row in known]
        for name, _ in wanted:
            _find(known, name)
        sign(session.connection, session.user)
        changes = [_synced(session, name, group or name, named=bool(pairs), dry_run=dry_run) for name, group in wanted]
    return [synced for synced in changes if synced is not None]


def _synced(session: Session, name: str, group: str, *, named: bool, dry_run: bool) -> GroupChange | None:
    try:
        entry = grp.getgrnam(group)
    except KeyError:
        if named:
            raise NotFound(f"the system has no group '{short(group)}'", hint="getent group lists them") from None
        return None
    users = {*entry.gr_mem, *(account.pw_name for account in pwd.getpwall() if account.pw_gid == entry.gr_gid)}
    present = projects.members(session.connection, project=name)
    # a directory need not list its accounts, but it tells the group of each
    users |= {row.user_name for row in present if _is_primary_group(row.user_name, entry.gr_gid)}
    left_out = _left_out(users)
    added = tuple(sorted(users - {*left_out, *(row.user_name for row in present)}))
    removed = tuple(row.user_name for row in present if row.user_name not in users and row.role == "member")
    if not dry_run:
        projects.add_members(session.connection, name, added, "member")
        projects.remove_members(session.connection, name, removed)
    return GroupChange(name, group, added, removed, left_out)


def _is_primary_group(user: str, group: int) -> bool:
    try:
        return pwd.getpwnam(user).pw_gid == group
    except KeyError:
        return False


@dataclass(frozen=True, slots=True)
class ListedProject:
    """A project, and the use of its hours."""

    row: ProjectRow
    use: UseRow


def listed(session: Session) -> list[ListedProject]:
    """Return the projects that the caller may see, with the use of their hours."""
    uses = projects.uses(session.connection)
    return [ListedProject(row, uses[row.project]) for row in seen(session)]


def seen(session: Session) -> list[ProjectRow]:
    """Return the projects that the caller may see: all for an admin, else own ones and those below coordinated ones."""
    known = projects.projects(session.connection)
    if session.is_admin:
        return known
    mine = {row.project: row.role for row in projects.members(session.connection, user=session.user)}
    above = {name for name, role in mine.items() if role == "coordinator"}
    return [
        row
        for row in known
        if row.project in mine or above & {ancestor.project for ancestor in _line(known, row.project)}
    ]


def shown(session: Session, name: str) -> tuple[ListedProject, list[MemberRow]]:
    """Return a project with its members. Raises :class:`NotFound`, also for one that the caller may not see."""
    (project,) = shown_each(session, [name])
    return project


def shown_each(session: Session, names: Sequence[str]) -> list[tuple[ListedProject, list[MemberRow]]]:
    """Return projects with their members, without names all that the caller may see; errors as :func:`shown`."""
    known = seen(session)
    rows = [_find(known, name) for name in names] or known
    uses = projects.uses(session.connection)
    return [
        (ListedProject(row, uses[row.project]), projects.members(session.connection, project=row.project))
        for row in rows
    ]


def coordinates(session: Session, name: str) -> bool:
    """Tell whether the caller may change the members of a project."""
    return session.is_admin or _coordinates(session, projects.projects(session.connection), name)


def _require_coordinator(session: Session, name: str) -> None:
    """Raise unless the caller may change the members of a project."""
    _find(projects.projects(session.connection), name)
    if not coordinates(session, name):
        raise _not_allowed(session, f"change the members of project '{short(name)}'", "of it, or above it")


def _coordinates(session: Session, known: Sequence[ProjectRow], name: str | None) -> bool:
    """Tell whether the caller coordinates a project or a project above it."""
    mine = projects.members(session.connection, user=session.user)
    above = {row.project for row in mine if row.role == "coordinator"}
    return name is not None and bool(above & {row.project for row in _line(known, name)})


def _line(known: Sequence[ProjectRow], name: str) -> list[ProjectRow]:
    return projects.line(known, name)


def _find(known: Sequence[ProjectRow], name: str) -> ProjectRow:
    project = next((row for row in known if row.project == name), None)
    if project is None:
        raise NotFound(f"there is no project '{short(name)}'", hint="oarproject list shows yours")
    return project


def _check_parent(row: ProjectRow, known: Sequence[ProjectRow]) -> None:
    if row.parent is None:
        return
    _find(known, row.parent)
    if any(ancestor.project == row.project for ancestor in _line(known, row.parent)):
        raise OarpyError(
            f"project '{short(row.project)}' would be below itself", hint=f"'{short(row.parent)}' is below it"
        )


def _check_giving_way(row: ProjectRow, known: Sequence[ProjectRow]) -> None:
    """Raise unless ``row`` gives way to projects that are there, and not to itself (:class:`UsageError`)."""
    for name in row.gives_way_to:
        if all(other.project != name for other in known):
            raise NotFound(
                f"there is no project '{short(name)}'", hint="+ is between projects, and a comma behind them"
            )
    all_rows = {**{other.project: other for other in known}, row.project: row}
    naming = {name: other.gives_way_to for name, other in all_rows.items() if other.gives_way_to}
    levels = depths(naming, {name: other.parent for name, other in all_rows.items() if other.parent})
    if naming and (row.parent or row.gives_way_to) and row.project not in levels:
        raise UsageError(
            f"project '{short(row.project)}' would give way to itself, through others or what is above or below it",
            hint="oarproject show tells who gives way",
        )


def _no_member(user: str, name: str) -> NotFound:
    return NotFound(f"'{short(user)}' is no member of project '{short(name)}'", hint=f"oarproject show {short(name)}")


def _not_allowed(session: Session, action: str, where: str) -> NotAllowed:
    return NotAllowed(f"'{session.user}' may not {action}", hint=f"an admin or a coordinator {where} may")


class MemberDocument(TypedDict):
    """A member; the member's jobs that name no project are for the ``preferred`` project."""

    user: str
    role: str
    preferred: bool


class ProjectDocument(TypedDict):
    """A project; ``until`` in epoch seconds, null for no end, no parent and no limit of ``hours``."""

    project: str
    parent: str | None
    share: float
    hours: float | None
    period: str
    weight: float
    until: int | None
    when_spent: str
    gives_way_to: Sequence[str]
    manner: Manner
    grace: int
    grace_signal: int


class ListedDocument(ProjectDocument):
    """A project with the use of its hours; ``spent_at`` (epoch seconds) is null if no end of them is foreseen."""

    used_hours: float
    held_hours: float
    asked_hours: float
    left_hours: float | None
    spent_at: int | None


class ShownDocument(ListedDocument):
    """A project with its members."""

    members: Sequence[MemberDocument]


def record(row: ProjectRow) -> ProjectDocument:
    """Return a project as JSON."""
    return {
        "project": row.project,
        "parent": row.parent,
        "share": row.share,
        "hours": row.hours,
        "period": row.period,
        "weight": row.weight,
        "until": None if row.until is None else int(row.until.timestamp()),
        "when_spent": row.when_spent,
        "gives_way_to": row.gives_way_to,
        "manner": row.manner,
        "grace": row.grace,
        "grace_signal": row.grace_signal,
    }


def listed_record(listed: ListedProject) -> ListedDocument:
    """Return a project with the use of its hours as JSON."""
    use = listed.use
    return {
        **record(listed.row),
        "used_hours": use.used_hours,
        "held_hours": use.held_hours,
        "asked_hours": use.asked_hours,
        "left_hours": use.left_hours,
        "spent_at": None if use.spent_at is None else int(use.spent_at),
    }


def shown_record(project: ListedProject, members: Sequence[MemberRow]) -> ShownDocument:
    """Return a project with its members as JSON."""
    listed: list[MemberDocument] = [
        {"user": member.user_name, "role": member.role, "preferred": member.preferred} for member in members
    ]
    return {**listed_record(project), "members": listed}


def table(rows: Sequence[ListedProject]) -> str:
    """Return a line a project."""
    titles = ("Project", "Parent", "Share", "Hours", "Period", "Used", "Held", "Asked", "Left", "Spent at", "Until")
    return Table(tuple(map(Column, titles)), tuple(map(_cells, rows))).text()


def shown_text(project: ListedProject, members: Sequence[MemberRow]) -> str:
    """Return a project, how its jobs are billed, and a line a member."""
    row = project.row
    columns = (Column("Member"), Column("Role"), Column("Preferred"))
    rows = tuple((member.user_name, member.role, "yes" if member.preferred else "") for member in members)
    billing = f"Jobs are billed {row.weight:g} times what they hold; without hours left: {row.when_spent}.\n"
    giving = f"The project {giving_way_text(row)}.\n" if row.gives_way_to else ""
    return f"{table([project])}{billing}{giving}\n{Table(columns, rows).text()}"


class SeededDocument(TypedDict):
    """The numbers of projects and members made from the names that jobs had, and the users left out."""

    projects: int
    members: int
    left_out: Sequence[str]


def seeded_record(seeded: Seeded) -> SeededDocument:
    """Return the projects and members made from the names that jobs had, as JSON."""
    return {"projects": seeded.projects, "members": seeded.members, "left_out": seeded.left_out}


def seeded_text(seeded: Seeded) -> str:
    """Return it in a line, and a line of users that were left out, if there are some."""
    lines = [f"{seeded.projects} projects and {seeded.members} members made"]
    if seeded.left_out:
        lines.append(
            f"left out, as no member is called so: {', '.join(ascii(short(user)) for user in seeded.left_out)}"
        )
    return "\n".join(lines) + "\n"


class GroupChangeDocument(TypedDict):
    """The changes of the members of a project by a group."""

    project: str
    group: str
    added: Sequence[str]
    removed: Sequence[str]
    left_out: Sequence[str]


def sync_record(change: GroupChange) -> GroupChangeDocument:
    """Return the changes of the members of a project as JSON."""
    return {
        "project": change.project,
        "group": change.group,
        "added": change.added,
        "removed": change.removed,
        "left_out": change.left_out,
    }


def sync_text(changes: Sequence[GroupChange]) -> str:
    """Return a line a project."""
    columns = (Column("Project"), Column("Group"), Column("Added"), Column("Removed"), Column("Left out"))
    rows = tuple((row.project, row.group, *map(" ".join, (row.added, row.removed, row.left_out))) for row in changes)
    return Table(columns, rows).text()


def _cells(project: ListedProject) -> tuple[str, ...]:
    row, use = project.row, project.use
    until = "-" if row.until is None else local_date(row.until.timestamp())
    return (
        row.project,
        row.parent or "-",
        f"{row.share:g}",
        _hours(row.hours),
        row.period,
        *map(_hours, (use.used_hours, use.held_hours, use.asked_hours, use.left_hours)),
        "-" if use.spent_at is None else local_date(use.spent_at),
        until,
    )


def _hours(hours: float | None) -> str:
    return "-" if hours is None else f"{hours:.1f}".removesuffix(".0")
