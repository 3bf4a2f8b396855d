"""A command on a node that has nothing of oarpy but this: through a gateway that is there, else by a call.

The agent installs these modules as one script below its state directory, under the name of each command.
"""

from __future__ import annotations

import os
import sys

from oarpy.frontend import standard_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

NAMES = (
    "oaralter",
    "oarconnect",
    "oarcp",
    "oardel",
    "oargridsh",
    "oarhold",
    "oarnegotiate",
    "oarnodes",
    "oarprint",
    "oarrates",
    "oarresize",
    "oarresume",
    "oarsh",
    "oarsrun",
    "oarstat",
    "oarsub",
    "oarwalltime",
    "oarwindow",
)
"""The commands that nodes get: the users' commands."""

_UNREACHABLE = 6
_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command that the script is called as, and end the process."""
    standard_streams.complete()
    try:
        status = _run(os.path.basename(sys.argv[0]), sys.argv[1:])
    except KeyboardInterrupt:
        status = _INTERRUPTED
    sys.stderr.flush()
    os._exit(status)


def _run(name: str, arguments: list[str]) -> int:
    if name == "oarsrun":
        from oarpy.frontend.ranks.inside import run_inside

        # what follows takes longer to load than a step to start
        if (status := run_inside(arguments)) is not None:
            return status
    if name in ("oarcp", "oarsh"):
        from oarpy.frontend.job_key import become_ssh, copy

        copy(arguments) if name == "oarcp" else become_ssh(arguments)
    if name == "oarrates" and arguments[:1] == ["--measure"] and len(arguments) in (2, 3):
        from oarpy.frontend.measuring import told

        arguments = told(arguments[1:])
    return _ask_server(name, arguments)


def _ask_server(name: str, arguments: Sequence[str]) -> int:
    from oarpy.frontend.call import NotReached, be_called
    from oarpy.frontend.conversation import PATIENCE, connect, converse
    from oarpy.frontend.discovery import socket_path

    path = socket_path()
    connection = connect(path) if path else None
    if connection is None:
        state = os.path.dirname(os.path.dirname(os.path.realpath(sys.argv[0])))
        try:
            connection = be_called(state)
        except NotReached as error:
            sys.stderr.write(f"{name}: the server cannot be reached from this node: {error} (try again later)\n")
            return _UNREACHABLE
        connection.settimeout(PATIENCE)
    return converse(connection, name, arguments)
