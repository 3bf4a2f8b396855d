"""Types of jobs: the table of the words of ``oarsub -t``, and the meaning of a job's words together.

A word is ``NAME``, ``NAME=ARGUMENT`` or (``token``) ``NAME:ARGUMENT``. Words that are not in :data:`TYPES` have no
effect here and are kept: a site may offer them, and quotas and factors may name them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from oarpy.model.dates import NO_DATES, JobDates, read_date, read_instant
from oarpy.model.errors import UsageError

PASSIVE, INTERACTIVE = "PASSIVE", "INTERACTIVE"
"""Kinds of jobs: a passive job runs its command, an interactive job a shell of its user."""

BESTEFFORT = "besteffort"
"""The type, and the queue, of jobs that may be cancelled at any time."""

Effect = Callable[[str | None], Mapping[str, Any]]
"""Takes the argument of a word (None: it has none) and returns the fields of :class:`JobTypes` that it sets."""


SINGLETON = "singleton="
"""The beginning of a type; the rest is a name. One job of a user and name runs at a time."""


class Usable(Enum):
    """The sites that offer a type by default."""

    ALWAYS = "always"
    WITH_A_HOST = "where the site names a host for such jobs"
    NOWHERE = "nowhere: a word of other versions of OAR"


@dataclass(frozen=True, slots=True)
class JobType:
    """One word of ``oarsub -t``: its spelling, its effect, and where it can be used.

    ``shape`` is the pattern of its argument ("" = it takes none), ``forms`` are its spellings for users. ``date`` is
    the field of :class:`JobDates` that it sets. ``shares`` lets other jobs hold the same resources meanwhile.
    ``interactive`` and ``suspendable`` tell whether a job of this type may be so. ``guide`` is the place in the guide
    of types with more about it.
    """

    name: str
    help: str
    forms: tuple[str, ...] = ()
    shape: str = ""
    means: Effect | None = None
    date: str = ""
    shares: bool = False
    interactive: bool = True
    suspendable: bool = True
    usable: Usable = Usable.ALWAYS
    usage: str = ""
    guide: str = ""

    @property
    def spellings(self) -> tuple[str, ...]:
        """The forms of the word, for people."""
        return self.forms or (f"{self.name}=DATE" if self.date else self.name,)

    def fault(self, word: str) -> str:
        """Return the error in the spelling of ``word``; "" if it is well formed."""
        _, argument = split_word(word)
        if self.date:
            return _fault_of_date(self.name, word, argument or "")
        if not self.shape:
            return "" if argument is None else f"job type '{word}' takes no argument, write -t {self.name}"
        if argument != "" and re.fullmatch(self.shape, argument or "", re.ASCII):
            return ""
        return f"job type '{word}' is not complete or not valid, write -t {self.usage or ' or '.join(self.forms)}"


class Sharing(NamedTuple):
    """The partners of a timesharing job: jobs of the same user, of the same name, or (False) of any."""

    same_user: bool
    same_name: bool


@dataclass(frozen=True, slots=True)
class JobTypes:
    """The meaning of a job's types together.

    ``containers`` are the names of the containers that it opens ("" = its own id). ``inside`` is the container that it
    lies in. ``host`` is ``deploy`` or ``cosystem`` for a job whose program runs on that host of the site. ``alone`` is
    False for a job that leaves room for others on its resources. ``whole_nodes`` gives it all resources of its nodes.
    ``negotiates`` means that its launcher chooses its hosts.
    """

    idempotent: bool = False
    runs_nothing: bool = False
    host: str = ""
    any_state: bool = False
    without_quotas: bool = False
    containers: tuple[str, ...] = ()
    inside: str | None = None
    timesharing: Sharing | None = None
    placeholders: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    alone: bool = True
    whole_nodes: bool = False
    negotiates: bool = False
    kept: int = 0
    """Seconds for which it keeps its resources after its program has ended."""
    dated: tuple[str, ...] = ()
    """The words that hold a date, as written."""

    @property
    def guest(self) -> bool:
        """True for a job that may lie beside others: inside a container, or where a placeholder allows it."""
        return self.inside is not None or bool(self.allowed)

    @property
    def permissive(self) -> bool:
        """True for a job that takes resources that are Absent or Suspected too: it runs nothing there, and says so."""
        return self.any_state and (self.runs_nothing or self.host == "cosystem")

    def dates(self) -> JobDates:
        """Return the dates of the types, in epoch seconds; dates without an offset are in the local time zone.

        Raises :class:`UsageError` for an invalid date or one given twice.
        """
        if not self.dated:
            return NO_DATES
        dates: dict[str, float] = {}
        for word in self.dated:
            name, argument = split_word(word)
            if TYPES[name].date in dates:
                raise UsageError(f"job type {name} is given twice", hint="leave one out")
            try:
                dates[TYPES[name].date] = _instant(argument or "")
            except ValueError:
                raise UsageError(
                    f"job type '{word[:80]}' needs a date", hint=f"write -t '{name}=YYYY-MM-DD hh:mm:ss'"
                ) from None
        return JobDates(**dates)


def read_types(words: Iterable[str]) -> JobTypes:
    """Return the meaning of the words of ``oarsub -t``; each distinct list of words is read once.

    >>> read_types(["besteffort", "noop=standby"]).runs_nothing, read_types(["noop_like"]) == JobTypes()
    (True, True)
    """
    return _read(tuple(words))


def known_types(words: Iterable[str]) -> dict[str, JobType]:
    """Return the types that are known here, by the words that name them.

    >>> [kind.name for kind in known_types(["inner=7", "qos=2", "token:licence=2"]).values()]
    ['inner', 'token']
    """
    return {word: TYPES[name] for word in words if (name := split_word(word)[0]) in TYPES}


def split_word(word: str) -> tuple[str, str | None]:
    """Return the name and the argument of a word, None for no argument.

    >>> split_word("inner=7"), split_word("token:licence=2"), split_word("noop")
    (('inner', '7'), ('token', 'licence=2'), ('noop', None))
    """
    name, separator, argument = word.partition(":" if word.startswith("token:") else "=")
    return name, argument if separator else None


def with_offsets(words: Iterable[str]) -> tuple[str, ...]:
    """Return the types with their dates written so that they mean the same later, and in every time zone.

    ``+1h`` and ``tomorrow`` count from now. Words without a valid date stay unchanged.
    """
    return tuple(_with_offset(word) for word in words)


_SEVERAL = frozenset({"containers", "placeholders", "allowed"})
"""Fields that collect the values of several words; for other fields the first word counts."""


@lru_cache(maxsize=4096)
def _read(words: tuple[str, ...]) -> JobTypes:
    """Collect the fields that the known words set; the others keep their defaults."""
    fields: dict[str, Any] = {}
    for word, kind in known_types(words).items():
        if kind.shares:
            fields["alone"] = False
        if kind.date:
            fields["dated"] = (*fields.get("dated", ()), word)
        for field, value in kind.means(split_word(word)[1]).items() if kind.means else ():
            if field in _SEVERAL:
                fields[field] = (*fields.get(field, ()), value)
            else:
                fields.setdefault(field, value)
    return JobTypes(**fields)


def _sets(field: str, value: object = True, *, standby: bool = False) -> Effect:
    """Return the effect of a word that stands alone, or with ``=standby``, which means the same."""
    return lambda argument: {field: value} if argument is None or (standby and argument == "standby") else {}


def _names(field: str) -> Effect:
    """Return the effect of a word whose argument is a name."""
    return lambda argument: {field: argument} if argument else {}


def _timesharing(argument: str | None) -> Mapping[str, Any]:
    """Return the effect of ``timesharing=user,name``; a bare word shares with any job."""
    words = {word.strip() for word in argument.split(",")} if argument else {"*"}
    known = words <= {"*", "user", "name"}
    return {"timesharing": Sharing("user" in words, "name" in words) if known else None}


def _kept(argument: str | None) -> Mapping[str, Any]:
    """Return the effect of ``kept=600``."""
    return {"kept": int(argument)} if argument and re.fullmatch(_SECONDS, argument, re.ASCII) else {}


_SECONDS = r"[1-9][0-9]{0,8}"
_WORD = r"[A-Za-z0-9_.-]{1,63}"
_STANDBY = r"(standby)?"

_TABLE = (
    JobType(
        BESTEFFORT,
        "a guest on resources that nobody else needs: planned last, killed when others need the room",
        guide="../scheduling/besteffort.md",
    ),
    JobType(
        "idempotent",
        "submitted again by itself when it was lost or killed as a guest,"
        " or ends with status 99 after more than a minute",
        means=_sets("idempotent"),
        interactive=False,
    ),
    JobType(
        "container",
        "its resources are there for inner jobs",
        forms=("container", "container=NAME"),
        shape=rf"({_WORD})?",
        means=lambda argument: {"containers": argument or ""},
        shares=True,
        suspendable=False,
        guide="#containers",
    ),
    JobType(
        "inner",
        "lies inside the container of that name, or the job of that id",
        forms=("inner=NAME", "inner=JOB_ID"),
        shape=_WORD,
        means=_names("inside"),
        guide="#containers",
    ),
    JobType(
        "timesharing",
        "shares its resources with other such jobs",
        forms=("timesharing=user,name",),
        shape=r"(\*|user),(\*|name)|(\*|name),(\*|user)",
        means=_timesharing,
        shares=True,
        usage="timesharing=user,name with * for either word",
        guide="#sharing",
    ),
    JobType(
        "placeholder",
        "keeps resources for the jobs that are allowed in",
        forms=("placeholder=NAME",),
        shape=_WORD,
        means=_names("placeholders"),
        shares=True,
        guide="#placeholders",
    ),
    JobType(
        "allowed",
        "may use what a placeholder of that name keeps",
        forms=("allowed=NAME",),
        shape=_WORD,
        means=_names("allowed"),
        guide="#placeholders",
    ),
    JobType(
        "singleton",
        "runs when no other job of its user with that name of a singleton does: one at a time, in their order",
        forms=("singleton=NAME",),
        shape=_WORD,
        guide="#one-at-a-time",
    ),
    JobType(
        "exclusive",
        "alone on its nodes: it gets all their resources, whatever part of them it asks for",
        means=_sets("whole_nodes"),
        guide="../scheduling/requests.md#nodes-of-ones-own",
    ),
    JobType("postpone", "does not start before the date", date="not_before", guide="../scheduling/dates.md"),
    JobType(
        "deadline",
        "has to end by the date, else it is not placed; Error once that is impossible",
        date="end_by",
        guide="../scheduling/dates.md",
    ),
    JobType("expire", "Error unless it started by the date", date="start_by", guide="../scheduling/dates.md"),
    JobType(
        "token",
        "takes so many resources of type NAME, such as licences",
        forms=("token:NAME=COUNT",),
        shape=rf"{_WORD}=[1-9][0-9]{{0,8}}",
        guide="admin.md#licences",
    ),
    JobType(
        "noop",
        "runs nothing and holds its resources until its walltime or oardel",
        forms=("noop", "noop=standby"),
        shape=_STANDBY,
        means=_sets("runs_nothing", standby=True),
        interactive=False,
    ),
    JobType(
        "kept",
        "keeps its resources after its program has ended: so many seconds, at most until its walltime or oardel",
        forms=("kept=SECONDS",),
        shape=_SECONDS,
        means=_kept,
        interactive=False,
        guide="#kept-jobs",
    ),
    JobType(
        "state",
        "with noop or cosystem: takes resources that are Absent or Suspected too",
        forms=("state=permissive",),
        shape=r"permissive",
        means=lambda argument: {"any_state": True} if argument == "permissive" else {},
        guide="../scheduling/requests.md",
    ),
    *(
        JobType(
            name,
            "its command runs on a host of the site, its nodes are left alone",
            forms=(name, f"{name}=standby"),
            shape=_STANDBY,
            means=_sets("host", name, standby=True),
            suspendable=False,
            usable=Usable.WITH_A_HOST,
            guide="admin.md#jobs-that-take-their-nodes-over",
        )
        for name in ("deploy", "cosystem")
    ),
    JobType(
        "no_quotas",
        "quotas neither count nor limit it",
        means=_sets("without_quotas"),
        guide="../scheduling/quotas.md",
    ),
    JobType(
        "negotiated",
        "its launcher chooses its hosts: what subscribes has it, and nothing else",
        means=_sets("negotiates"),
        interactive=False,
        suspendable=False,
        guide="../negotiation.md",
    ),
    JobType(
        "bag",
        "a task of a bag: what --bag submits has it, and nothing else",
        interactive=False,
        guide="user.md#bags-of-tasks",
    ),
    JobType("desktop_computing", "only resources with that property"),
    JobType(
        "assign",
        "nothing here acts on it",
        forms=("assign=FUNCTION", "assign=FUNCTION:ARGUMENTS"),
        shape=r"\w+(:.+)?",
        usable=Usable.NOWHERE,
    ),
    JobType(
        "find",
        "nothing here acts on it",
        forms=("find=FUNCTION", "find=FUNCTION:ARGUMENTS"),
        shape=r"\w+(:.+)?",
        usable=Usable.NOWHERE,
    ),
    JobType(
        "constraints",
        "nothing here acts on it",
        forms=("constraints=DAYS/HH:MM/HOURS",),
        shape=r"[1-7]+/([01]?\d|2[0-3]):[0-5]\d/\d+(:[0-5]\d)?(/\d{4}-\d\d-\d\d(/\d+)?)?",
        usable=Usable.NOWHERE,
    ),
)

TYPES: Final[Mapping[str, JobType]] = MappingProxyType({kind.name: kind for kind in _TABLE})
"""Every type by its name."""

NEGOTIATED = "negotiated"
"""The type of a job whose launcher chooses its hosts; only its subscription sets it."""

BAG = "bag"
"""The type of the tasks of bags; it comes with ``--bag`` alone."""

NOOP = TYPES["noop"].forms
"""Spellings of the type of a job that holds its resources and runs nothing.

``standby`` lets OAR place a job on nodes that sleep; here every job may have them and they are woken, so both mean the
same.
"""

ON_A_HOST = {spelling: kind.name for kind in _TABLE if kind.usable is Usable.WITH_A_HOST for spelling in kind.forms}
"""By spelling, the types of jobs whose program runs on a host of the site and not on their nodes."""

NOT_OFFERED = tuple(
    kind.name for usable in (Usable.NOWHERE, Usable.WITH_A_HOST) for kind in _TABLE if kind.usable is usable
)
"""The types that a site does not offer before it allows them, or names a host."""


def _with_offset(word: str) -> str:
    """Return a word with the offset of its date; unchanged if it has no date."""
    name, argument = split_word(word)
    if name not in TYPES or not TYPES[name].date:
        return word
    try:
        date = read_date(argument or "", datetime.now().astimezone())
    except UsageError:
        return word
    return f"{name}={date.isoformat(' ', 'seconds')}"


def _fault_of_date(name: str, word: str, argument: str) -> str:
    """Say that a word lacks a date; nothing when it has one."""
    try:
        _instant(argument)
    except ValueError:
        return f"job type '{word}' needs a date, write -t '{name}=YYYY-MM-DD hh:mm:ss'"
    return ""


def _instant(argument: str) -> int:
    """Return the epoch seconds of a date. Raises ValueError when it is none."""
    return int(read_instant(argument).timestamp())
