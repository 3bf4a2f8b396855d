"""An answer that a process of its own finds, so that nothing that hangs on the way holds up the agent."""

from __future__ import annotations

import os
import select
import signal

from oarpy.transport.agent.job.supervisor import detach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from select import epoll

_LONGEST = 1 << 16


class ChildAnswer:
    """Has one child at a time find an answer; ``adopt`` gets its process id."""

    def __init__(self, poll: epoll, adopt: Callable[[int], None]) -> None:
        self._poll = poll
        self._adopt = adopt
        self.fd = -1
        """Descriptor of the answer, -1 while no child is there."""
        self._answer = b""

    def begin(self, find: Callable[[], bytes], patience: int = 0) -> bool:
        """Fork a child that finds an answer within ``patience`` seconds, 0: any time; False while another one does.

        Raises ``OSError``.
        """
        if self.fd >= 0:
            return False
        answer, output = os.pipe2(os.O_CLOEXEC)
        try:
            pid = os.fork()
        except OSError:
            os.close(answer)
            raise
        else:
            if pid == 0:
                _tell(find, patience, output)
        finally:
            os.close(output)
        self._adopt(pid)
        self.fd = answer
        self._poll.register(answer, select.EPOLLIN)
        return True

    def hear(self) -> bytes | None:
        """Read a part of the answer; return all of it at its end, None before. A child that dies has none."""
        if content := os.read(self.fd, _LONGEST):
            self._answer += content
            return None
        self._poll.unregister(self.fd)
        os.close(self.fd)
        self.fd = -1
        whole, self._answer = self._answer, b""
        return whole


def _tell(find: Callable[[], bytes], patience: int, output: int) -> None:
    """Be the child: write the answer, and end."""
    try:
        detach(output)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.alarm(patience)
        os.write(output, find()[:_LONGEST])
    finally:
        os._exit(0)
