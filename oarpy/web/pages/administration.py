"""Pages of admins: nodes and queues, admission rules with tests and versions, quotas, the audit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from typing import cast
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.admission.rules.cases import CaseResult, parse_cases, run_cases
from oarpy.client.platform import quotas
from oarpy.client.rules import rules
from oarpy.client.rules.rules import as_rule
from oarpy.model.errors import OarpyError
from oarpy.store.pages import cells
from oarpy.store.platform import tokens
from oarpy.store.platform.admission_rules import AdmissionRuleRow
from oarpy.store.platform.queues import queues as all_queues
from oarpy.store.platform.tokens import ActionKind
from oarpy.web.identity import Administering
from oarpy.web.pages import query
from oarpy.web.pages.audit_text import action_text
from oarpy.web.pages.cluster import troubled
from oarpy.web.pages.rendering import base, page
from oarpy.web.seats import seats_of

router = APIRouter(prefix="/admin")

_PAGE = 50
_SHOWN: tuple[ActionKind, ...] = ("deeds", "logins", "all")
_TITLES = ("What was done", "Logins", "All requests")


@router.get("")
def administration(request: Request, identity: Administering) -> Response:
    """Return nodes and queues."""
    with seats_of(request).session(identity) as session:
        session.require_admin("see these pages")
        away = troubled(cells.nodes(session.connection))
        listed = all_queues(session.connection)
    return page(request, identity, "admin.html", troubled=away, queues=listed)


@router.get("/rules")
def all_rules(request: Request, identity: Administering) -> Response:
    """Return all rules in the order they run."""
    with seats_of(request).session(identity) as session:
        session.require_admin("see these pages")
        listed = [(rule, _about(rule.text)) for rule in rules.all_rules(session)]
    return page(request, identity, "rules.html", rules=listed)


@router.get("/rules/{name}")
def rule(request: Request, identity: Administering, name: str) -> Response:
    """Return one rule with its tests and versions."""
    with seats_of(request).session(identity) as session:
        session.require_admin("see these pages")
        stored = rules.find(session, name)
        versions = rules.history(session, name)[::-1]
        cases = _proved(stored)
    rows = min(40, stored.text.count("\n") + 2)
    return page(request, identity, "rule.html", rule=stored, versions=versions, cases=cases, rows=rows)


@router.get("/quotas")
def all_quotas(request: Request, identity: Administering) -> Response:
    """Return the quotas, as a table and as the text that can be changed."""
    with seats_of(request).session(identity) as session:
        session.require_admin("see these pages")
        file = quotas.stored(session)
        listed = quotas.table(file, datetime.now(UTC))
        text = quotas.text(file)
    return page(request, identity, "quotas.html", listed=listed, text=text)


@router.get("/audit")
def audit(request: Request, identity: Administering) -> Response:
    """Return the actions over the web; logins are on a list of their own."""
    before, user = query.number(request, "before"), query.text(request, "user")
    kind = cast(ActionKind, query.choice(request, "show", _SHOWN))
    with seats_of(request).session(identity) as session:
        session.require_admin("see these pages")
        rows = tokens.actions(session.connection, before, _PAGE, kind, user)

    def link(**changes: object) -> str:
        kept = {"show": kind, "user": user, **changes}
        return f"{base(request)}/admin/audit?" + urlencode({name: value for name, value in kept.items() if value})

    return page(
        request,
        identity,
        "audit.html",
        actions=[(row, action_text(row)) for row in rows],
        tabs=[(title, link(show=name), name == kind) for name, title in zip(_SHOWN, _TITLES, strict=True)],
        link=link,
        user=user,
        show=kind,
        older=link(before=rows[-1].action_id) if len(rows) == _PAGE else "",
    )


def _about(text: str) -> str:
    """Return the comment at the head of a rule."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    return " ".join(lines)[:300]


@dataclass(frozen=True, slots=True)
class Proven:
    """The results of a rule's cases, where the cases are from, and the problem that kept them from running."""

    results: tuple[CaseResult, ...] = ()
    source: str = ""
    problem: str = ""


def _proved(stored: AdmissionRuleRow) -> Proven:
    """Run the shipped test cases for a rule of this name on the stored text."""
    # NN_name.cases.toml
    folder = files("oarpy.admission_rules").iterdir()
    shipped = next((file for file in folder if file.name[3:] == f"{stored.name}.cases.toml"), None)
    if shipped is None:
        return Proven()
    try:
        results = run_cases(replace(as_rule(stored), enabled=True), parse_cases(shipped.read_text("utf-8")))
    except OarpyError as error:
        return Proven(problem=error.message)
    passed = sum(result.passed for result in results)
    return Proven(tuple(results), f"{passed} of {len(results)} shipped cases passed")
