"""``oarpy grid simulate``: read scenarios, run them, print the courses of their jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from math import isnan
from typing import Any, TextIO

from oarpy.grid.simulation.promised.systems import read_world
from oarpy.grid.simulation.queues_run import QueuesRun
from oarpy.grid.simulation.reader import read_grid
from oarpy.grid.simulation.system_of_file import QUEUES, system_of
from oarpy.model.errors import UsageError
from oarpy.simulation.scenarios.input_file import answer_files, text_of
from oarpy.simulation.stepping.stepped_run import SteppedRun, Stop, opened_log, plain, play, refuse_input


def run_grid(paths: Sequence[str], out: TextIO, err: TextIO, stop: Stop | None = None, log: str | None = None) -> int:
    """Simulate each file and write one JSON object a line for each to ``out``; return the exit status.

    A file that is no scenario gets one line on ``err`` and the status 2; the others are still simulated. Events are
    logged to the file ``log``, one a line.
    """
    stop = Stop() if stop is None else stop
    if stop.until is not None and isnan(stop.until):
        raise UsageError("--until: no instant", hint="give seconds")
    if log is not None:
        refuse_input(log, paths)
    with nullcontext() if log is None else opened_log(log) as lines:

        def played(read: tuple[str, SteppedRun]) -> str:
            path, run = read
            named = {"file": path} if len(paths) > 1 else {}
            return json.dumps(plain(play(run, stop, lines, named)))

        return answer_files(paths, out, err, lambda path: (path, run_of(text_of(path))), played)


def run_of(text: str) -> SteppedRun:
    """Return the run of a file before its first event. Raises :class:`UsageError`."""
    system = system_of(text)
    return QueuesRun(read_grid(text)) if system == QUEUES else read_world(text, system)


def object_of(text: str, stop: Stop | None = None) -> dict[str, Any]:
    """Run the text of a file and return the object to print. Raises :class:`UsageError`."""
    return {key: plain(value) for key, value in play(run_of(text), stop or Stop()).items()}
