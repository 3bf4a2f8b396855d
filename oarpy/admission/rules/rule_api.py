"""The names an admission rule works with, and nothing else.

Administrators write the rules and are trusted. The narrow namespace catches mistakes: a wrong type, a forgotten import,
a change that the trace does not show. It does not stop a deliberate escape.

===========================  =====================================================================================
``job``                      the submission: attributes as in :class:`~oarpy.model.submission.Submission`
``site``                     questions about the cluster: :class:`~oarpy.admission.rules.site.Site`
``settings(name, default)``  a value of the configuration's sections ``[submission]`` and ``[site]``
``refuse(message)``          refuse the submission and stop
``note(message)``            show a line to the user (``print`` does the same)
``add_property(sql)``        AND a condition to the job's property filter
``restrict_groups(sql)``     AND a condition to each resource group (``unless_named="type"``: not to one naming it)
``add_type``, ``drop_type``  add a type, take one away
``set_walltime(value)``      walltime in seconds or as text, of all alternatives or of the one at ``position``
``names_property(sql, n)``   whether a filter names the property ``n``
``job_types``                the types known here: :data:`~oarpy.model.job_types.TYPES`, by name
``cores(n)``                 how many cores alternative ``n`` (from 0) would take; 0: it can never be served
``read_date``                ``2026-01-31 12:00:00`` to a date, ValueError if it is none
``matches(pattern, text)``   whether the whole text matches a regular expression
===========================  =====================================================================================
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import importlib
import re
from datetime import datetime
from types import ModuleType
from typing import Any, NoReturn

from oarpy.admission.filters import filters
from oarpy.admission.rules.site import Site
from oarpy.model.dates import read_instant
from oarpy.model.durations import parse_duration
from oarpy.model.errors import UsageError
from oarpy.model.job_types import TYPES
from oarpy.model.request import Group
from oarpy.model.submission import FIELDS, Field, Submission

MAXIMUM_NOTES = 100
"""Most lines one rule may show."""

_BUILTINS = """
    abs all any bool dict divmod enumerate filter float frozenset int isinstance iter len list map max min next range
    repr reversed round set slice sorted str sum tuple zip
    Exception ArithmeticError AttributeError IndexError KeyError LookupError RuntimeError StopIteration TypeError
    ValueError ZeroDivisionError
"""


class RuleRefusal(Exception):
    """Raised by ``refuse``: the rule's own decision, not a mistake in it."""


class Job:
    """The submission as a rule sees it: known attributes only, every assignment checked."""

    __slots__ = ("_api",)
    _api: RuleApi

    def __init__(self, api: RuleApi) -> None:
        object.__setattr__(self, "_api", api)

    def __getattr__(self, name: str) -> object:
        _known(name)
        return getattr(self._api.submission, name)

    def __setattr__(self, name: str, value: object) -> None:
        if _known(name).read_only:
            raise AttributeError(f"job.{name} cannot be changed by a rule")
        changed = self._api.submission.with_values({name: value})
        if name == "properties" and changed.properties:
            filters.check_condition(changed.properties)
        self._api.submission = changed


def _known(name: str) -> Field:
    """Return the properties of an attribute of ``job``."""
    if name not in FIELDS:
        raise AttributeError(f"a job has no '{name}', only {', '.join(FIELDS)}")
    return FIELDS[name]


class RuleApi:
    """The actions of one rule: ``submission`` is its present state, ``notes`` collects the notes of the rule."""

    def __init__(self, submission: Submission, site: Site) -> None:
        self.submission = submission
        self.site = site
        self.notes: list[str] = []

    def namespace(self) -> dict[str, object]:
        """Return the globals of a rule: these names, and the chosen builtins."""
        return {
            "__builtins__": _ALLOWED | {"print": self.show},
            "job": Job(self),
            "site": self.site,
            "settings": self.settings,
            "refuse": self.refuse,
            "note": self.note,
            "add_property": self.add_property,
            "restrict_groups": self.restrict_groups,
            "add_type": self.add_type,
            "drop_type": self.drop_type,
            "set_walltime": self.set_walltime,
            "cores": self.cores,
            "names_property": names_property,
            "job_types": TYPES,
            "read_date": read_date,
            "matches": matches,
        }

    def refuse(self, message: str) -> NoReturn:
        """Refuse the submission."""
        raise RuleRefusal(str(message))

    def note(self, message: str) -> None:
        """Show one line to the user."""
        if len(self.notes) >= MAXIMUM_NOTES:
            raise RuntimeError(f"more than {MAXIMUM_NOTES} notes")
        self.notes.append(" ".join(str(message).split())[:1000])

    def show(self, *values: object) -> None:
        """Note a line, as administrators expect of ``print``."""
        self.note(" ".join(map(str, values)))

    def settings(self, name: str, default: object) -> object:
        """Return the setting ``name``, or ``default`` where it is not set."""
        value = self.site.settings.get(name)
        return default if value is None else value

    def add_property(self, sql: str) -> None:
        """AND ``sql`` to the property filter, once."""
        filters.check_condition(sql)
        if not filters.holds_condition(self.submission.properties, sql):
            self._change(properties=_joined(self.submission.properties, sql))

    def restrict_groups(self, sql: str, unless_named: str | None = None) -> None:
        """AND ``sql``, once, to the filter of every resource group, or of those that do not name a property."""
        filters.check_condition(sql)

        def restricted(group: Group) -> Group:
            named = unless_named is not None and names_property(group.filter, unless_named)
            if named or filters.holds_condition(group.filter, sql):
                return group
            return dataclasses.replace(group, filter=_joined(group.filter, sql))

        self._change(
            alternatives=tuple(
                dataclasses.replace(request, groups=tuple(map(restricted, request.groups)))
                for request in self.submission.alternatives
            )
        )

    def add_type(self, word: str) -> None:
        """Add a type, once."""
        if word not in self.submission.types:
            self.submission = self.submission.changed(types=(*self.submission.types, word))

    def drop_type(self, word: str) -> None:
        """Take a type away, if it is there."""
        self._change(types=tuple(kind for kind in self.submission.types if kind != word))

    def set_walltime(self, value: int | str, position: int | None = None, *, only_missing: bool = False) -> None:
        """Set the walltime (seconds, or text such as ``1:30:0``) of all alternatives, of one, or of those without."""
        seconds = parse_duration(value) if isinstance(value, str) else value
        if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds <= 0:
            raise TypeError(f"a walltime is a number of seconds above 0, not {value!r}")
        count = len(self.submission.alternatives)
        if position is not None and not 0 <= position < count:
            raise IndexError(f"no alternative {position}, the job has {count}")
        self._change(
            alternatives=tuple(
                dataclasses.replace(request, walltime=seconds)
                if position in (None, place) and not (only_missing and request.walltime is not None)
                else request
                for place, request in enumerate(self.submission.alternatives)
            )
        )

    def cores(self, position: int = 0) -> int:
        """Return how many cores the alternative at ``position`` would take, 0 if it can never be served.

        A core is a row of the resources. A job without alternatives is tried with the default resources.
        """
        requests = self.submission.alternatives
        request = str(requests[position]) if requests else str(self.site.settings["default_resources"])
        return self.site.cores(request, self.submission.properties, self.submission.types)

    def _change(self, **values: Any) -> None:
        """Change fields of the submission."""
        self.submission = self.submission.changed(**values)


def _joined(condition: str, addition: str) -> str:
    """AND two filters; refuse a user's filter that would become too long or too deep by this."""
    joined = filters.join_conditions(condition, addition)
    try:
        filters.check_condition(joined)
    except UsageError as error:
        raise RuleRefusal(f"{error.message} once '{addition}' is added, shorten it") from None
    return joined


def names_property(sql: str, name: str) -> bool:
    """Tell whether the filter ``sql`` (may be empty) names the property ``name``."""
    return bool(sql) and name in filters.check_condition(sql)


def read_date(text: str) -> datetime:
    """Read ``YYYY-MM-DD [hh[:mm[:ss]]] [+hh:mm]`` or epoch seconds; without an offset the server's zone is meant.

    Raises ValueError when it is no date.
    """
    return read_instant(text)


def matches(pattern: str, text: str) -> bool:
    """Tell whether the whole of ``text`` matches the regular expression ``pattern`` (ASCII classes)."""
    return _pattern(pattern).fullmatch(text) is not None


@functools.lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


_MODULES_OF_DATES = {name: importlib.import_module(name) for name in ("time", "_strptime")}
"""Modules that Python itself imports, with the rule's names, when a date is formatted or read."""


def _import(name: str, *_: object) -> ModuleType:
    if name not in _MODULES_OF_DATES:
        raise ImportError(f"a rule cannot import {name}")
    return _MODULES_OF_DATES[name]


_ALLOWED: dict[str, object] = {name: getattr(builtins, name) for name in _BUILTINS.split()} | {"__import__": _import}
