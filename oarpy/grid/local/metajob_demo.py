"""The part of the demo about one program over two clusters: it begins earlier on both, or goes to one of them.

The program is one of MPI, where that is installed.
"""

from __future__ import annotations

import re

from oarpy.grid.local import mpi_job
from oarpy.grid.local.transcript import Transcript, say, write


class MetajobDemo(Transcript):
    """The steps, each a method. All clusters are idle before and after."""

    def run(self) -> None:
        """Run every step."""
        if missing := mpi_job.what_is_missing():
            write(f"{missing}: the program begins on one host\n")
        mpi_job.prepare(self._grid.home)
        self._wait_for_ability("foresee")
        self._fill("west", "walltime=1:0:0")
        self._shifted()
        self._remapped()
        self._delete_local("west")

    def _shifted(self) -> None:
        """Let one program over two clusters begin earlier on both, after early ends."""
        say("One program on 6 processors: no cluster has as many, so it begins on two when their local jobs are over")
        local = [(name, self._occupy(name, 4, 20)) for name in ("north", "south")]
        job = self._spread(6, "shift")
        say("Both local jobs end early: its parts begin earlier on both clusters, and the program when both run")
        for name, number in local:
            self._delete(name, number)
        self._summed(job, r"shift north \d, south \d at .* -> north \d, south \d at .*: moved")

    def _remapped(self) -> None:
        """Let a program over two clusters go to one of them, which saves the overhead."""
        say("One program on 4 processors of two clusters, as long as both are half full: there it takes a fifth longer")
        others = [self._occupy("north", 2, minutes) for minutes in (60, 20)]
        local = [self._occupy("south", 2, minutes) for minutes in (60, 20)]
        job = self._spread(4, "remap")
        self._wait("its parts wait with the overhead", lambda: self._walltimes(job) == [720])
        say("South is free early: the program goes there alone, and has no overhead any more")
        for number in local:
            self._delete("south", number)
        self._wait("it is on one cluster", lambda: self._walltimes(job) == [600])
        self._hold(self._clusters(job) == ["south"], f"the job is on {self._clusters(job)}")
        write("its walltime was 0:12:0 and is 0:10:0\n")
        self._summed(job, r"remap north 2, south 2 at .* -> south 4 at .*: moved")
        for number in others:
            self._delete("north", number)

    def _spread(self, procs: int, operation: str) -> int:
        """Submit the program of MPI over clusters; return its number."""
        options = ("--parts", "any", "-l", f"core={procs},walltime=0:10:0", "--overhead", "20%")
        (job,) = self._submit(*options, "--operation", operation, "./sum.sh")
        self._show("oargridstat", "--why", str(job))
        return job

    def _summed(self, job: int, moved: str) -> None:
        """Wait until the program has ended, and check where its job was moved, and its result."""
        self._wait_for_end(job)
        self._hold(re.search(moved, self._show("oargridstat", "--moves", str(job))) is not None, "it did not move so")
        self._hold(self._state(job) == "Terminated", f"job {job} is {self._state(job)}")
        summed = (self._grid.home / f"sum.{job}").read_text().strip()
        write(f"the sum is {summed}, as on one host\n")
        self._hold(summed == str(mpi_job.RESULT), f"the sum should be {mpi_job.RESULT}")

    def _walltimes(self, job: int) -> list[int]:
        """Return the walltimes of the parts that wait, in seconds, each once."""
        query = "SELECT DISTINCT extract(epoch FROM walltime)::int FROM grid_parts WHERE job = %s AND state = 'Waiting'"
        return [seconds for (seconds,) in self._grid.sql(query, job)]
