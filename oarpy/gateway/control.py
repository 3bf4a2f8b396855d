"""What the gateway hears from the processes that it forked, each over a control socket of its own."""

from __future__ import annotations

import socket


def read_word(control: socket.socket) -> bytes | None:
    """Return the word (a byte) that was said; None when nothing was yet, ``b""`` when the process is gone.

    Raises nothing: a socket in error is that of a process that is gone. ``control`` does not block.
    """
    try:
        return control.recv(1)
    except BlockingIOError:
        return None
    except OSError:
        return b""
