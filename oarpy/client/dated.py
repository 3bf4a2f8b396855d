"""Instants in the planner's reasons, made readable."""

from __future__ import annotations

import re

from oarpy.client.rendering import local_date

_INSTANT = re.compile(r"\b(at|until) (\d{9,11})(?:\.\d+)?\b")


def dated(reason: str) -> str:
    """Replace epoch seconds after "at" and "until" by local dates.

    >>> dated("held until something, quota of 5000000000")
    'held until something, quota of 5000000000'
    """
    return _INSTANT.sub(lambda found: f"{found[1]} {local_date(float(found[2]))}", reason)
