"""The transcript of a grid that runs on this machine: commands of its user, with their output and what follows."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Callable
from typing import Any

from oarpy.grid.local.local_grid import LocalGrid
from oarpy.model.errors import OarpyError

CORES = {"north": 4, "south": 4, "west": 2}
DEADLINE = 25
"""Seconds until components begin."""
_TIMEOUT = 120.0
_POLL = 0.25
_LATE = 6
"""Exit status of a command that clusters did not answer in time."""


class Transcript:
    """The building blocks of steps."""

    def __init__(self, grid: LocalGrid) -> None:
        self._grid = grid
        self._local: dict[str, int] = {}

    def _fill(self, cluster: str, walltime: str, *options: str) -> int:
        """Submit a local job of the whole cluster, and wait until it runs."""
        self._local[cluster] = self._run_local(cluster, f"/core={CORES[cluster]},{walltime}", *options)
        return self._local[cluster]

    def _delete_local(self, cluster: str) -> None:
        """Delete the local job of a cluster, and wait until it is idle."""
        self._delete(cluster, self._local.pop(cluster))

    def _occupy(self, cluster: str, cores: int, minutes: int) -> int:
        """Submit a local job of some cores of a cluster, and wait until it runs; return its number."""
        return self._run_local(cluster, f"/core={cores},walltime=0:{minutes}:0")

    def _run_local(self, cluster: str, request: str, *options: str) -> int:
        words = ("oarsub", "-d", str(self._grid.home), *options, "-l", request, "sleep 3600")
        job = int(self._show(*words, on=cluster).rpartition("OAR_JOB_ID=")[2].split()[0])
        self._grid.clusters[cluster].wait_for([job], ("Running",), _TIMEOUT)
        return job

    def _delete(self, cluster: str, job: int) -> None:
        """Delete a local job, and wait until it is over."""
        self._show("oardel", str(job), on=cluster)
        self._grid.clusters[cluster].wait_for([job], ("Error", "Terminated"), _TIMEOUT)

    def _submit(self, *words: str) -> list[int]:
        printed = self._show("oargridsub", "-d", str(self._grid.home), *words)
        return [int(number) for number in re.findall(r"Grid reservation id = (\d+)", printed)]

    def _end(self, job: int) -> None:
        self._show("oargriddel", str(job))
        self._wait("the job is over", lambda: self._state(job) == "Error")

    def _job(self, job: int) -> dict[str, Any]:
        """Return a job as ``oargridstat -J`` has it."""
        (record,) = json.loads(self._grid.run("oargridstat", "-J", str(job)).stdout)
        return dict(record)

    def _state(self, job: int) -> str:
        return str(self._job(job)["state"])

    def _wait_for_end(self, job: int) -> None:
        self._wait("the job is over", lambda: self._state(job) in ("Terminated", "Error"))

    def _clusters(self, job: int) -> list[str]:
        return [component["part"]["cluster"] for component in self._job(job)["components"] if component["part"]]

    def _show(self, *words: str, on: str = "", status: int = 0, late: bool = False) -> str:
        """Run a command of the user and print it with its output.

        ``status`` is the expected exit status. With ``late``, it may also say that clusters have not answered yet.
        """
        write(f"{f'({on}) ' if on else ''}$ {shlex.join(words)}\n")
        done = self._grid.run(*words, on=on, check=False)
        write(done.stdout + done.stderr)
        expected = done.returncode == status or (late and done.returncode == _LATE)
        self._hold(expected, f"{words[0]} ended with {done.returncode}, not {status}")
        return done.stdout + done.stderr

    def _show_as_admin(self, *words: str) -> None:
        write(f"(admin) $ {shlex.join(words)}\n{self._grid.broker.run(*words).stdout}")

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + _TIMEOUT + DEADLINE
        while not condition():
            if time.monotonic() > until:
                raise OarpyError(f"not within {_TIMEOUT + DEADLINE:g} s: {what}", hint="see the server.log of each")
            time.sleep(_POLL)

    def _wait_for_ability(self, ability: str) -> None:
        """Wait until the broker knows that every cluster can do something."""
        query = "SELECT count(*) FROM grid_clusters WHERE %s = ANY(abilities)"
        self._wait(f"all clusters can {ability}", lambda: self._grid.sql(query, ability) == [(len(CORES),)])

    @staticmethod
    def _hold(holds: bool, what: str) -> None:
        if not holds:
            raise OarpyError(what, hint="this is not what should happen")


def say(text: str) -> None:
    """Print the headline of a step."""
    write(f"\n# {text}\n")


def write(text: str) -> None:
    """Print text at once."""
    sys.stdout.write(text)
    sys.stdout.flush()
