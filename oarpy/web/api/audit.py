"""What was done over the web: for admins."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from oarpy.store.platform import tokens as store
from oarpy.web.identity import Administering
from oarpy.web.seats import seats_of

router = APIRouter(tags=["audit"])


@router.get("/audit")
def actions(
    request: Request,
    identity: Administering,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="key of a page: next of the last one")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Return who did what, when and from where, the newest first."""
    with seats_of(request).session(identity) as session:
        session.require_admin("read what others did")
        found = store.actions(session.connection, before, limit + 1)
    shown = [{**asdict(row), "at": row.at.timestamp()} for row in found[:limit]]
    return {"items": shown, "next": found[limit - 1].action_id if len(found) > limit else None}
