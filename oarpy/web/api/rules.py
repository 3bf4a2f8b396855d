"""Admission rules: for admins alone."""

from __future__ import annotations

from typing import Annotated, TypedDict

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field

from oarpy.client.rules import rules, trials
from oarpy.client.rules.rules import RuleDocument, RuleVersionDocument
from oarpy.client.rules.trials import TrialDocument
from oarpy.store.platform.admission_rules import AdmissionRuleRow
from oarpy.web.answers import Route
from oarpy.web.identity import Administering
from oarpy.web.seats import seats_of

router = APIRouter(tags=["rules"], prefix="/rules", route_class=Route)

RuleName = Annotated[str, Path(min_length=1, max_length=100)]


class WholeRuleDocument(RuleDocument):
    """A rule with its text."""

    text: str


class DeletedRuleDocument(TypedDict):
    """The rule that was removed."""

    name: str
    deleted: bool


class RuleText(BaseModel):
    """The text of a new rule."""

    text: str = Field(max_length=1_000_000)
    priority: int = Field(rules.DEFAULT_PRIORITY, ge=0, le=rules.HIGHEST_PRIORITY)
    enabled: bool = True


class RuleWish(BaseModel):
    """A change of a rule; fields that are not given stay."""

    text: str | None = Field(None, max_length=1_000_000)
    priority: int | None = Field(None, ge=0, le=rules.HIGHEST_PRIORITY)
    enabled: bool | None = None


class TrialWish(BaseModel):
    """A new text or priority to be tried on past submissions."""

    text: str | None = Field(None, max_length=1_000_000)
    priority: int | None = Field(None, ge=0, le=rules.HIGHEST_PRIORITY)
    last: int = Field(20, ge=1, le=200)


@router.get("")
def every(request: Request, identity: Administering) -> list[RuleDocument]:
    """List the rules in the order they run."""
    with seats_of(request).session(identity) as session:
        session.require_admin("list admission rules here")
        return [rules.record(row) for row in rules.all_rules(session)]


@router.get("/{name}")
def one(request: Request, identity: Administering, name: RuleName) -> WholeRuleDocument:
    """Return a rule with its text."""
    with seats_of(request).session(identity) as session:
        session.require_admin("read admission rules here")
        return _full(rules.find(session, name))


@router.get("/{name}/versions")
def versions(request: Request, identity: Administering, name: RuleName) -> list[RuleVersionDocument]:
    """Return every version of a rule, the oldest first."""
    with seats_of(request).session(identity) as session:
        session.require_admin("read admission rules here")
        return [rules.version_record(row) for row in rules.history(session, name)]


@router.put("/{name}", status_code=201)
def add(request: Request, identity: Administering, name: RuleName, rule: RuleText) -> WholeRuleDocument:
    """Add a rule."""
    with seats_of(request).session(identity, changes=True) as session:
        rules.add(session, name, rule.text, priority=rule.priority, enabled=rule.enabled)
        return _full(rules.find(session, name))


@router.patch("/{name}")
def change(request: Request, identity: Administering, name: RuleName, wish: RuleWish) -> WholeRuleDocument:
    """Change the text of a rule or its priority, enable or disable it."""
    with seats_of(request).session(identity, changes=True) as session:
        rules.change(session, name, text=wish.text, priority=wish.priority, enabled=wish.enabled)
        return _full(rules.find(session, name))


@router.delete("/{name}")
def delete(request: Request, identity: Administering, name: RuleName) -> DeletedRuleDocument:
    """Remove a rule; its versions are kept."""
    with seats_of(request).session(identity, changes=True) as session:
        rules.delete(session, name)
    return {"name": name, "deleted": True}


@router.post("/{name}/trial")
def trial(request: Request, identity: Administering, name: RuleName, wish: TrialWish) -> TrialDocument:
    """Return what a new text would change for past submissions, as ``oaradmissionrules test``; nothing is stored."""
    with seats_of(request).session(identity) as session:
        session.require_admin("try admission rules here")
        specimens = trials.recent(session, wish.last)
        return trials.compare_rule(session, name, wish.text, wish.priority, specimens).data()


def _full(row: AdmissionRuleRow) -> WholeRuleDocument:
    return {**rules.record(row), "text": row.text}
