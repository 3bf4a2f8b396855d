"""The module that saves energy: puts nodes to sleep and wakes them by commands of the site, and checks the waking.

It also has nodes rebooted, by another command of the site.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO

from oarpy.configuration import Configuration
from oarpy.modules.loop.module import Outcome
from oarpy.store import notifications
from oarpy.store.database import Connection
from oarpy.store.platform import power, reboots
from oarpy.store.platform.power import PowerRow

_LONGEST_MESSAGE = 300
"""Characters of a failed command's output that are kept in its event."""
_LONGEST_OUTPUT = 1_000_000
_ADDRESS = re.compile(r"[A-Za-z0-9_.:-]{1,253}", re.ASCII)
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """Why a command failed ("": it did not), and what it printed."""

    failure: str
    output: str = ""


class EnergySaving:
    """Carries out the orders of the meta-scheduler.

    A command is noted only after it was run: after a crash in between it is run again. So is one that failed.
    """

    name = "energy"

    def __init__(self, configuration: Configuration) -> None:
        self.period = configuration.modules.energy
        self._settings = configuration.energy

    def files(self) -> Sequence[int]:
        """Return nothing: notifications alone are a reason to run."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Reboot nodes; judge those that are waking, then run one command for as many nodes as one may have."""
        settings = self._settings
        if settings.reboot_command and (rebooted := self._reboot(connection)):
            return Outcome(rebooted, again=True)
        if not settings.active:
            return Outcome("energy saving is off, or has no commands" if settings.enabled else "nothing")
        with connection.transaction():
            back, late = power.settle(connection, settings.wakeup_timeout)
        rows = power.asked(connection)
        due = [row for row in rows if row.due]
        word = f"awake {len(back)}, not awake in time {len(late)}" if back or late else "nothing"
        if due:
            order, names = due[0].asked, _together(due, settings.nodes_per_command)
            command = settings.wake_command if order == "wake" else settings.sleep_command
            outcome = run_for(command, names, settings.command_timeout)
            with connection.transaction():
                told = addresses(outcome.output) if order == "wake" else {}
                if outcome.failure:
                    power.record_failure(connection, names, order, outcome.failure)
                else:
                    power.record_sent(connection, names, order)
                # those of a command that failed may stand where they stood
                heard = [name for name in names if name in told or not outcome.failure]
                power.record_addresses(connection, heard, told)
                notifications.tell(connection, "metascheduler")
            word = f"{order} {len(names)} nodes{': ' + outcome.failure if outcome.failure else ''}"
        return Outcome(word, again=len(due) > 0, wake_at=_next_look(rows, now))

    def _reboot(self, connection: Connection) -> str:
        """Run the command for as many nodes to reboot as one may have; return what became of it, "" without any."""
        settings = self._settings
        with connection.transaction():
            names = reboots.due(connection)[: settings.nodes_per_command]
        if not names:
            return ""
        outcome = run_for(settings.reboot_command, names, settings.command_timeout)
        with connection.transaction():
            if outcome.failure:
                reboots.record_failure(connection, names, outcome.failure)
            else:
                reboots.record_sent(connection, names)
        return f"reboot {len(names)} nodes{': ' + outcome.failure if outcome.failure else ''}"


def _together(due: Sequence[PowerRow], most: int) -> list[str]:
    """Return the nodes of the next command. One whose command failed is tried alone: others may be well."""
    first = due[0]
    if first.tries:
        return [first.node]
    return [row.node for row in due if row.asked == first.asked and not row.tries][:most]


def _next_look(rows: Sequence[PowerRow], now: datetime) -> float | None:
    """Return when to look again, in epoch seconds: at nodes that are waking, and at commands to try again."""
    soon = now.timestamp() + 1
    if any(row.asked == "wake" for row in rows):
        return soon
    return min((max(row.retry_at.timestamp(), soon) for row in rows if row.retry_at), default=None)


def run_for(command: str, nodes: Sequence[str], timeout: float) -> CommandOutcome:
    """Run a shell command with the names of ``nodes`` on its input, one a line.

    It is killed, with its processes, after ``timeout`` seconds. Processes in the background are not waited for.
    """
    with tempfile.TemporaryFile() as names, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        names.write("".join(f"{node}\n" for node in nodes).encode())
        names.seek(0)
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=names, stdout=output, stderr=errors, start_new_session=True
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return CommandOutcome(f"'{command}' took more than {timeout:g} s", _text(output, _LONGEST_OUTPUT))
        failure = "" if status == 0 else f"'{command}' ended with {status}: {_text(errors, _LONGEST_MESSAGE)}"
        return CommandOutcome(failure, _text(output, _LONGEST_OUTPUT))


def _text(file: IO[bytes], longest: int) -> str:
    """Return what a command wrote, up to ``longest`` bytes."""
    file.seek(0)
    return file.read(longest).decode(errors="replace").replace("\0", "").strip()


def addresses(output: str) -> dict[str, tuple[str, int | None]]:
    """Return the address and port of each node that a line of ``output`` names: ``NODE ADDRESS [PORT]``."""
    told: dict[str, tuple[str, int | None]] = {}
    for line in output.splitlines():
        match line.split():
            case [node, address] if _ADDRESS.fullmatch(address):
                told[node] = address, None
            case [node, address, port] if _ADDRESS.fullmatch(address) and _is_port(port):
                told[node] = address, int(port)
            case _:
                continue
    return told


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) <= _LARGEST_PORT
