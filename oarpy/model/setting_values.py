"""Values of settings that have a grammar of their own: policies, nodes to keep awake, walltime limits, idle GPUs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from oarpy.model.durations import parse_duration
from oarpy.model.errors import UsageError

PolicyName = Literal["conservative", "easy", "fcfs", "first_fit"]
"""The values of ``scheduler.policy``; :mod:`oarpy.scheduler.passes.backfilling` has a class for each."""
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
PredictionName = Literal["walltime", "last2", "similar"]
"""The values of ``scheduler.prediction``; :mod:`oarpy.scheduler.predictors.run_times` has the predictors."""
RankRule = Literal["first-request", "submission"]
"""The instant that ranks applications: their first request, or their submission."""
GhostRule = Literal["needed", "always"]
"""The time that freed hosts are kept back: while an application may need them, or always the whole time."""
ReservationOrder = Literal["shuffle", "fifo", "bjf", "lff", "edf"]
"""In which order reservations get places in their windows; :mod:`oarpy.scheduler.windows.window_jobs` has them."""
FORESEEING: frozenset[PolicyName] = frozenset({"conservative", "fcfs"})
"""Policies that foresee a start for every waiting job that may ever start on this platform."""

DEVICE_RULES = (
    *("/dev/nvidia[0-9]*: own", "/dev/nvidia-caps/*: own", "/dev/dri/*: own"),
    *("/dev/nvidia*: any", "/dev/kfd: any"),
)
"""The files of GPUs that a job opens only if it has that GPU, or any."""
_HOLDERS = ("own", "any")

UNLIMITED = -1

_LIMIT = re.compile(r"(?:([A-Za-z][A-Za-z0-9_.-]*)=)?(-1|\d{1,9}|\d?\.\d{1,9})", re.ASCII)


def limit_of(texts: Sequence[str], queue: str, walltime: float) -> int:
    """Return the limit in seconds for a job of ``queue`` that was started with ``walltime`` seconds.

    It is 0 without any limit, and -1 (:data:`UNLIMITED`) if any change is allowed. Raises :class:`UsageError` for an
    invalid limit.

    >>> limit_of(["7200", "night=0.5"], "default", 1000), limit_of(["7200", "night=0.5"], "night", 1000)
    (7200, 500)
    """
    limits: dict[str | None, str] = {}
    for text in texts:
        match = _LIMIT.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"'{text[:80]}' is no limit of a walltime change", hint="seconds, 0.5 of the walltime, or queue=LIMIT"
            )
        limits[match[1]] = match[2]
    limit = limits.get(queue, limits.get(None, "0"))
    return int(float(limit) * walltime) if "." in limit else int(limit)


def read_keep_alive(texts: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Read entries of ``energy.keep_alive``; raise :class:`UsageError` for an entry of another form.

    >>> read_keep_alive(["gpu = 1: 2", ": 1"])
    (('gpu = 1', 2), ('', 1))
    """
    rules = []
    for text in texts:
        condition, _, number = text.rpartition(":")
        if not (number.strip().isascii() and number.strip().isdigit()):
            raise UsageError(f"energy.keep_alive: '{text}' has no number of nodes", hint="CONDITION: NUMBER")
        rules.append((condition.strip(), int(number)))
    return tuple(rules)


def read_device_rules(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Read entries of ``nodes.device_rules``; raise :class:`UsageError` for an entry of another form.

    >>> read_device_rules(["/dev/nvidia[0-9]*: own", "/dev/kfd: any"])
    (('/dev/nvidia[0-9]*', 'own'), ('/dev/kfd', 'any'))
    """
    rules = []
    for text in texts:
        pattern, _, holder = (part.strip() for part in text.rpartition(":"))
        if not pattern.startswith("/dev/") or holder not in _HOLDERS:
            raise UsageError(f"nodes.device_rules: '{text}' is no rule for devices", hint="/dev/PATTERN: own, or: any")
        rules.append((pattern, holder))
    return tuple(rules)


def read_private_directories(paths: Iterable[str], state: str) -> tuple[str, ...]:
    """Read entries of ``nodes.private_directories``; raise :class:`UsageError` for an entry that no job can have.

    The state directory of nodes must not be in one of them: jobs read files there.

    >>> read_private_directories(["/tmp", "/dev/shm"], "/var/lib/oarpy/node")
    ('/tmp', '/dev/shm')
    """
    read: list[str] = []
    for path in paths:
        problem = ""
        if not re.match("/(?!/)", path) or posixpath.normpath(path) != path or not path.isprintable():
            problem = "is no plain path from /"
        elif path == "/" or any(_is_in(path, kernel) for kernel in ("/proc", "/sys")) or path == "/dev":
            problem = "is not for files of jobs"
        elif clash := next((other for other in read if _is_in(path, other) or _is_in(other, path)), ""):
            problem = f"and '{clash}' are one in the other"
        elif _is_in(state, path):
            problem = f"has nodes.state_directory, {state}, in it"
        if problem:
            raise UsageError(f"nodes.private_directories: {path!r} {problem}", hint="/tmp and /dev/shm, for example")
        read.append(path)
    return tuple(read)


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class IdleGpus:
    """The seconds of idle GPUs after which the user of a job is warned, and the job ended; None: never."""

    warn: int | None = None
    end: int | None = None


def read_idle_gpus(text: str) -> IdleGpus:
    """Read ``jobs.idle_gpu``; raise :class:`UsageError` for a text of another form.

    >>> read_idle_gpus("15m: warn, 1h: end"), read_idle_gpus("")
    (IdleGpus(warn=900, end=3600), IdleGpus(warn=None, end=None))
    """
    seconds: dict[str, int] = {}
    for step in text.split(",") if text.strip() else ():
        after, _, deed = (part.strip() for part in step.rpartition(":"))
        if deed not in ("warn", "end") or deed in seconds:
            raise UsageError(
                f"jobs.idle_gpu: '{step.strip()[:60]}' does not say what to do when", hint="15m: warn, 1h: end"
            )
        try:
            seconds[deed] = parse_duration(after)
        except UsageError as error:
            raise UsageError(f"jobs.idle_gpu: {error.message}", hint=error.hint) from None
    idle = IdleGpus(seconds.get("warn"), seconds.get("end"))
    if idle.warn is not None and idle.end is not None and idle.warn >= idle.end:
        raise UsageError(f"jobs.idle_gpu: '{text[:60]}' warns when the job is over", hint="15m: warn, 1h: end")
    return idle
