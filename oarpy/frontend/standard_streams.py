"""The three standard streams, which a process may have been started without (``2>&-`` in a shell)."""

from __future__ import annotations

import os
import sys

_NAMES = ("stdin", "stdout", "stderr")


def complete() -> None:
    """Open the closed standard streams of the process: output to them is lost, input from them is empty.

    Otherwise the next file or connection that is opened is taken for one of them.
    """
    for number, name in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            # opened at the lowest free number, which is this stream's
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
