"""The answers of operations for ``/openapi.json``: the type that an endpoint returns, or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Generic, TypedDict, TypeVar, get_args, get_type_hints

import msgspec
from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.responses import Response

Item = TypeVar("Item")


class Page(TypedDict, Generic[Item]):
    """A page of a list; ``next`` is the key of the following page, null at the end."""

    items: list[Item]
    next: int | None


class ErrorDetail(TypedDict):
    """An error and what to do about it, in the words of the commands; ``hint`` may be empty."""

    code: str
    message: str
    hint: str


class ErrorDocument(TypedDict):
    """The answer when something goes wrong."""

    error: ErrorDetail


class Route(APIRoute):
    """A route whose answer is what its endpoint returns: the type checker has compared it with the type already."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **{**options, "response_model": Any})


_SITES_ADD = ("ResourceDocument", "OarFullResource")
"""Documents that have the properties of a site besides their own keys. All others have no other keys."""

_PROPERTY = {"type": ["integer", "string", "boolean", "null"]}


@dataclass(frozen=True, slots=True)
class Operation:
    """A route below a prefix, and the type of its errors."""

    prefix: str
    route: APIRoute
    error: type

    def documents(self) -> tuple[Any, ...]:
        """Return the types of its answer; none if the endpoint makes the response, and describes it by itself."""
        answer = get_type_hints(self.route.endpoint)["return"]
        if isinstance(answer, type) and issubclass(answer, Response):
            return ()
        return get_args(answer) if isinstance(answer, UnionType) else (answer,)


def operations(router: APIRouter, error: type, prefix: str = "") -> Iterator[Operation]:
    """Yield the operations of a router that stands below a prefix."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield Operation(prefix, route, error)


def describe(document: dict[str, Any], operations: Sequence[Operation]) -> None:
    """Write into an OpenAPI ``document`` what operations answer."""
    types = list({kind: None for operation in operations for kind in (operation.error, *operation.documents())})
    definitions, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schemas = dict(zip(types, definitions, strict=True))
    for operation in operations:
        for method in operation.route.methods or ():
            responses = document["paths"][operation.prefix + operation.route.path_format][method.lower()]["responses"]
            # FastAPI's own shape of an error, which is never answered
            responses.pop("422", None)
            responses["default"] = {"description": "What went wrong", "content": _json(schemas[operation.error])}
            if answers := [schemas[kind] for kind in operation.documents()]:
                shown = answers[0] if len(answers) == 1 else {"anyOf": answers}
                responses[str(operation.route.status_code or 200)]["content"] = _json(shown)
    known = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        known.pop(name, None)
    for name, schema in components.items():
        if "properties" in schema:
            schema["additionalProperties"] = _PROPERTY if name in _SITES_ADD else False
        _leave_out_no_items(schema)
        known[name] = schema


def _leave_out_no_items(schema: Any) -> None:
    """Leave the most items that an array has to say that nothing follows them: generators of clients read no ``false``.

    OpenAPI 3.1 allows it, ``openapi-python-client`` does not take the document with it.
    """
    if isinstance(schema, dict):
        if schema.get("items") is False and "maxItems" in schema:
            del schema["items"]
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            _leave_out_no_items(part)


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
