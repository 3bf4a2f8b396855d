"""Limits on walltime changes as sites write them: ``7200``, ``0.5`` (of the first walltime), ``night=3600``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oarpy.model.errors import UsageError

UNLIMITED = -1

_LIMIT = re.compile(r"(?:([A-Za-z][A-Za-z0-9_.-]*)=)?(-1|\d{1,9}|\d?\.\d{1,9})", re.ASCII)


def limit_of(texts: Sequence[str], queue: str, walltime: float) -> int:
    """Return the limit in seconds for a job of ``queue`` that was started with ``walltime`` seconds; 0 without any.

    Raises :class:`UsageError` for what is no limit.

    >>> limit_of(["7200", "night=0.5"], "default", 1000), limit_of(["7200", "night=0.5"], "night", 1000)
    (7200, 500)
    """
    found: dict[str | None, str] = {}
    for text in texts:
        match = _LIMIT.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"'{text[:80]}' is no limit of a walltime change", hint="seconds, 0.5 of the walltime, or queue=LIMIT"
            )
        found[match[1]] = match[2]
    limit = found.get(queue, found.get(None, "0"))
    return int(float(limit) * walltime) if "." in limit else int(limit)
