"""The actions over the web, for admins."""

from __future__ import annotations

from typing import Annotated, TypedDict

from fastapi import APIRouter, Query, Request

from oarpy.store.platform import tokens as store
from oarpy.store.platform.tokens import ActionRow
from oarpy.web.answers import Page, Route
from oarpy.web.identity import Administering
from oarpy.web.seats import seats_of

router = APIRouter(tags=["audit"], route_class=Route)


class AuditDocument(TypedDict):
    """An action at ``at`` (epoch seconds); ``status`` is that of the answer, null when the process ended before."""

    action_id: int
    at: float
    user_name: str
    source: str
    token_id: int | None
    address: str
    method: str
    path: str
    detail: str
    status: int | None


@router.get("/audit")
def actions(
    request: Request,
    identity: Administering,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="key of a page: next of the last one")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Page[AuditDocument]:
    """Return who did what, when and from where, the newest first."""
    with seats_of(request).session(identity) as session:
        session.require_admin("read what others did")
        rows = store.actions(session.connection, before, limit + 1)
    shown = [_document(row) for row in rows[:limit]]
    return {"items": shown, "next": rows[limit - 1].action_id if len(rows) > limit else None}


def _document(row: ActionRow) -> AuditDocument:
    return {
        "action_id": row.action_id,
        "at": row.at.timestamp(),
        "user_name": row.user_name,
        "source": row.source,
        "token_id": row.token_id,
        "address": row.address,
        "method": row.method,
        "path": row.path,
        "detail": row.detail,
        "status": row.status,
    }
