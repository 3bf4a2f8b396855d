"""Answers of clusters, made fit for the database: texts without control letters, numbers within bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from msgspec import Struct

from oarpy.grid.calls.table import ClusterSilent
from oarpy.model.errors import OarpyError

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Letters that no text needs: control letters without tab and end of line, and halves of surrogate pairs."""
_LATEST = 1e11
"""Epoch seconds: the latest accepted date, far in the future and still valid."""
_WHOLE = (-(2**31), 2**31 - 1)
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "procs": (0, 2**31 - 1),
    "speed": (1e-6, 1e6),
    "number": (0, 2**62),
    "clock": (0, _LATEST),
    "at": (0, _LATEST),
    "begin": (0, _LATEST),
    "submitted": (0, _LATEST),
}
"""Bounds by name of a field; other whole numbers have the bounds of an ``integer``."""
_LONGEST_REASON = 2000

Told = TypeVar("Told")


def checked(cluster: str, answer: Told) -> Told:
    """Return an answer without control letters. Raises :class:`ClusterSilent` for a number out of bounds.

    >>> checked("north", ["no\\0", 3])
    ['no', 3]
    """
    try:
        clean: Told = _clean(answer, "")
    except ValueError as error:
        raise ClusterSilent(f"cluster '{cluster}': what it says is no answer: {error}") from None
    return clean


def cleaned(error: OarpyError) -> OarpyError:
    """Return an error of a cluster, its texts without control letters."""
    error.message, error.hint = _text(error.message)[:_LONGEST_REASON], _text(error.hint)[:_LONGEST_REASON]
    return error


def _clean(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return _within(value, name)
    if isinstance(value, OarpyError):
        return cleaned(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_clean(item, name) for item in value])
    if isinstance(value, dict):
        return {key: _clean(item, name) for key, item in value.items()}
    if isinstance(value, Struct):
        return type(value)(**{field: _clean(getattr(value, field), field) for field in value.__struct_fields__})
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{field.name: _clean(getattr(value, field.name), field.name) for field in fields(value)})
    return value


def _text(value: str) -> str:
    return _CONTROL.sub("", value)


def _within(value: float, name: str) -> float:
    """Return a number. Only a date that has no name, an ECT, may be infinite: the job can never run."""
    if isinstance(value, bool) or (value == math.inf and not name):
        return value
    low, high = _BOUNDS.get(name, _WHOLE if isinstance(value, int) else (-_LATEST, _LATEST))
    if not low <= value <= high:
        raise ValueError(f"{name or 'a number'} is {value:.6g}")
    return value
