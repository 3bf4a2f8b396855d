"""Functions of installed packages that are found by their names: entry points, a group for each kind.

A plug-in is a pure function. It is called in the place of the built-in function, with the same arguments. If it raises
an error, the message names the line that raised it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from oarpy.model.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

RESERVATION_ORDERS = "oarpy.reservation_orders"
"""(job, now) -> sort key: the order in which reservations get places in their windows."""
COALLOCATIONS = "oarpy.coallocations"
"""(clusters, request, instants) -> place or None: where a parallel job starts on several clusters."""
COMPOSITIONS = "oarpy.compositions"
"""(tasks, deadline, offers, strengths) -> tasks by cluster: how a bag is shared out."""
PREDICTORS = "oarpy.predictors"
"""(job, runs of its user, the latest first) -> seconds: how long a job will run."""
MAPPINGS = "oarpy.mappings"
"""(cores by type, rates, program) -> map: which process runs where."""


class PluginFailed(UsageError):
    """A plug-in raised, cannot be loaded, or returned an unusable value."""


def names(group: str) -> tuple[str, ...]:
    """Return the names of the plug-ins of a group."""
    return tuple(sorted(name for name in _points(group) if "." not in name))


def plugin(group: str, name: str) -> Callable[..., Any]:
    """Return a plug-in. Raises :class:`PluginFailed` when there is none, or it cannot be loaded."""
    if name not in names(group):
        raise PluginFailed(f"no plug-in '{name[:40]}' is installed in {group}", hint="pip install its package")
    point = _points(group)[name]
    try:
        function = point.load()
    except (Exception, SystemExit) as error:  # a plug-in may raise anything
        raise PluginFailed(f"plug-in '{name}' cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise PluginFailed(f"plug-in '{name}' is not a function", hint=f"mend {point.value}")

    def guarded(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:  # a plug-in may raise anything
            last = extract_tb(error.__traceback__)[-1]
            what = f"plug-in '{name}' raised {type(error).__name__}: {error}"
            raise PluginFailed(what[:300], hint=f"{last.filename}, line {last.lineno}") from error

    return guarded


@contextmanager
def looking_at(name: str) -> Iterator[None]:
    """Guard the use of a plug-in's value: any error becomes :class:`PluginFailed`."""
    try:
        yield
    except PluginFailed:
        raise
    except Exception as error:  # the value may be of any type
        what = f"plug-in '{name}' gives what cannot be used: {type(error).__name__}: {error}"
        raise PluginFailed(what[:300]) from error


@cache
def _points(group: str) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # only where a name is none of ours

    return {point.name: point for point in entry_points(group=group)}
