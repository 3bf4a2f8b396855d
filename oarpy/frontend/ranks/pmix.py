"""``oarsrun --pmix``: ``prterun`` of PRRTE starts the ranks, for programs that ask by PMIx, as those of Open MPI 5."""

from __future__ import annotations

import os
import shutil
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from oarpy.frontend.ranks.options import Call

_FAILED, _USAGE = 1, 2


def become_prterun(call: Call, environment: Mapping[str, str]) -> int:
    """Become ``prterun``; return the exit status where that cannot be."""
    if call.as_json:
        sys.stderr.write("oarsrun: --pmix has no JSON (leave -J out)\n")
        return _USAGE
    program = shutil.which("prterun", path=environment.get("PATH", ""))
    if program is None:
        sys.stderr.write("oarsrun: --pmix needs prterun, which this node has not (programs of MPICH need no --pmix)\n")
        return _FAILED
    return os.execv(program, prterun_words(call, environment["OAR_NODEFILE"]))


def prterun_words(call: Call, hosts: str) -> list[str]:
    """Return the call of ``prterun``.

    >>> from oarpy.frontend.ranks.options import read_call
    >>> call = read_call(["-n", "4", "--pmix", "--cpus-per-task", "2", "--no-prefix", "./a.out"])
    >>> prterun_words(call, "hosts")
    ['prterun', '--hostfile', 'hosts', '-n', '4', '--map-by', 'slot:pe=2', './a.out']
    """
    wish = call.wish
    place = f"ppr:{wish.on_node}:node:pe={wish.cores}" if wish.on_node else f"slot:pe={wish.cores}"
    place += ":oversubscribe" if wish.overcommit else ""
    tags = [] if call.plain else ["--output", "tag"]
    words = ["/bin/sh", "-c", *call.words] if len(call.words) == 1 and " " in call.words[0] else call.words
    return ["prterun", "--hostfile", hosts, "-n", str(wish.ranks), "--map-by", place, *tags, *words]
