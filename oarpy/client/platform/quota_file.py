"""Quota files: JSON as OAR reads it, with rules, sets of rules, periods of the week and exceptions with dates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, TypeAlias

from oarpy.model.errors import UsageError
from oarpy.model.quota_calendar import (
    DAY,
    DEFAULT_LEVEL,
    OTHERWISE,
    WEEKDAYS,
    DatedPeriod,
    QuotaCalendar,
    WeeklyPeriod,
    clash,
    overlap,
    parse_period,
    period_texts,
    uncovered,
)
from oarpy.store.passes.quotas import QuotaRuleRow

_WORDS = ("quotas", "job_types", "periodical", "oneshot")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)
_SHARE = re.compile(r"(?:(\d{1,6}(?:\.\d{1,6})?)\*)?ALL", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_LARGEST = 2**31 - 1
_DATES = ("%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S")


@dataclass(frozen=True, slots=True)
class QuotaFile:
    """Sets by name, their rules and the rules without a set, and when the sets are valid."""

    sets: tuple[str, ...]
    rules: tuple[QuotaRuleRow, ...]
    calendar: QuotaCalendar


def parse(text: str, resources: int, zone: tzinfo | None) -> QuotaFile:
    """Read a quota file. ``ALL`` stands for ``resources``; dates are in ``zone`` (None: of this machine).

    Raises :class:`UsageError`, also for periods that overlap or leave out a part of the week.
    """
    try:
        tree = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise UsageError("quotas are an object", hint='for example {"quotas": {"*,*,*,/": [64, -1, -1]}}')
    names = tuple(name for name in tree if name not in _WORDS)
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"'{name[:60]}' is no name for a set of rules", hint="letters, digits, _ . -")
    rules = _rules(tree.get("quotas", {}), None, resources)
    for name in names:
        rules += _rules(tree[name], name, resources)
    _check_types(tree.get("job_types", ["*"]), rules)
    weekly, otherwise = _weekly(_entries(tree, "periodical", (2, 3)), names)
    dated = _dated(_entries(tree, "oneshot", (3, 4)), names, zone)
    return QuotaFile(names, tuple(rules), QuotaCalendar(weekly, dated, otherwise, zone))


_RulesDocument: TypeAlias = dict[str, list[float]]
"""Limits of resources, jobs and resource-hours by the key of a rule."""

QuotaDocument: TypeAlias = dict[str, _RulesDocument | list[list[str]]]
"""Rules by the name of their set; ``periodical`` and ``oneshot`` have lists of periods."""


def document(file: QuotaFile) -> QuotaDocument:
    """Return the document that :func:`parse` reads as the same quotas."""
    quotas: QuotaDocument = {"quotas": _rules_document(file.rules, None)}
    periods = [list(entry) for entry in period_texts(file.calendar.weekly)]
    if file.calendar.otherwise is not None:
        periods.append([OTHERWISE, file.calendar.otherwise, ""])
    if periods:
        quotas["periodical"] = periods
    if file.calendar.dated:
        quotas["oneshot"] = [
            [
                _date(exception.begin, file.calendar.zone),
                _date(exception.end, file.calendar.zone),
                exception.rule_set,
                exception.label,
            ]
            for exception in file.calendar.dated
        ]
    return quotas | {name: _rules_document(file.rules, name) for name in file.sets}


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    distinct: dict[str, Any] = {}
    for key, value in pairs:
        if key in distinct:
            raise UsageError(f"key '{key[:60]}' is there twice", hint="the last would silently win")
        distinct[key] = value
    return distinct


def _rules(tree: Any, rule_set: str | None, resources: int) -> list[QuotaRuleRow]:
    owner = "quotas" if rule_set is None else rule_set
    if not isinstance(tree, dict):
        raise UsageError(f"'{owner}' is no set of rules", hint='write {"queue,project,type,user": [64, -1, -1]}')
    rules: dict[tuple[str, ...], QuotaRuleRow] = {}
    for key, value in tree.items():
        parts = tuple(part.strip() for part in key.split(","))
        if len(parts) not in (4, 5) or not all(parts):
            hint = "write queue,project,type,user, and a level behind it if need be"
            raise UsageError(f"{owner}: '{key[:60]}' is no key of a rule", hint=hint)
        queue, project, kind, user, level = parts if len(parts) == 5 else (*parts, DEFAULT_LEVEL)
        if not _NAME.fullmatch(level):
            raise UsageError(f"{owner}: '{level[:60]}' is no name for a level of rules", hint="letters, digits, _ . -")
        full_key = queue, project, kind, user, level
        if full_key in rules:
            raise UsageError(f"{owner}: there are two rules for {','.join(parts)}")
        limits = value if isinstance(value, list) else [value, -1, -1]
        if len(limits) != 3:
            raise UsageError(f"{owner}: {key}: not three limits", hint="[resources, jobs, resource-hours]")
        numbers = [_limit(limit, f"{owner}: {key}", resources) for limit in limits]
        rules[full_key] = QuotaRuleRow(
            queue, project, kind, user, int(numbers[0]), int(numbers[1]), numbers[2], rule_set, level
        )
    return list(rules.values())


def _limit(value: Any, owner: str, resources: int) -> float:
    """Read a number, a number as text, ``ALL`` or ``0.5*ALL``."""
    number: float | None = None
    if isinstance(value, str):
        word = value.replace(" ", "")
        if share := _SHARE.fullmatch(word):
            number = int(float(share[1] or 1) * resources)
        elif _NUMBER.fullmatch(word):
            number = float(word)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    if number is None or not (number == -1 or 0 <= number <= _LARGEST):
        hint = "a number from 0 on, ALL, a share such as 0.5*ALL, or -1 for no limit"
        raise UsageError(f"{owner}: {json.dumps(value)[:40]} is no limit", hint=hint)
    return int(number) if float(number).is_integer() else number


def _check_types(words: Any, rules: Sequence[QuotaRuleRow]) -> None:
    """Refuse a list of types that restricts rules: OAR counts only the listed types, oarpy counts every type."""
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UsageError("'job_types' is no list of types", hint='["*"]')
    for rule in rules:
        if rule.type == "/" and set(words) - {"*"}:
            raise UsageError("'job_types' cannot restrict rules with / for the type", hint="leave it out")
        if rule.type not in ("*", "/") and set(words) - {"*"} and rule.type not in words:
            raise UsageError(f"type '{rule.type[:40]}' of a rule is not in 'job_types'", hint="add it, or leave it out")


def _entries(tree: Mapping[str, Any], key: str, sizes: tuple[int, int]) -> list[list[str]]:
    entries = tree.get(key, [])
    form = (
        '[["08:00-19:00 mon-fri * *", "set", "label"]]' if key == "periodical" else '[["from", "to", "set", "label"]]'
    )
    if not isinstance(entries, list):
        raise UsageError(f"'{key}' is no list", hint=form)
    for entry in entries:
        if not isinstance(entry, list) or len(entry) not in sizes or not all(isinstance(word, str) for word in entry):
            raise UsageError(f"{key}: {json.dumps(entry)[:80]} is no period", hint=form)
    return [[*entry, ""][: sizes[1]] for entry in entries]


def _known(name: str, names: Sequence[str]) -> str:
    if name not in names:
        raise UsageError(f"there is no set of rules '{name[:60]}'", hint=f"known: {', '.join(names) or 'none'}")
    return name


def _weekly(entries: Sequence[list[str]], names: Sequence[str]) -> tuple[tuple[WeeklyPeriod, ...], str | None]:
    weekly: list[WeeklyPeriod] = []
    otherwise: str | None = None
    for text, name, label in entries:
        if text.split() == OTHERWISE.split():
            if otherwise is not None:
                raise UsageError(f"the period '{OTHERWISE}' is there twice", hint="it is what the others leave")
            otherwise = _known(name, names)
        else:
            weekly += parse_period(text, _known(name, names), label)
    if twice := overlap(weekly):
        spans = " and ".join(
            f"{_moment(period, period.begin)}-{_moment(period, period.end)} ({period.rule_set})" for period in twice
        )
        raise UsageError(f"periods overlap: {spans}")
    if weekly and otherwise is None and (gap := uncovered(weekly)):
        left, right = (f"{WEEKDAYS[at // DAY % 7]} {at % DAY // 3600:02}:{at % 3600 // 60:02}" for at in gap)
        raise UsageError(f"no period from {left} to {right}", hint=f'add one, or ["{OTHERWISE}", "set"] for the rest')
    return tuple(sorted(weekly, key=lambda period: (period.weekday, period.begin))), otherwise


def _moment(period: WeeklyPeriod, seconds: int) -> str:
    return f"{WEEKDAYS[period.weekday]} {seconds // 3600:02}:{seconds % 3600 // 60:02}"


def _dated(entries: Sequence[list[str]], names: Sequence[str], zone: tzinfo | None) -> tuple[DatedPeriod, ...]:
    dated = []
    for begins, ends, name, label in entries:
        begin, end = _instant(begins, zone), _instant(ends, zone)
        if begin >= end:
            raise UsageError(f"oneshot: {begins} is not before {ends}")
        dated.append(DatedPeriod(begin, end, _known(name, names), label))
    if twice := clash(dated):
        spans = " and ".join(f"{_date(exception.begin, zone)} to {_date(exception.end, zone)}" for exception in twice)
        raise UsageError(f"oneshot: dates overlap: {spans}")
    return tuple(sorted(dated, key=lambda exception: exception.begin))


def _instant(text: str, zone: tzinfo | None) -> float:
    for form in _DATES:
        try:
            return datetime.strptime(text.strip(), form).replace(tzinfo=zone).timestamp()
        except (ValueError, OverflowError):
            continue
    raise UsageError(f"oneshot: '{text[:40]}' is no date", hint="YYYY-MM-DD hh:mm")


def _date(instant: float, zone: tzinfo | None) -> str:
    date = datetime.fromtimestamp(instant, zone)
    return date.strftime(_DATES[1 if date.second else 0])


def _rules_document(rules: Sequence[QuotaRuleRow], rule_set: str | None) -> _RulesDocument:
    return {
        _key(rule): [rule.resources, rule.jobs, _plain(rule.resource_hours)]
        for rule in rules
        if rule.rule_set == rule_set
    }


def _key(rule: QuotaRuleRow) -> str:
    patterns = (rule.queue, rule.project, rule.type, rule.user)
    return ",".join(patterns if rule.level == DEFAULT_LEVEL else (*patterns, rule.level))


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else number
