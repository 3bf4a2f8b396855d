"""Answers of REST against what ``/openapi.json`` says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx2
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

_OURS = re.compile(r"/(?:api/v1|oarapi)/.*|/metrics$")


class DescribedAnswers:
    """Compares answers with an OpenAPI document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        # a path without names in it comes before one with names that fits it as well
        paths = sorted(document["paths"], key=lambda path: path.count("{"))
        self._paths = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path) for path in paths]
        self._validator = cache(self._new_validator)

    def operations(self) -> Iterator[tuple[str, str]]:
        """Yield method and path of each operation."""
        for path, methods in self._document["paths"].items():
            for method in methods:
                yield method, path

    def check(self, method: str, path: str, answer: httpx2.Response) -> tuple[str, str] | None:
        """Return the operation that was asked, None for no such; raise :class:`AssertionError` for another answer."""
        ours = _OURS.search(path.partition("?")[0])
        wanted = ours[0].removesuffix(".json") if ours else ""
        found = next((known for form, known in self._paths if form.fullmatch(wanted)), None)
        if found is None or method not in self._document["paths"][found]:
            return None
        responses = self.responses(method, found)
        status = str(answer.status_code) if str(answer.status_code) in responses else "default"
        assert status != "default" or answer.status_code >= 400, (method, path, answer.status_code)
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in responses[status]["content"], (method, path, status, kind)
        if kind == "application/json":
            problems = self.problems(method, found, status, answer.json())
            assert problems == [], (method, path, answer.status_code)
        return method, found

    def responses(self, method: str, path: str) -> dict[str, Any]:
        """Return what is said of the answers of an operation, by status."""
        found: dict[str, Any] = self._document["paths"][path][method]["responses"]
        return found

    def problems(self, method: str, path: str, status: str, answer: Any) -> list[str]:
        """Return how an answer differs from what is said of it."""
        errors = self._validator(method, path, status).iter_errors(answer)
        return [f"{error.json_path}: {error.message}"[:300] for error in errors]

    def _new_validator(self, method: str, path: str, status: str) -> Validator:
        schema = self.responses(method, path)[status]["content"]["application/json"]["schema"]
        return Draft202012Validator({**schema, "components": self._document["components"]})
