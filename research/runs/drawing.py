"""Whether charts can be drawn: matplotlib is an extra."""

from __future__ import annotations

import logging
from typing import TextIO

NOT_DRAWN = "Charts are not drawn: they need the extra plots (matplotlib)."


def can_draw(err: TextIO | None = None) -> bool:
    """Say whether matplotlib, of the extra ``plots``, is installed; if it is not, a line on ``err`` says so."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of its caches where nobody asked
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        if err is not None:
            print(NOT_DRAWN, file=err)
        return False
    return True
