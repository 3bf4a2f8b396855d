"""``oarproject``: the projects that pay for jobs, and their members."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Projects that pay for jobs, and their members.",
)
member_app = typer.Typer(no_args_is_help=True, help="Members of a project; for admins and coordinators.")
app.add_typer(member_app, name="member")

Json = Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(metavar="PROJECT", help="The project.")]
Users = Annotated[list[str], typer.Argument(metavar="USER...", help="Users.")]
Role = Annotated[str, typer.Option("--role", metavar="member|coordinator", help="What they are.")]
Parent = Annotated[str | None, typer.Option("--parent", metavar="PROJECT|none", help="The project that it is below.")]
Share = Annotated[str | None, typer.Option("--share", metavar="NUMBER", help="Its part among those beside it.")]
Hours = Annotated[str | None, typer.Option("--hours", metavar="NUMBER|none", help="Billing units, in hours, a period.")]
Period = Annotated[
    str | None, typer.Option("--period", metavar="week|month|quarter|year|ever", help="When the hours begin anew.")
]
Weight = Annotated[str | None, typer.Option("--weight", metavar="NUMBER", help="What its jobs are billed, times use.")]
Until = Annotated[str | None, typer.Option("--until", metavar="DATE|none", help="From when on it pays for nothing.")]
WhenSpent = Annotated[
    str | None, typer.Option("--when-spent", metavar="refuse|wait|besteffort", help="Without hours left, submissions.")
]
GivesWay = Annotated[
    str | None,
    typer.Option(
        "--gives-way",
        metavar="OTHERS,MANNER,GRACE,SIGNAL|none",
        help="Have its jobs give way to those of other projects, such as members+staff,requeue,60,TERM.",
    ),
]


@app.command("list")
def list_projects(as_json: Json = False) -> None:
    """List your projects and those below what you coordinate; for admins, all."""
    from oarpy.client.platform import projects
    from oarpy.client.session import open_session

    with open_session("oarproject") as session:
        listed = projects.listed(session)
    write(json_text([projects.listed_record(project) for project in listed]) if as_json else projects.table(listed))


@app.command("show")
def show(name: Name, as_json: Json = False) -> None:
    """Show a project and its members."""
    from oarpy.client.platform import projects
    from oarpy.client.session import open_session

    with open_session("oarproject") as session:
        project = projects.shown(session, name)
    write(json_text(projects.shown_record(*project)) if as_json else projects.shown_text(*project))


@app.command("create")
def create(
    name: Name,
    parent: Parent = None,
    share: Share = None,
    hours: Hours = None,
    period: Period = None,
    weight: Weight = None,
    until: Until = None,
    when_spent: WhenSpent = None,
    gives_way: GivesWay = None,
    as_json: Json = False,
) -> None:
    """Make a project; for admins."""
    from oarpy.client.platform import projects
    from oarpy.client.session import open_session

    wanted = projects.ProjectChange(parent, share, hours, period, weight, until, when_spent, gives_way)
    with open_session("oarproject") as session:
        project = projects.create(session, name, wanted)
    if as_json:
        write(json_text(projects.record(project)))


@app.command("change")
def change(
    name: Name,
    parent: Parent = None,
    share: Share = None,
    hours: Hours = None,
    period: Period = None,
    weight: Weight = None,
    until: Until = None,
    when_spent: WhenSpent = None,
    gives_way: GivesWay = None,
    as_json: Json = False,
) -> None:
    """Change a project; for admins. Coordinators change the share of projects below theirs."""
    from oarpy.client.platform import projects
    from oarpy.client.session import open_session

    wanted = projects.ProjectChange(parent, share, hours, period, weight, until, when_spent, gives_way)
    with open_session("oarproject") as session:
        changed = projects.change(session, name, wanted)
    if as_json:
        write(json_text(projects.record(changed)))


@app.command("remove")
def remove(name: Name) -> None:
    """Remove a project that has none below it, and no job that is not over; for admins."""
    from oarpy.client.platform import projects
    from oarpy.client.session import open_session

    with open_session("oarproject") as session:
        projects.remove(session, name)


@app.command("prefer")
def prefer(name: Name) -> None:
    """Let your jobs that name no project be for this one."""
    from oarpy.client.platform import projects
    from oarpy.client.session import open_session

    with open_session("oarproject") as session:
        projects.prefer(session, name)


@app.command("seed")
def seed(as_json: Json = False) -> None:
    """Make the projects that jobs have named so far, with their users as members; for admins."""
    from oarpy.client.platform import projects
    from oarpy.client.session import open_session

    with open_session("oarproject") as session:
        seeded = projects.seed(session)
    write(json_text(projects.seeded_record(seeded)) if as_json else projects.seeded_text(seeded))


@app.command("sync")
def sync(
    pairs: Annotated[
        list[str] | None, typer.Argument(metavar="[PROJECT[=GROUP]...]", help="Those alone; else all projects.")
    ] = None,
    from_groups: Annotated[
        bool, typer.Option("--from-groups", help="From the groups of the system, which LDAP may have.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change.")] = False,
    as_json: Json = False,
) -> None:
    """Make the members of projects those of the groups of the same names; for admins. Coordinators stay."""
    from oarpy.client.platform import projects
    from oarpy.client.session import open_session
    from oarpy.model.errors import UsageError

    if not from_groups:
        raise UsageError("from where?", hint="oarproject sync --from-groups")
    with open_session("oarproject") as session:
        changes = projects.sync(session, pairs or [], dry_run=dry_run)
    write(json_text([projects.sync_record(synced) for synced in changes]) if as_json else projects.sync_text(changes))


@app.command("report")
def report(
    names: Annotated[list[str] | None, typer.Argument(metavar="[PROJECT...]", help="Those alone; else yours.")] = None,
    month: Annotated[
        str | None, typer.Option("--month", metavar="YYYY-MM", help="The month, in UTC; else the last one.")
    ] = None,
    by_mail: Annotated[
        bool, typer.Option("--mail", help="Mail each to the coordinators of its project; for admins.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Report what projects and those below them used in a month."""
    from oarpy.client.analytics import project_report
    from oarpy.client.session import open_session

    with open_session("oarproject") as session:
        reports = project_report.reports(session, names or [], month)
        mailed = project_report.mail(session, reports) if by_mail else ""
    if as_json:
        write(json_text([report.data() for report in reports]))
    else:
        write(mailed if by_mail else "\n".join(report.text() for report in reports))


@member_app.command("add")
def member_add(name: Name, users: Users, role: Role = "member") -> None:
    """Add members."""
    from oarpy.client.platform import projects
    from oarpy.client.session import open_session

    with open_session("oarproject") as session:
        projects.add_members(session, name, users, role)


@member_app.command("remove")
def member_remove(name: Name, users: Users) -> None:
    """Remove members; their jobs stay."""
    from oarpy.client.platform import projects
    from oarpy.client.session import open_session

    with open_session("oarproject") as session:
        projects.remove_members(session, name, users)


@member_app.command("role")
def member_role(
    name: Name,
    user: Annotated[str, typer.Argument(metavar="USER", help="The member.")],
    role: Annotated[str, typer.Argument(metavar="member|coordinator", help="What he becomes.")],
) -> None:
    """Make a member a coordinator, or the reverse."""
    from oarpy.client.platform import projects
    from oarpy.client.session import open_session

    with open_session("oarproject") as session:
        projects.set_role(session, name, user, role)


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarproject")
