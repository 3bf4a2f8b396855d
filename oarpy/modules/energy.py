"""The module that saves energy: puts nodes to sleep and wakes them by commands of the site, and checks the waking."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import datetime

from oarpy.configuration import Configuration
from oarpy.modules.loop.module import Outcome
from oarpy.store import notifications
from oarpy.store.database import Connection
from oarpy.store.platform import power

_LONGEST_MESSAGE = 300
"""Characters of a failed command's output that are kept in its event."""


class EnergySaving:
    """Carries out the orders of the meta-scheduler.

    A command is noted only after it was run: after a crash in between it is run again.
    """

    name = "energy"

    def __init__(self, configuration: Configuration) -> None:
        self.period = configuration.modules.energy
        self._settings = configuration.energy

    def files(self) -> Sequence[int]:
        """Return nothing: notifications alone are a reason to run."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Judge the nodes that are waking, then run one command for as many nodes as one may have."""
        settings = self._settings
        if not settings.active:
            return Outcome("energy saving is off, or has no commands" if settings.enabled else "nothing")
        with connection.transaction():
            back, late = power.settle(connection, settings.wakeup_timeout)
        rows = power.asked(connection)
        pending = [row for row in rows if not row.sent]
        word = f"awake {len(back)}, not awake in time {len(late)}" if back or late else "nothing"
        if pending:
            order = pending[0].asked
            names = [row.node for row in pending if row.asked == order][: settings.nodes_per_command]
            command = settings.wake_command if order == "wake" else settings.sleep_command
            failure = run_for(command, names, settings.command_timeout)
            with connection.transaction():
                power.record_sent(connection, names, order, failure)
                notifications.tell(connection, "metascheduler")
            word = f"{order} {len(names)} nodes{': ' + failure if failure else ''}"
        waking = any(row.asked == "wake" for row in rows)
        return Outcome(word, again=len(pending) > 0, wake_at=now.timestamp() + 1 if waking else None)


def run_for(command: str, nodes: Sequence[str], timeout: float) -> str:
    """Run a shell command with the names of ``nodes`` on its input, one a line; return why it failed, or nothing.

    It is killed, with its processes, after ``timeout`` seconds. Processes in the background are not waited for.
    """
    with tempfile.TemporaryFile() as names, tempfile.TemporaryFile() as output:
        names.write("".join(f"{node}\n" for node in nodes).encode())
        names.seek(0)
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=names, stdout=subprocess.DEVNULL, stderr=output, start_new_session=True
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"'{command}' took more than {timeout:g} s"
        if status == 0:
            return ""
        output.seek(0)
        text = output.read(_LONGEST_MESSAGE).decode(errors="replace").replace("\0", "").strip()
        return f"'{command}' ended with {status}: {text}"
