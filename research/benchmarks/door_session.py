"""The door of a cluster on standard streams, without the gateway before it: for ``grid`` alone.

The configuration is that of the environment. Its argument is the broker's name.
"""

from __future__ import annotations

import sys
from contextlib import closing

from oarpy.configuration import load
from oarpy.grid.door.session import DoorSession


def answer(broker: str) -> None:
    """Answer lines until there are no more."""
    with closing(DoorSession(broker, load())) as session:
        session.open()
        for line in sys.stdin.buffer:
            sys.stdout.buffer.write(session.reply(line.rstrip(b"\n")) + b"\n")
            sys.stdout.buffer.flush()
