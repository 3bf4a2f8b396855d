"""The connection of a job's holder to one node of the job: ``oarsh``, held open, and what it leads to."""

from __future__ import annotations

import os

from oarpy.frontend.ranks.links import Link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NODE_WORD = "--ranks-of-node"
"""Makes ``oarsrun`` the far end of the connection (``inside``)."""

_MOST_TOLD = 4096


class NodeConnection:
    """The ranks' end on ``host``; with ``alone``, the only node of the job, it is a process of this machine."""

    def __init__(self, host: str, *, alone: bool) -> None:
        self.host = host
        folder = os.path.join(os.environ["OARPY_NODE"], "bin")
        words = [os.path.join(folder, "oarsrun"), _NODE_WORD]
        if not alone:
            words = [os.path.join(folder, "oarsh"), host, f'exec "$OARPY_NODE"/bin/oarsrun {_NODE_WORD}']
        stdin, sink = os.pipe2(os.O_CLOEXEC)
        source, stdout = os.pipe2(os.O_CLOEXEC)
        self._errors, stderr = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._errors, False)
        theirs = (stdin, stdout, stderr)
        actions: list[Any] = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(theirs)]
        self._pid = os.posix_spawn(words[0], words, os.environ, file_actions=actions, setsid=True)
        for fd in theirs:
            os.close(fd)
        self.link = Link(source, sink)

    def end(self) -> str:
        """Close the connection; return the reason that it is lost."""
        self.link.close()
        try:
            told = os.read(self._errors, _MOST_TOLD).decode(errors="replace").strip()
        except OSError:
            told = ""
        os.close(self._errors)
        os.waitpid(self._pid, 0)
        return told.splitlines()[-1] if told else f"the connection to node {self.host} was lost"
