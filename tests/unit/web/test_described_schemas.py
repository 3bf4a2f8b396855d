"""What ``/openapi.json`` says is what generators of clients read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oarpy.configuration import Configuration
from oarpy.web.app import application


def schemas(part: Any) -> Iterator[Any]:
    """Yield what stands where a schema of items is expected, at any depth."""
    if isinstance(part, dict):
        if part.get("type") == "array" and "items" in part:
            yield part["items"]
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from schemas(one)


def test_items_of_an_array_are_described_and_never_false() -> None:
    """JSON Schema has ``"items": false`` after the last of several; openapi-python-client refuses it."""
    found = list(schemas(application(Configuration()).openapi()))
    assert {type(one) for one in found} == {dict}
