"""The site's check of this node: one run at a time. The words of a failed run are kept until a run succeeds."""

from __future__ import annotations

import contextlib
import os

from oarpy.transport.agent.child_answer import ChildAnswer
from oarpy.transport.agent.gpus import read_line
from oarpy.transport.agent.scripts.script_run import SITE_PATH, ScriptRun
from oarpy.wire.messages import OK, CheckHealth, Health

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from select import epoll

    from oarpy.transport.agent.outbox import Outbox
    from oarpy.transport.agent.statedir import StateDir


_DONE = "done:"
"""What the answer of a check that came to its end begins with."""


class HealthCheck:
    """Runs the check when the server asks; ``problem`` has the words of the last one, whichever agent ran it."""

    def __init__(self, state: StateDir, poll: epoll, outbox: Outbox, adopt: Callable[[int], None]) -> None:
        self._path = os.path.join(state.root, "health")
        self._outbox = outbox
        self._child = ChildAnswer(poll, adopt)

    @property
    def fd(self) -> int:
        """Descriptor that is readable when a check has ended, -1 while none runs."""
        return self._child.fd

    def problem(self) -> str:
        """Return the fault that the last check found, empty when it succeeded."""
        return read_line(self._path)

    def on_check(self, order: CheckHealth) -> None:
        """Begin a check, unless one runs; without a program forget the result of the last check."""
        if order.program:
            try:
                self._child.begin(lambda: _result(order.program, order.timeout).encode())
            except OSError as error:
                self._conclude(f"health check: no process: {error.strerror}")
        else:
            self._keep("")

    def hear(self) -> None:
        """Take in the result of a check, and tell it."""
        words = self._child.hear()
        if words is None:
            return
        problem = words.decode(errors="replace").removeprefix(_DONE)
        self._conclude(problem if words else "health check: nobody saw it end")

    def _conclude(self, problem: str) -> None:
        self._keep(problem)
        self._outbox.say(Health(problem))

    def _keep(self, problem: str) -> None:
        with contextlib.suppress(OSError):  # a full disk, or nothing there: the next agent asks again
            if not problem:
                os.unlink(self._path)
                return
            with open(self._path, "w", encoding="ascii", errors="replace") as file:
                file.write(problem)


def _result(program: str, timeout: float) -> str:
    outcome, detail = ScriptRun("health check", program, timeout, [], {"PATH": SITE_PATH}).run()
    return _DONE if outcome == OK else _DONE + " ".join(detail.split())
