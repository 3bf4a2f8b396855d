"""Where every command starts: through the gateway if there is one, else in this very process.

Only the standard library, and little of it, is imported on the way to the gateway. ``oarpy`` itself sets up and runs
the server side, where it is, and does not come here.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_INTERRUPTED = 130


def start(name: str, *, by_gateway: bool = True) -> NoReturn:
    """Run the command ``name`` on the arguments of the process, and end the process."""
    from oarpy.frontend import standard_streams

    standard_streams.complete()
    if name == "oarsh":
        from oarpy.frontend.job_key import become_ssh

        become_ssh(sys.argv[1:])
    if name == "oarrates" and sys.argv[1:2] == ["--measure"] and len(sys.argv) in (3, 4):
        from oarpy.frontend.measuring import told

        sys.argv[1:] = told(sys.argv[2:])
    if name == "oarsrun":
        from oarpy.frontend.ranks.inside import run_inside

        status = run_inside(sys.argv[1:])
        if status is not None:
            sys.stderr.flush()
            os._exit(status)
    if by_gateway:
        _try_gateway(name)
    if sys.flags.no_site:
        import site

        site.main()  # from here on the packages that oarpy depends on are needed
    import importlib

    importlib.import_module(f"oarpy.commands.{name}").main()
    sys.exit(0)


def _entry(name: str, *, by_gateway: bool = True) -> Callable[[], NoReturn]:
    def run() -> NoReturn:
        start(name, by_gateway=by_gateway)

    return run


oaraccounting = _entry("oaraccounting")
oaradmissionrules = _entry("oaradmissionrules")
oaralter = _entry("oaralter")
oarconnect = _entry("oarconnect")
oarcp = _entry("oarcp", by_gateway=False)  # scp, which starts oarsh
oardel = _entry("oardel")
oargridctl = _entry("oargridctl")
oargriddel = _entry("oargriddel")
oargriddoor = _entry("oargriddoor")
oargridsh = _entry("oargridsh")
oargridstat = _entry("oargridstat")
oargridsub = _entry("oargridsub")
oarhold = _entry("oarhold")
oarnegotiate = _entry("oarnegotiate")
oarnodes = _entry("oarnodes")
oarnodesetting = _entry("oarnodesetting")
oarprint = _entry("oarprint")
oarproperty = _entry("oarproperty")
oarproject = _entry("oarproject")
oarrates = _entry("oarrates")
oarqueue = _entry("oarqueue")
oarresize = _entry("oarresize")
oarresume = _entry("oarresume")
oarsh = _entry("oarsh")
oarsrun = _entry("oarsrun")
oarstat = _entry("oarstat")
oarsub = _entry("oarsub")
oartoken = _entry("oartoken")
oarwalltime = _entry("oarwalltime")
oarwindow = _entry("oarwindow")


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
