"""Where every command starts: through the gateway if there is one, else in this very process.

Only the standard library, and little of it, is imported on the way to the gateway. ``oarpy`` itself sets up and runs
the server side, where it is, and does not come here.
"""

from __future__ import annotations

import os
import sys
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_INTERRUPTED = 130


def start(name: str, *, by_gateway: bool = True) -> NoReturn:
    """Run the command ``name`` on the arguments of the process, and end the process."""
    from oarpy.frontend import standard_streams

    standard_streams.complete()
    if name == "oarsh":
        from oarpy.frontend.job_key import enter_by_key

        enter_by_key(sys.argv[1:])
    if by_gateway:
        _try_gateway(name)
    import importlib

    importlib.import_module(f"oarpy.commands.{name}").main()
    sys.exit(0)


oaraccounting = partial(start, "oaraccounting")
oaradmissionrules = partial(start, "oaradmissionrules")
oarconnect = partial(start, "oarconnect")
oarcp = partial(start, "oarcp", by_gateway=False)  # scp, which starts oarsh
oardel = partial(start, "oardel")
oarhold = partial(start, "oarhold")
oarnegotiate = partial(start, "oarnegotiate")
oarnodes = partial(start, "oarnodes")
oarnodesetting = partial(start, "oarnodesetting")
oarprint = partial(start, "oarprint")
oarproperty = partial(start, "oarproperty")
oarqueue = partial(start, "oarqueue")
oarresize = partial(start, "oarresize")
oarresume = partial(start, "oarresume")
oarsh = partial(start, "oarsh")
oarsrun = partial(start, "oarsrun")
oarstat = partial(start, "oarstat")
oarsub = partial(start, "oarsub")
oartoken = partial(start, "oartoken")
oarwalltime = partial(start, "oarwalltime")


def oaradmin() -> NoReturn:
    """Run ``oaradmin``: a replay of the past takes longer than the gateway gives, and reads files of the admin."""
    start("oaradmin", by_gateway=sys.argv[1:2] != ["policy"])


def _try_gateway(name: str) -> None:
    """End the process with the command done by the gateway; return when there is none."""
    from oarpy.frontend.discovery import is_missed, socket_path

    path = socket_path()
    if not path:
        return
    from oarpy.frontend.conversation import connect, converse

    try:
        connection = connect(path)
        if connection is None:
            if is_missed(path):
                sys.stderr.write(f"{name}: no gateway listens on {path}: asking the database, which takes longer\n")
            return
        status = converse(connection, name, sys.argv[1:])
    except KeyboardInterrupt:
        status = _INTERRUPTED
    # nothing is left to be flushed or closed, and an interpreter that tidies up takes its time
    sys.stderr.flush()
    os._exit(status)
