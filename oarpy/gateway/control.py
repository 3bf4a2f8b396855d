"""What the gateway hears from the processes that it forked, each over a control socket of its own."""

from __future__ import annotations

import socket
from collections.abc import Callable


def fork_with_control(start: Callable[[socket.socket, socket.socket], int]) -> tuple[int, socket.socket]:
    """Have ``start`` fork a process, given its end of a control socket and ours; return what it returns, and our end.

    Only the parent returns. Raises ``OSError`` when there is no process or no socket to be had; nothing is left then.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        try:
            pid = start(theirs, ours)
        except OSError:
            ours.close()
            raise
    ours.setblocking(False)
    return pid, ours


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
