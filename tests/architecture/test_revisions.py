"""Revisions of the schema follow one another, each under its own number: who adds a second one of a number is told."""

from __future__ import annotations

import ast
from pathlib import Path

VERSIONS = Path(__file__).parents[2] / "migrations" / "versions"


def constants(path: Path) -> dict[str, object]:
    """Return the constants that a module sets."""
    found: dict[str, object] = {}
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            (target,) = statement.targets
            if isinstance(target, ast.Name):
                found[target.id] = statement.value.value
    return found


def test_each_revision_follows_the_one_before_it() -> None:
    paths = sorted(path for path in VERSIONS.glob("[0-9]*.py"))
    before: object = None
    for path in paths:
        said = constants(path)
        assert said["revision"] == path.name[:4], path.name
        assert said["down_revision"] == before, path.name
        assert f"Revision ID: {said['revision']}" in path.read_text(encoding="utf-8"), path.name
        before = said["revision"]
    assert len(paths) > 1
