"""Projects that pay for jobs: seen by their members, changed by coordinators and admins."""

from __future__ import annotations

from typing import Annotated, TypedDict

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field

from oarpy.client.platform import projects
from oarpy.client.platform.projects import ListedDocument, ProjectChange, ProjectDocument, ShownDocument
from oarpy.web.answers import Route
from oarpy.web.identity import Administering, Reader, Submitting
from oarpy.web.seats import seats_of

router = APIRouter(tags=["projects"], route_class=Route)

Name = Annotated[str, Path(min_length=1, max_length=200)]
User = Annotated[str, Path(min_length=1, max_length=255)]


class ProjectWish(BaseModel):
    """A change of a project; fields that are not given stay, and null is no parent, no limit and no end."""

    parent: str | None = Field(None, max_length=200)
    share: float | None = Field(None, ge=0, le=1e12)
    hours: float | None = Field(None, ge=0, le=1e12, description="billing units, in hours, of each period")
    period: str | None = Field(None, max_length=10, description="week, month, quarter, year or ever")
    weight: float | None = Field(None, ge=0, le=1e12)
    until: str | None = Field(None, max_length=60)
    when_spent: str | None = Field(None, max_length=10, description="refuse, wait or besteffort")
    gives_way: str | None = Field(None, max_length=1000, description="as oarproject has it; null: to nobody")

    def change(self) -> ProjectChange:
        """Return it as it would be typed."""
        given = {name: getattr(self, name) for name in self.model_fields_set if name in ProjectChange.__slots__}
        return ProjectChange(**{name: projects.NONE if value is None else str(value) for name, value in given.items()})


class NewProject(ProjectWish):
    """A project that is to be made."""

    project: str = Field(max_length=200)


class RoleWish(BaseModel):
    """The role that a user gets in a project."""

    role: str = Field("member", max_length=20, description="member or coordinator")


class RemovedDocument(TypedDict):
    """The project that is gone."""

    removed: str


@router.get("/projects")
def listed(request: Request, identity: Reader) -> list[ListedDocument]:
    """List your projects and those below what you coordinate, for admins all, as ``oarproject list -J``."""
    with seats_of(request).session(identity) as session:
        return [projects.listed_record(project) for project in projects.listed(session)]


@router.get("/projects/{name}")
def shown(request: Request, identity: Reader, name: Name) -> ShownDocument:
    """Return a project with its members, as ``oarproject show -J``."""
    with seats_of(request).session(identity) as session:
        return projects.shown_record(*projects.shown(session, name))


@router.post("/projects", status_code=201)
def create(request: Request, identity: Administering, wish: NewProject) -> ProjectDocument:
    """Make a project, as ``oarproject create``."""
    with seats_of(request).session(identity, changes=True) as session:
        return projects.record(projects.create(session, wish.project, wish.change()))


@router.patch("/projects/{name}")
def change(request: Request, identity: Submitting, name: Name, wish: ProjectWish) -> ProjectDocument:
    """Change a project, as ``oarproject change``: coordinators the share of one below theirs."""
    with seats_of(request).session(identity, changes=True) as session:
        return projects.record(projects.change(session, name, wish.change()))


@router.delete("/projects/{name}")
def remove(request: Request, identity: Administering, name: Name) -> RemovedDocument:
    """Remove a project, as ``oarproject remove``."""
    with seats_of(request).session(identity, changes=True) as session:
        projects.remove(session, name)
    return {"removed": name}


@router.put("/projects/{name}/members/{user}")
def set_member(request: Request, identity: Submitting, name: Name, user: User, wish: RoleWish) -> ShownDocument:
    """Make a user a member or a coordinator of a project, whatever the user was before."""
    with seats_of(request).session(identity, changes=True) as session:
        present = projects.shown(session, name)[1]
        if any(member.user_name == user for member in present):
            projects.set_role(session, name, user, wish.role)
        else:
            projects.add_members(session, name, [user], wish.role)
        return projects.shown_record(*projects.shown(session, name))


@router.delete("/projects/{name}/members/{user}")
def remove_member(request: Request, identity: Submitting, name: Name, user: User) -> ShownDocument:
    """Remove a member, as ``oarproject member remove``."""
    with seats_of(request).session(identity, changes=True) as session:
        projects.remove_members(session, name, [user])
        return projects.shown_record(*projects.shown(session, name))
