"""REST for people: every operation with its effect and parameters, as ``/openapi.json`` describes it to programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.web.pages.rendering import page

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Operation:
    """A method on a path: the group that it belongs to, its effect, the names of its parameters."""

    group: str
    method: str
    path: str
    description: str
    parameters: str


@router.get("/docs")
def operations(request: Request) -> Response:
    """Return the page, to anybody: it is about no job and no user."""
    listed = sorted(
        _described(request.app.openapi()["paths"]),
        key=lambda operation: (operation.group, operation.path, operation.method),
    )
    groups = [(name, list(some)) for name, some in groupby(listed, lambda operation: operation.group)]
    return page(request, None, "operations.html", groups=groups)


def _described(paths: dict[str, dict[str, dict[str, object]]]) -> Iterator[Operation]:
    for path, methods in paths.items():
        for method, described in methods.items():
            tags, parameters = described.get("tags"), described.get("parameters")
            yield Operation(
                str(tags[0]) if isinstance(tags, list) else "service",
                method.upper(),
                path,
                str(described.get("description") or described.get("summary") or "").replace("``", ""),
                ", ".join(parameter["name"] for parameter in parameters) if isinstance(parameters, list) else "",
            )
