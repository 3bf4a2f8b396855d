"""Measuring a program on a node, for a job that waits for that.

Rates: a script is called as ``SCRIPT SIZE ITERATIONS`` and timed, with more and more iterations until its rate is
steady. Where it prints a line ``rate X``, that counts. The profile of a bag: a script is called without arguments; its
last line is the seconds of a task.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ITERATIONS = (1, 3, 5, 10, 50, 100, 250)
STEADY = 0.05
"""Two rates differ by less than this part of the first: the second one is the rate."""
_MOST_TEXT = 1 << 20
_HIGHEST = float(1 << 53)


class Unmeasurable(Exception):
    """The script gives no number; the text says why."""


def told(arguments: Sequence[str]) -> list[str]:
    """Measure as ``oarrates --measure SCRIPT [SIZES]`` says; return the words with which ``oarrates`` tells what came.

    Without sizes it is the profile of a bag.
    """
    script, *rest = arguments
    tell = ["--tell", os.environ.get("OAR_JOB_ID", "")]
    try:
        if not rest:
            return [*tell, "--seconds", repr(task_seconds(script))]
        rates = [(size, steady_rate(partial(one_rate, script, size))) for size in rest[0].split(",")]
    except Unmeasurable as error:
        return [*tell, "--failed", str(error)]
    return [*tell, "--rates", ",".join(f"{size}={rate!r}" for size, rate in rates)]


def steady_rate(run: Callable[[int], float]) -> float:
    """Return the first rate that is near the one before it, else the last; ``run`` gives that of so many iterations."""
    before = None
    for count in ITERATIONS:
        rate = run(count)
        if before is not None and abs(rate - before) < STEADY * before:
            break
        before = rate
    return rate


def one_rate(script: str, size: str, count: int) -> float:
    """Run the script; return iterations a second. Raises :class:`Unmeasurable`."""
    call = f"{script} {size} {count}"
    began = time.monotonic()
    text = _printed(call, [script, size, str(count)])
    seconds = time.monotonic() - began
    words = [line.split() for line in text.splitlines()]
    said = [word for word in words if word[:1] == ["rate"]]
    return _number(call, "the rate", said[-1][1:]) if said else min(count / max(seconds, 1e-9), _HIGHEST)


def task_seconds(script: str) -> float:
    """Run the script; return the seconds of a task, which is its last line. Raises :class:`Unmeasurable`."""
    lines = _printed(script, [script]).split("\n")
    last = next((words for line in reversed(lines) if (words := line.split())), None)
    if last is None:
        raise Unmeasurable(f"{script} prints nothing")
    return _number(script, "the seconds", last)


def _printed(call: str, command: Sequence[str]) -> str:
    """Run a command; return what it prints. Raises :class:`Unmeasurable`."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise Unmeasurable(f"{call}: {error.strerror}") from None
    text = _output(process)
    if text is None:
        raise Unmeasurable(f"{call} prints more than {_MOST_TEXT} bytes")
    if process.returncode:
        raise Unmeasurable(f"{call} ends with status {process.returncode}")
    return text


def _output(process: subprocess.Popen[bytes]) -> str | None:
    """Return what a program prints, None if that is too much: then it is killed, with all that it started."""
    assert process.stdout is not None
    with process.stdout:
        content = process.stdout.read(_MOST_TEXT + 1)
        if len(content) > _MOST_TEXT:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return None if len(content) > _MOST_TEXT else content.decode("utf-8", "replace")


def _number(call: str, what: str, words: list[str]) -> float:
    try:
        number = float(words[0]) if len(words) == 1 else math.nan
    except ValueError:
        number = math.nan
    if not 0 < number <= _HIGHEST:
        raise Unmeasurable(f"{call} prints {what} '{' '.join(words)[:40]}', which is no number above 0")
    return number
