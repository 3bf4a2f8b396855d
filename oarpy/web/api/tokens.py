"""Tokens of the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from fastapi import APIRouter, Path, Query, Request

from oarpy.client.platform import tokens
from oarpy.client.platform.tokens import TokenDocument
from oarpy.web.answers import Route
from oarpy.web.identity import Reader, Submitting
from oarpy.web.seats import seats_of

router = APIRouter(tags=["tokens"], prefix="/tokens", route_class=Route)


class RevokedDocument(TypedDict):
    """The tokens that were ended."""

    revoked: Sequence[int]


@router.get("")
def own(
    request: Request, identity: Reader, everybody: Annotated[bool, Query(description="for admins")] = False
) -> list[TokenDocument]:
    """List the caller's tokens without their secrets. Tokens are made by ``oartoken new``, not here."""
    with seats_of(request).session(identity) as session:
        return [tokens.record(row) for row in tokens.listed(session, everybody=everybody)]


@router.delete("/{token_id}")
def revoke(
    request: Request, identity: Submitting, token_id: Annotated[int, Path(ge=1, le=2**63 - 1)]
) -> RevokedDocument:
    """End a token, and what browsers logged in with it."""
    with seats_of(request).session(identity, changes=True) as session:
        return {"revoked": tokens.revoke(session, [token_id])}
