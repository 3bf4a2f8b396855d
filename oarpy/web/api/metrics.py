"""``/metrics``: figures for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from oarpy.client.health.exposition import CONTENT_TYPE
from oarpy.client.health.metrics import metrics_text
from oarpy.web.answers import Route
from oarpy.web.identity import Reader
from oarpy.web.seats import seats_of

router = APIRouter(tags=["service"], route_class=Route)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(request: Request, identity: Reader) -> Response:
    """Return all figures in the text format of Prometheus."""
    with seats_of(request).session(identity) as session:
        return Response(metrics_text(session.connection, session.configuration), media_type=CONTENT_TYPE)
