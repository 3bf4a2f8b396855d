"""Where ``oarsrun`` begins: with ``-n`` inside a job it starts ranks itself, otherwise the server does it all."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_NEEDED = ("OARPY_NODE", "OARPY_JOB", "OARPY_SECRET", "OAR_JOB_ID", "OAR_RESOURCE_PROPERTIES_FILE")
_NODE_WORD = "--ranks-of-node"
"""The only argument of a process that ``node_connection`` starts on a node."""


def run_inside(arguments: Sequence[str]) -> int | None:
    """Run the command and return its exit status; return None if it is not for this process.

    It is for the server without ``-n``, for another job, outside of jobs, and if it is wrong.
    """
    if list(arguments) == [_NODE_WORD]:
        from oarpy.frontend.ranks.node_ranks import main

        main()
        return 0
    if not all(os.environ.get(name) for name in _NEEDED):
        return None
    from oarpy.frontend.ranks.options import read_call

    call = read_call(arguments)
    if call is None or call.job not in ("", os.environ["OAR_JOB_ID"]):
        return None
    if call.pmix:
        from oarpy.frontend.ranks.pmix import become_prterun

        return become_prterun(call, os.environ)
    from oarpy.frontend.ranks.client import run

    return run(call, os.environ)
