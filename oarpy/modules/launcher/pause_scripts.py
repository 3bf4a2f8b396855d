"""What the site has run when a job was suspended, and before it goes on: a program on the server."""

from __future__ import annotations

from collections.abc import Set

from oarpy.modules.launcher.programs import ProgramEnd, Programs
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import OK

_NOTHING = ProgramEnd(OK, "")


class PauseScripts:
    """One of the two. What is known of a run is kept in memory only: forgotten, the program is run again."""

    def __init__(self, name: str, program: str, timeout: float) -> None:
        self._name = name
        self._programs: Programs[JobKey] = Programs(program, timeout)
        self._ended: dict[JobKey, ProgramEnd] = {}

    @property
    def awaits(self) -> bool:
        """Whether a run of it has not been looked at since its end."""
        return bool(self._programs.running)

    def files(self) -> list[int]:
        """Readable when a run has ended."""
        return self._programs.files()

    @property
    def next_deadline(self) -> float | None:
        """When (monotonic seconds) the time of a run is over."""
        return self._programs.next_deadline

    def look(self, wanted: Set[JobKey]) -> None:
        """See which runs have ended, and drop those of jobs for which it is not wanted (any more)."""
        self._ended |= self._programs.collect()
        self._ended = {key: end for key, end in self._ended.items() if key in wanted}

    def result(self, key: JobKey) -> ProgramEnd | None:
        """Return how its run for a job ended; None while it runs, or has to wait, and when it was begun now."""
        if not self._programs.program:
            return _NOTHING
        end = self._ended.get(key)
        if end is None and key not in self._programs.running and self._programs.room:
            self._programs.start(key, key.job)
        return end

    def failure(self, key: JobKey) -> str:
        """Return what is to be said of a run that failed; empty when it did not, or is not over."""
        end = self.result(key)
        return "" if end is None or end.outcome == OK else f"{self._name} {end.detail}"

    def close(self) -> None:
        """Let go of what runs: each has a limit of its own."""
        self._programs.close()
