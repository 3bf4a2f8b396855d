"""Why a job does not start: facts from the planner, which programs read as they are and users as a sentence.

A pass makes a reason for each waiting job and writes no text. :func:`sentence` writes it when a user reads it, with
dates in the reader's form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from math import floor
from typing import NotRequired, TypedDict

import msgspec
from msgspec import Struct

from oarpy.model.amounts import format_amount
from oarpy.model.billing import hours_text

Show = Callable[[float], str]
"""Writes an instant for the reader."""

MOST_NAMED = 5
"""The most jobs, or outages, that a reason names; the others are counted."""
LOWER = "lower"
"""Subject of :attr:`Why.MAKING_ROOM`, :attr:`Why.BUSY`, :attr:`Why.CHECKPOINTS` and :attr:`Why.CHECKPOINTS_LAST` where
not only best-effort jobs give way."""


class Why(StrEnum):
    """The reason why a job waits, or its fate. Programs read the words, so the words do not change."""

    UNEXPLAINED = "unexplained"
    """Nobody asked for the reason."""
    WORDS = "words"
    """Nothing but ``subject``, words from somewhere else."""

    STARTS = "starts"
    """It starts now."""
    ITS_DATE = "its_date"
    """It starts as its date has come: a reservation."""
    ACCEPTED = "accepted"
    """A reservation that is accepted in this pass."""
    PROMISED = "promised"
    """A reservation that was accepted before, and whose date is to come."""

    HELD = "held"
    """Its user or an administrator holds it."""
    QUEUE_STOPPED = "queue_stopped"
    """Its queue, ``subject``, is not active."""
    QUEUE_MISSING = "queue_missing"
    """Its queue, ``subject``, does not exist."""
    QUEUE_ORDER = "queue_order"
    """The order of its queue failed: ``subject`` says how."""
    NO_LAUNCHER = "no_launcher"
    """Its launcher has not asked for hosts yet."""
    FAULT = "fault"
    """The job cannot be read: ``subject`` names the wrong part."""
    SET_ASIDE = "set_aside"
    """Nothing can be decided about it, which is tried again soon: ``subject`` says why."""
    NOT_PLANNED = "not_planned"
    """Planning it failed: ``subject`` is the error."""
    NO_ALTERNATIVE = "no_alternative"
    """None of its alternatives is left."""

    LIMIT_OF_USER = "limit_of_user"
    """A pass looks at ``count`` jobs of a user."""
    LIMIT_OF_PASS = "limit_of_pass"
    """A pass stops after ``count`` jobs."""
    LIMIT_OF_APPLICATIONS = "limit_of_applications"
    """A pass looks at ``count`` applications."""
    NEXT_NEGOTIATION = "next_negotiation"
    """The next pass for applications looks at it."""

    POSTPONED = "postponed"
    """It asked not to start before ``until``."""
    AFTER_JOBS = "after_jobs"
    """By when ``jobs`` began or end it may start at ``until``."""
    AFTER_END = "after_end"
    """It waits for the end of ``jobs``, which is expected at ``until``."""
    TOO_LATE = "too_late"
    """The earliest it could run is from ``at`` to ``end``: not by the dates that it has."""
    EXPIRED = "expired"
    """It had to start by ``start_by``."""
    DEADLINE_MISSED = "deadline_missed"
    """It can no longer end by ``end_by``."""
    ANTERIOR_HELD = "anterior_held"
    """It depends on ``jobs``, which is held."""
    ANTERIOR_ENDLESS = "anterior_endless"
    """It depends on ``jobs``, which has no predicted end."""
    ANTERIOR_ENDED = "anterior_ended"
    """It depends on ``jobs``, which did not end as ``subject`` asks for: ``ok`` or ``notok``."""
    WINDOW_MISSED = "window_missed"
    """The time that the dependency ``subject``, on ``jobs``, leaves it is over."""
    CIRCLE = "circle"
    """It waits for ``jobs``, or the container ``subject``, which wait for it."""

    MAKING_ROOM = "making_room"
    """``jobs`` give way to it; their checkpoints take ``until``."""
    TAKING_BACK = "taking_back"
    """Revocable hosts of ``jobs`` are taken back for it; that takes ``until``."""
    CHECKPOINTS = "checkpoints"
    """Jobs that give way leave it no room ``until``; their checkpoints take until ``at``."""
    QUOTA = "quota"
    """A ``quota`` is reached ``until``; what it needs is free ``at``, where that is later."""
    QUOTA_OF_RUNNING = "quota_of_running"
    """Running jobs reach a ``quota``."""
    BUDGET = "budget"
    """A project has too few hours left for it, by ``budget``, ``until``; what it needs is free ``at``, where later."""
    OUTAGE = "outage"
    """Nodes that it needs are not available: ``outages``; it waits ``until``."""
    SHORT = "short"
    """Too little is left of consumables: ``amounts``, ``until``."""
    BEHIND = "behind"
    """Jobs ahead of it take what it needs ``until``."""
    BUSY = "busy"
    """Its resources are held ``until`` ``jobs`` should be over, and jobs that give way, ``young``, may be cancelled."""

    LACKING = "lacking"
    """The platform is too small for it: ``subject`` says what is missing."""
    TOO_FEW_ALIVE = "too_few_alive"
    """Too few resources are Alive: ``subject`` says what is missing."""
    TOO_FEW_IN_USE = "too_few_in_use"
    """Too few resources are Alive and not drained: ``subject`` says what is missing."""
    AWAY = "away"
    """Nodes that it needs are not available for long enough."""
    ASLEEP = "asleep"
    """Its nodes are asleep and have to wake first."""
    NO_CONTAINER = "no_container"
    """No container ``subject`` runs or is planned."""
    BESTEFFORT_CONTAINER = "besteffort_container"
    """The container ``subject`` is best-effort, and the job is not."""
    TOO_LARGE_FOR_CONTAINER = "too_large_for_container"
    """It does not fit inside the container ``subject``."""
    CONTAINER_FULL = "container_full"
    """Other jobs fill the container ``subject`` until it ends."""

    REFUSED = "refused"
    """A reservation that is refused ``because``; it could be had ``at``."""
    RESERVATION_REFUSED = "reservation_refused"
    """The same, as it ends the job."""
    END_PAST = "end_past"
    """The end of a reservation, ``at``, is past."""
    NOT_FREE = "not_free"
    """Resources of a reservation are not free ``at`` its start."""
    CHECKPOINTS_LAST = "checkpoints_last"
    """Jobs that give way write checkpoints ``until`` later than a reservation waits."""
    NOTHING_TO_AMEND = "nothing_to_amend"
    """The reservation ``jobs``, whose place it is to take, is none any more."""
    NO_ROOM_TO_AMEND = "no_room_to_amend"
    """There is no room at its date, also without the reservation that it replaces."""
    BAG_TOO_LATE = "bag_too_late"
    """A bag that would be done at ``at``, and has to be by ``end_by``."""
    BAG_WITHOUT_PLACE = "bag_without_place"
    """A bag of ``count`` tasks, for which there is no room."""
    GIVEN_UP = "given_up"
    """A reservation whose end has come before its start."""
    ANTERIOR_FAILED = "anterior_failed"
    """A reservation given up as ``jobs``, on which it depends, did not end as ``subject`` asks for."""
    RESERVATION_AFTER = "reservation_after"
    """A reservation whose date has come waits for ``jobs``, on which it depends."""
    RESERVATION_SHORT = "reservation_short"
    """A reservation whose date has come waits for ``count`` of its ``wanted`` resources."""

    ALTERED = "altered"
    """``subject``, its user or an administrator, changed what it asks for: ``changes``."""


class QuotaLimit(Struct, frozen=True, omit_defaults=True, gc=False):
    """The ``rule`` of a quota that binds, and its limits; -1 means none.

    ``passing`` tells that the rule is not always valid: only in a ``period`` that lasts until ``end`` (None: for ever).
    Without a ``rule``, the quotas from ``end`` on are not known.
    """

    rule: str
    resources: float = -1
    jobs: float = -1
    resource_hours: float = -1
    passing: bool = False
    period: str = ""
    end: float | None = None

    def text(self, show: Show) -> str:
        """Name the rule, its limits and, unless it is valid always, its period."""
        if not self.rule:
            return f"it would end beyond {_date(self.end, show)}, until when quotas are known"
        limits = [
            f"{value:g} {name}{'' if value == 1 else 's'}"
            for name, value in (
                ("resource", self.resources),
                ("job", self.jobs),
                ("resource-hour", self.resource_hours),
            )
            if value >= 0
        ]
        name = f"quota {self.rule}"
        if self.passing:
            until = "" if self.end is None else f" until {show(self.end)}"
            name += f" ({self.period}{', valid' if self.period else 'valid'}{until})"
        return f"{name}: at most {', '.join(limits)}"


class BudgetLimit(Struct, frozen=True, omit_defaults=True, gc=False):
    """A project that has too few of its ``hours``, in billing units, ``left`` in a period.

    ``end`` (None: never) closes the period. From ``over`` on the project pays for nothing.
    """

    project: str
    hours: float = 0
    left: float = 0
    end: float | None = None
    over: float | None = None

    def text(self, show: Show) -> str:
        """Say which project lacks what."""
        if self.over is not None:
            return f"project {self.project} is over at {show(self.over)}"
        until = "" if self.end is None else f" in the period that ends at {show(self.end)}"
        hours = f"{hours_text(self.left, floor)} of {hours_text(self.hours)} hours left{until}"
        return f"project {self.project} has {hours}, too few for it"


class NamedOutage(Struct, frozen=True, omit_defaults=True, gc=False):
    """Nodes that are not available, and why: from ``begin`` (None: already) until ``end`` (None: for good)."""

    what: str
    begin: float | None = None
    end: float | None = None

    def text(self, show: Show) -> str:
        """Say which nodes are not available, and when."""
        since = "" if self.begin is None else f" from {show(self.begin)}"
        return f"{self.what}{since}" + (" on" if self.end is None else f" until {show(self.end)}")


class ShortAmount(Struct, frozen=True, omit_defaults=True, gc=False):
    """A consumable of which ``asked`` is wanted on each block of ``level``.

    ``left`` are the first blocks that are short, with the amounts left there. ``more`` counts the other short blocks.
    """

    name: str
    asked: int
    level: str
    left: tuple[tuple[str, int], ...]
    more: int = 0

    def text(self) -> str:
        """Return the requested amount, and the amounts left on short blocks."""
        named = ", ".join(f"{format_amount(amount)} left on {block}" for block, amount in self.left)
        others = f" and {self.more} more" if self.more else ""
        return f"{self.name}: {format_amount(self.asked)} asked on each {self.level}, {named}{others}"


class Change(Struct, frozen=True, omit_defaults=True, gc=False):
    """A field of a job, or its message, ``before`` and ``after``; both are empty where the values are its user's."""

    what: str
    before: str = ""
    after: str = ""

    def text(self) -> str:
        """Return the change as text."""
        if not (self.before or self.after):
            return self.what
        return f"{self.what} {self.before or 'none'} -> {self.after or 'none'}"


class Reason(Struct, frozen=True, omit_defaults=True, gc=False):
    """Why a job waits, or got its state. The kind determines which fields have a value, and their meaning.

    Instants are on the axis of the pass: epoch seconds.
    """

    kind: Why
    subject: str = ""
    """A name, or words."""
    jobs: tuple[int, ...] = ()
    """The first of the jobs that it waits for."""
    more_jobs: int = 0
    """The number of further jobs."""
    until: float | None = None
    """Until when this keeps it waiting; None if that is not known."""
    at: float | None = None
    end: float | None = None
    start_by: float | None = None
    """The latest possible start."""
    end_by: float | None = None
    """The latest possible end."""
    security: float = 0
    """The seconds of ``until`` that are security time behind other jobs."""
    young: tuple[int, ...] = ()
    """The first of the best-effort jobs that may be cancelled by then, as their guaranteed time is over."""
    more_young: int = 0
    count: int = 0
    wanted: int = 0
    quota: QuotaLimit | None = None
    quota_until: float | None = None
    """Until when the quota, or the budget, keeps it waiting from ``until`` on."""
    budget: BudgetLimit | None = None
    outages: tuple[NamedOutage, ...] = ()
    more_outages: int = 0
    amounts: tuple[ShortAmount, ...] = ()
    changes: tuple[Change, ...] = ()
    because: Reason | None = None

    def __str__(self) -> str:
        """Return the sentence, with instants as numbers."""
        return sentence(self, plain_instant)


NO_REASON, ACCEPTED, HELD = Reason(Why.UNEXPLAINED), Reason(Why.ACCEPTED), Reason(Why.HELD)


def words(text: str) -> Reason:
    """Return a reason of which nothing is known but its sentence."""
    return Reason(Why.WORDS, text) if text else NO_REASON


def sentence(reason: Reason, show: Show) -> str:
    """Return the reason in words; ``show`` writes the instants in it.

    >>> sentence(Reason(Why.BUSY, jobs=(3, 4), until=60.0), plain_instant)
    'what it needs is held until 60, when jobs 3, 4 should be over'
    """
    return _SENTENCES[reason.kind](reason, show)


def plain_instant(instant: float) -> str:
    """Write an instant as the number that it is on the axis."""
    return f"{instant:.15g}"


def local_instant(instant: float) -> str:
    """Write an instant of the epoch as people here write dates: ``2026-05-01 12:00:00``."""
    return datetime.fromtimestamp(instant).strftime("%Y-%m-%d %H:%M:%S")


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Reason)


def reason_json(reason: Reason) -> str | None:
    """Return the reason as JSON, without empty fields; None if there is no reason."""
    return None if reason is NO_REASON else _ENCODER.encode(reason).decode()


class QuotaLimitDocument(TypedDict):
    """A quota that binds. A missing number is no limit, a missing date no end."""

    rule: str
    resources: NotRequired[float]
    jobs: NotRequired[float]
    resource_hours: NotRequired[float]
    passing: NotRequired[bool]
    period: NotRequired[str]
    end: NotRequired[float]


class BudgetLimitDocument(TypedDict):
    """A project that lacks hours, in billing units. A missing number is 0, a missing date no end."""

    project: str
    hours: NotRequired[float]
    left: NotRequired[float]
    end: NotRequired[float]
    over: NotRequired[float]


class NamedOutageDocument(TypedDict):
    """Nodes that are not available, and when (epoch seconds). A missing begin is past, a missing end never comes."""

    what: str
    begin: NotRequired[float]
    end: NotRequired[float]


class ShortAmountDocument(TypedDict):
    """A consumable of which too little is left on blocks of a level."""

    name: str
    asked: int
    level: str
    left: Sequence[tuple[str, int]]
    more: NotRequired[int]


class ChangeDocument(TypedDict):
    """A changed field of a job, or its message. A missing value was empty, or is for the user of the job alone."""

    what: str
    before: NotRequired[str]
    after: NotRequired[str]


class ReasonDocument(TypedDict):
    """Why a job waits, for programs (epoch seconds); ``kind`` says which other keys are there, and what they mean."""

    kind: str
    subject: NotRequired[str]
    jobs: NotRequired[Sequence[int]]
    more_jobs: NotRequired[int]
    until: NotRequired[float]
    at: NotRequired[float]
    end: NotRequired[float]
    start_by: NotRequired[float]
    end_by: NotRequired[float]
    security: NotRequired[float]
    young: NotRequired[Sequence[int]]
    more_young: NotRequired[int]
    count: NotRequired[int]
    wanted: NotRequired[int]
    quota: NotRequired[QuotaLimitDocument]
    quota_until: NotRequired[float]
    budget: NotRequired[BudgetLimitDocument]
    outages: NotRequired[Sequence[NamedOutageDocument]]
    more_outages: NotRequired[int]
    amounts: NotRequired[Sequence[ShortAmountDocument]]
    changes: NotRequired[Sequence[ChangeDocument]]
    because: NotRequired[ReasonDocument]


def reason_record(reason: Reason) -> ReasonDocument | None:
    """Return the reason as a JSON object, without empty fields; None if there is no reason."""
    if reason.kind is Why.UNEXPLAINED:
        return None
    record: ReasonDocument = msgspec.to_builtins(reason)
    return record


def reason_of(text: str, data: str | None) -> Reason:
    """Return the reason that is stored as ``data``, JSON; where that is missing or of a later version, the ``text``."""
    if data is not None:
        try:
            return _DECODER.decode(data)
        except msgspec.ValidationError:
            return words(text)
    return words(text)


def _date(instant: float | None, show: Show) -> str:
    return "" if instant is None else show(instant)


def _until(reason: Reason, show: Show) -> str:
    return "" if reason.until is None else f" until {show(reason.until)}"


def _then(reason: Reason, show: Show) -> str:
    """Name the quota, or the project, that keeps the job waiting from ``until`` on, if one does."""
    limit = reason.quota if reason.budget is None else reason.budget
    if limit is None or reason.quota_until is None:
        return ""
    return f", then {limit.text(show)} until {show(reason.quota_until)}"


def _security(reason: Reason) -> str:
    return f", {reason.security:g} s of security time included" if reason.security else ""


def _has_to(reason: Reason, show: Show) -> str:
    """Say by when the job has to start and to end."""
    dates = (("start by", reason.start_by), ("end by", reason.end_by))
    return f"it has to {' and '.join(f'{word} {show(date)}' for word, date in dates if date is not None)}"


def _and_has_to(reason: Reason, show: Show) -> str:
    bounded = reason.start_by is not None or reason.end_by is not None
    return f", and {_has_to(reason, show)}" if bounded else ""


def _listed(jobs: Sequence[int]) -> str:
    return ", ".join(map(str, jobs))


def _named(what: str, jobs: Sequence[int], more: int) -> str:
    """Write the first few job ids behind the word for them."""
    return f"{what}{'s' if len(jobs) > 1 else ''} {_listed(jobs)}{', ...' if more else ''}"


def _who_gives_way(reason: Reason) -> str:
    return "jobs on lower levels" if reason.subject == LOWER else "best-effort jobs"


def _making_room(reason: Reason, show: Show) -> str:
    """Say who makes room; jobs on lower levels may be cancelled or suspended, and passes do not know which."""
    if reason.kind is Why.TAKING_BACK:
        what = "revocable hosts are taken back to make room"
    elif reason.subject == LOWER:
        what = f"{_who_gives_way(reason)} give way"
    else:
        what = f"{_who_gives_way(reason)} are cancelled to make room"
    checkpoints = "" if reason.until is None else f"; their checkpoints take until {show(reason.until)}"
    return f"{what}: {_listed(reason.jobs)}{checkpoints}"


def _quota(reason: Reason, show: Show) -> str:
    """Return the quota, until when it is reached, and when the resources of the job are free."""
    text = "" if reason.quota is None else reason.quota.text(show)
    reached = "" if reason.until is None else f", reached until {show(reason.until)}"
    free = "" if reason.at is None else f"; all that it needs is free at {show(reason.at)}"
    return f"{text}{reached}{free}"


def _budget(reason: Reason, show: Show) -> str:
    """Name the project, and say until when it has too little and what resources do after that."""
    text = "" if reason.budget is None else reason.budget.text(show)
    waits = "" if reason.until is None else f", so that it waits{_until(reason, show)}"
    free = "" if reason.at is None else f"; all that it needs is free at {show(reason.at)}"
    return f"{text}{waits}{free}"


def _outage(reason: Reason, show: Show) -> str:
    named = "; ".join(outage.text(show) for outage in reason.outages) + (" ..." if reason.more_outages else "")
    waits = "" if reason.until is None else f", so that it waits{_until(reason, show)}"
    return f"{named}{waits}{_then(reason, show)}"


def _short(reason: Reason, show: Show) -> str:
    return "; ".join(amount.text() for amount in reason.amounts) + _until(reason, show) + _then(reason, show)


def _busy(reason: Reason, show: Show) -> str:
    """Return until when the job's resources are held, and the jobs whose end or minimum life it waits for."""
    texts = []
    if reason.jobs:
        texts.append(f"{_named('job', reason.jobs, reason.more_jobs)} should be over{_security(reason)}")
    if reason.young:
        what, where = ("job", " on a lower level") if reason.subject == LOWER else ("best-effort job", "")
        texts.append(f"{_named(what, reason.young, reason.more_young)}{where} may be cancelled")
    holders = f", when {' and '.join(texts)}" if texts else _security(reason)
    return f"what it needs is held{_until(reason, show)}{holders}{_then(reason, show)}"


def _circle(reason: Reason, _: Show) -> str:
    what = f"container '{reason.subject}'" if reason.subject else f"job {_listed(reason.jobs)}"
    return f"it waits for {what}, which cannot come first: jobs wait for each other in a circle"


def _refused(reason: Reason, show: Show) -> str:
    word = "refused" if reason.kind is Why.REFUSED else "reservation refused"
    because = "" if reason.because is None else sentence(reason.because, show)
    return f"{word}: {because}{'' if reason.at is None else f', possible at {show(reason.at)}'}"


def _ended(reason: Reason) -> str:
    """Return how an anterior ended; a failed one may have ended by its own exit status, not by an error."""
    return f"ended {'without' if reason.subject == 'ok' else 'with'} success"


def changes_text(changes: Iterable[Change]) -> str:
    """Return the changes as text, without the message, which follows from them."""
    return ", ".join(change.text() for change in changes if change.what != "message")


def _altered(reason: Reason, _: Show) -> str:
    return f"changed by {reason.subject}: {changes_text(reason.changes)}"


def _not_looked_at(what: str) -> Callable[[Reason, Show], str]:
    return lambda reason, show: f"not looked at in this pass, which {what.format(reason.count)}"


_SENTENCES: Mapping[Why, Callable[[Reason, Show], str]] = {
    Why.UNEXPLAINED: lambda reason, show: "",
    Why.WORDS: lambda reason, show: reason.subject,
    Why.STARTS: lambda reason, show: "starts now",
    Why.ITS_DATE: lambda reason, show: "its reservation",
    Why.ACCEPTED: lambda reason, show: "accepted",
    Why.PROMISED: lambda reason, show: "accepted reservation",
    Why.HELD: lambda reason, show: "held",
    Why.QUEUE_STOPPED: lambda reason, show: f"queue '{reason.subject}' is not active",
    Why.QUEUE_MISSING: lambda reason, show: f"queue '{reason.subject}' does not exist",
    Why.QUEUE_ORDER: lambda reason, show: reason.subject,
    Why.NO_LAUNCHER: lambda reason, show: "its launcher has not asked for hosts yet",
    Why.FAULT: lambda reason, show: reason.subject,
    Why.SET_ASIDE: lambda reason, show: f"set aside, and tried again soon: {reason.subject}",
    Why.NOT_PLANNED: lambda reason, show: f"it could not be planned: {reason.subject}",
    Why.NO_ALTERNATIVE: lambda reason, show: "its request is gone: there is no alternative left",
    Why.LIMIT_OF_USER: _not_looked_at("takes {} jobs of a user"),
    Why.LIMIT_OF_PASS: _not_looked_at("stops after {} jobs"),
    Why.LIMIT_OF_APPLICATIONS: _not_looked_at("takes {} applications"),
    Why.NEXT_NEGOTIATION: lambda reason, show: "its request is looked at by the next pass for applications",
    Why.POSTPONED: lambda reason, show: f"it is postponed{_until(reason, show)}{_and_has_to(reason, show)}",
    Why.AFTER_JOBS: lambda reason, show: (
        f"the jobs it depends on let it start at {_date(reason.until, show)}{_and_has_to(reason, show)}"
    ),
    Why.AFTER_END: lambda reason, show: (
        f"the job it depends on is expected to end at {_date(reason.until, show)}{_and_has_to(reason, show)}"
    ),
    Why.TOO_LATE: lambda reason, show: (
        f"{_has_to(reason, show)}; the earliest it could run from {_date(reason.at, show)} to {_date(reason.end, show)}"
    ),
    Why.EXPIRED: lambda reason, show: f"it expired at {_date(reason.start_by, show)}",
    Why.DEADLINE_MISSED: lambda reason, show: f"it can no longer end by its deadline at {_date(reason.end_by, show)}",
    Why.ANTERIOR_HELD: lambda reason, show: f"job {_listed(reason.jobs)}, which it depends on, is held",
    Why.ANTERIOR_ENDLESS: lambda reason, show: f"job {_listed(reason.jobs)}, which it depends on, has no predicted end",
    Why.ANTERIOR_ENDED: lambda reason, show: (
        f"job {_listed(reason.jobs)} {_ended(reason)},"
        f" which can no longer meet '{reason.subject}:{_listed(reason.jobs)}'"
    ),
    Why.WINDOW_MISSED: lambda reason, show: (
        f"it should have started within the time that '{reason.subject}' leaves it, which is over"
    ),
    Why.CIRCLE: _circle,
    Why.MAKING_ROOM: _making_room,
    Why.TAKING_BACK: _making_room,
    Why.CHECKPOINTS: lambda reason, show: (
        f"{_who_gives_way(reason)} leave it no room{_until(reason, show)}:"
        f" their checkpoints take until {_date(reason.at, show)}"
    ),
    Why.QUOTA: _quota,
    Why.QUOTA_OF_RUNNING: lambda reason, show: f"{_quota(reason, show)}, reached by running jobs",
    Why.BUDGET: _budget,
    Why.OUTAGE: _outage,
    Why.SHORT: _short,
    Why.BEHIND: lambda reason, show: (
        f"jobs ahead of it take what it needs{_until(reason, show)}{_security(reason)}{_then(reason, show)}"
    ),
    Why.BUSY: _busy,
    Why.LACKING: lambda reason, show: reason.subject,
    Why.TOO_FEW_ALIVE: lambda reason, show: f"too few resources are Alive: {reason.subject}",
    Why.TOO_FEW_IN_USE: lambda reason, show: f"too few resources are Alive and not drained: {reason.subject}",
    Why.AWAY: lambda reason, show: "nodes that it needs are not available for long enough",
    Why.ASLEEP: lambda reason, show: "its nodes are asleep and have to wake first",
    Why.NO_CONTAINER: lambda reason, show: f"no container '{reason.subject}' runs or is planned",
    Why.BESTEFFORT_CONTAINER: lambda reason, show: (
        f"no container '{reason.subject}' runs or is planned, but for best-effort jobs"
    ),
    Why.TOO_LARGE_FOR_CONTAINER: lambda reason, show: f"it does not fit inside container '{reason.subject}'",
    Why.CONTAINER_FULL: lambda reason, show: f"other jobs fill container '{reason.subject}' until it ends",
    Why.REFUSED: _refused,
    Why.RESERVATION_REFUSED: _refused,
    Why.END_PAST: lambda reason, show: f"its end {_date(reason.at, show)} is past",
    Why.NOT_FREE: lambda reason, show: f"its resources are not free at {_date(reason.at, show)}",
    Why.CHECKPOINTS_LAST: lambda reason, show: f"{_who_gives_way(reason)} write checkpoints{_until(reason, show)}",
    Why.NOTHING_TO_AMEND: lambda reason, show: (
        f"job {_listed(reason.jobs)}, whose place it is to take, is no reservation any more"
    ),
    Why.NO_ROOM_TO_AMEND: lambda reason, show: (
        "there is no room at its date, also without what it is to take the place of"
    ),
    Why.GIVEN_UP: lambda reason, show: "reservation expired and could not be started",
    Why.ANTERIOR_FAILED: lambda reason, show: (
        f"reservation given up: job {_listed(reason.jobs)}, which it depends on, {_ended(reason)}"
    ),
    Why.RESERVATION_AFTER: lambda reason, show: (
        f"reservation waits for job {_listed(reason.jobs)}, which it depends on"
    ),
    Why.BAG_TOO_LATE: lambda reason, show: (
        f"the bag would be done at {_date(reason.at, show)}, and has to be by {_date(reason.end_by, show)}"
    ),
    Why.BAG_WITHOUT_PLACE: lambda reason, show: (
        f"there is never room for the {reason.count} tasks of the bag beside what is promised"
    ),
    Why.RESERVATION_SHORT: lambda reason, show: (
        f"reservation waits for {reason.count} of its {reason.wanted} resources"
    ),
    Why.ALTERED: _altered,
}
