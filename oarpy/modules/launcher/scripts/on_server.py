"""The site's prologue or epilogue on the server, run once for an attempt at a job, whoever is killed meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.modules.launcher.scripts.programs import Programs
from oarpy.store.database import Connection
from oarpy.store.jobs import server_scripts
from oarpy.store.jobs.server_scripts import ScriptOutcome
from oarpy.wire.messages import FAILED, LOST, OK, PROLOGUE, TIMEOUT

_CUT_OFF = "was cut off: the launcher that ran it was killed"

Attempt = tuple[int, int]
"""A job and which attempt at it."""

EVENTS = {FAILED: "EXIT_CODE_ERROR", TIMEOUT: "TIMEOUT", LOST: "LOST"}
"""How a script can fail, and how the type of its event ends."""


class ServerScripts:
    """The runs of one kind of script. A row is written before each is started, so one that is cut off is known."""

    def __init__(self, kind: str, program: str, timeout: float) -> None:
        self.kind = kind
        self._programs: Programs[Attempt] = Programs(program, timeout)
        self._ended: dict[Attempt, ScriptOutcome] = {}
        self._unrecorded: list[ScriptOutcome] = []

    def __bool__(self) -> bool:
        return bool(self._programs.program)

    def files(self) -> list[int]:
        """Return descriptors that are readable when a script has ended."""
        return self._programs.files()

    @property
    def next_deadline(self) -> float | None:
        """When (monotonic seconds) the time of a running script is over."""
        return self._programs.next_deadline

    def advance(self, connection: Connection, attempts: Sequence[Attempt]) -> dict[Attempt, ScriptOutcome]:
        """Start the scripts of these (job, attempt) as there is room, see which have ended; return those."""
        self._collect(connection)
        running = self._programs.running
        unknown = [one for one in attempts if one not in running and one not in self._ended]
        room = unknown[: self._programs.room]
        if room:
            with connection.transaction():
                begun = server_scripts.begin(connection, self.kind, room)
                earlier = server_scripts.find(connection, self.kind, [one for one in room if one not in begun])
                # Begun by a launcher that is gone: whether it came to its end nobody knows.
                lost = [self._outcome((one.job, one.attempt), LOST, _CUT_OFF) for one in earlier if not one.outcome]
                server_scripts.end(connection, lost)
            known = [one for one in earlier if one.outcome] + lost
            self._ended |= {(one.job, one.attempt): one for one in known}
            for attempt in sorted(begun):
                self._programs.start(attempt, attempt[0])
        return {one: self._ended[one] for one in attempts if one in self._ended}

    def is_running(self, job: int) -> bool:
        """Tell whether a script of a job runs."""
        return any(one == job for one, _ in self._programs.running)

    def forget(self, live: set[int]) -> None:
        """Drop jobs that are not live any more."""
        for attempt in [attempt for attempt in self._ended if attempt[0] not in live]:
            del self._ended[attempt]

    def close(self) -> None:
        """Let go of what runs: each script has a limit of its own."""
        self._programs.close()

    def _collect(self, connection: Connection) -> None:
        """Record the scripts that have ended, and those whose time is over."""
        ended = self._programs.collect().items()
        self._unrecorded += [self._outcome(attempt, end.outcome, end.detail) for attempt, end in ended]
        if self._unrecorded:
            with connection.transaction():
                server_scripts.end(connection, self._unrecorded)
            self._ended |= {(one.job, one.attempt): one for one in self._unrecorded}
            self._unrecorded = []

    def _outcome(self, attempt: Attempt, outcome: str, detail: str) -> ScriptOutcome:
        """Return the record of an end. Of an epilogue an event tells; a prologue ends its job, which tells of it."""
        event = "" if outcome == OK or self.kind == PROLOGUE else f"SERVER_EPILOGUE_{EVENTS[outcome]}"
        return ScriptOutcome(*attempt, self.kind, outcome, f"server {self.kind} {detail}" if detail else "", event)
