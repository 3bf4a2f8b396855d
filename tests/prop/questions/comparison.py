"""How answers of the project are compared with naive ones."""

from __future__ import annotations

from typing import Any

_EQUAL = 0.000001


def equal(one: Any, other: Any) -> bool:
    """Tell whether two answers are the same, with their keys in one order, but for tiny differences of numbers."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, bool) or one is None or isinstance(one, str):
        return bool(one == other)
    return not isinstance(other, bool | str | dict | list | None) and bool(abs(one - other) <= _EQUAL)
