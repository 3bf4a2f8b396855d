"""What a rank has of the process that called ``oarsrun``: its umask, its limits, on its node also its processors.

Limits are soft ones: as far as the hard limits of the node allow.
"""

from __future__ import annotations

import os
import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

_NUMBERS = tuple(sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}))
_ENDLESS = resource.RLIM_INFINITY


def of_caller() -> dict[str, Any]:
    """Return the surroundings of this process."""
    mask = os.umask(0o077)
    os.umask(mask)
    limits = {number: resource.getrlimit(number)[0] for number in _NUMBERS}
    return {"umask": mask, "limits": limits, "processors": sorted(os.sched_getaffinity(0))}


def hard_limits() -> str:
    """Return the hard limits of this process, as a word: nobody but root raises them again."""
    return " ".join(str(resource.getrlimit(number)[1]) for number in _NUMBERS)


def open_many_files() -> None:
    """Let this process have as many files open as it may: each rank takes three."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Worn:
    """The surroundings of a caller, while this process starts a rank, which inherits them.

    ``here``: the caller is on this node.
    """

    def __init__(self, given: Mapping[str, Any], *, here: bool) -> None:
        self._given = given
        self._here = here
        self._mask = 0
        self._limits: list[tuple[int, tuple[int, int]]] = []
        self._processors = os.sched_getaffinity(0)

    def put_on(self, processors: Iterable[int]) -> None:
        """Take them on; ``processors`` are those of the rank: it gets all of them, or it is not bound."""
        for wanted in (set(processors), set(self._given["processors"]) if self._here else set()):
            if wanted and _bind(wanted) and os.sched_getaffinity(0) == wanted:
                break
            _bind(self._processors)
        self._mask = os.umask(self._given["umask"])
        for number, soft in self._given["limits"].items():
            before = resource.getrlimit(number)
            allowed = _lower(soft, before[1])
            # processor time that this process has used is no rank's
            if allowed != before[0] and number != resource.RLIMIT_CPU:
                self._limits.append((number, before))
                resource.setrlimit(number, (allowed, before[1]))

    def take_off(self) -> None:
        """Take on again what this process had before."""
        for number, before in self._limits:
            resource.setrlimit(number, before)
        self._limits.clear()
        os.umask(self._mask)
        _bind(self._processors)

    def limit_time(self, pid: int) -> None:
        """Give a rank that was started its limit of processor time."""
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        soft = self._given["limits"].get(resource.RLIMIT_CPU, _ENDLESS)
        if soft != _ENDLESS:
            try:
                resource.prlimit(pid, resource.RLIMIT_CPU, (_lower(soft, hard), hard))
            except OSError:  # it has ended, or has become another user
                return


def _bind(processors: Iterable[int]) -> bool:
    try:
        os.sched_setaffinity(0, processors)
    except OSError:  # none of them is the job's
        return False
    return True


def _lower(one: int, other: int) -> int:
    if _ENDLESS in (one, other):
        return other if one == _ENDLESS else one
    return min(one, other)
