"""The cases that prove a rule: a submission and a site given, the changes, the notes or the refusal expected.

They are TOML, one ``[[case]]`` each::

    [[case]]
    name = "a job without a queue goes to the default one"
    submission = { user = "ann" }
    site = { settings = { default_queue = "day" } }
    expect = { changes = { queue = "day" } }

``expect.changes`` lists exactly the fields that change, in JSON form (none when left out); ``expect.notes`` the lines
shown; ``expect.refused`` a part of the message of the refusal.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from oarpy.admission.rules import DEFAULT_TIME_LIMIT, RefusedByRule, Rule, RuleSet
from oarpy.admission.site import FixedSite, JobInfo, QueueInfo
from oarpy.model.errors import UsageError
from oarpy.model.submission import Submission


@dataclass(frozen=True, slots=True)
class Case:
    """One case. ``refused`` is None when the submission must be admitted."""

    name: str
    submission: Submission
    site: FixedSite
    changes: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The outcome of one case; ``problems`` is empty when the rule did what was expected."""

    case: str
    problems: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all was as expected."""
        return not self.problems


def parse_cases(text: str) -> list[Case]:
    """Read cases; raise :class:`UsageError` naming the case and the key that is wrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"cases are not TOML: {error}") from None
    entries = document.get("case")
    if set(document) != {"case"} or not isinstance(entries, list) or not entries:
        raise UsageError("a file of cases holds [[case]] tables and nothing else")
    return [_case(entry, number) for number, entry in enumerate(entries, 1)]


def run_cases(rules: Rule | Sequence[Rule], cases: Sequence[Case]) -> list[CaseResult]:
    """Run ``rules`` (one, or several in their order), enabled or not, on each case."""
    chosen = [rules] if isinstance(rules, Rule) else rules
    ready = RuleSet(dataclasses.replace(rule, enabled=True) for rule in chosen)
    return [CaseResult(case.name, tuple(_problems(ready, case))) for case in cases]


def _problems(rules: RuleSet, case: Case) -> list[str]:
    before = case.submission.to_record()
    try:
        submission, trace = rules.run(case.submission, case.site, time_limit=DEFAULT_TIME_LIMIT)
    except RefusedByRule as error:
        if case.refused is None:
            return [f"refused: {error}"]
        return [] if case.refused in str(error) else [f"refused with '{error}', expected '{case.refused}'"]
    if case.refused is not None:
        return [f"admitted, expected the refusal '{case.refused}'"]
    after = submission.to_record()
    fresh = Submission(submission.user)
    problems = []
    for name in sorted(set(before) | set(after) | set(case.changes)):
        old, new = (record.get(name, getattr(fresh, name, None)) for record in (before, after))
        if name in case.changes and (old == new or new != case.changes[name]):
            problems.append(f"{name} became {new!r}, expected {case.changes[name]!r}")
        elif name not in case.changes and old != new:
            problems.append(f"{name} became {new!r}, expected no change")
    if trace.notes != list(case.notes):
        problems.append(f"notes {trace.notes!r}, expected {list(case.notes)!r}")
    return problems


def _case(entry: object, number: int) -> Case:
    table = _table(entry, f"case {number}", {"name", "submission", "site", "expect"})
    name = str(table.get("name") or f"case {number}")
    try:
        expect = _table(table.get("expect", {}), "expect", {"changes", "notes", "refused"})
        if "refused" in expect and len(expect) > 1:
            raise UsageError("a refused submission has no changes and no notes")
        return Case(
            name=name,
            submission=Submission.from_record(_table(table.get("submission", {}), "submission")),
            site=_site(table.get("site", {}), "site"),
            changes=_table(expect.get("changes", {}), "changes"),
            notes=_strings(expect.get("notes", []), "notes"),
            refused=None if "refused" not in expect else str(expect["refused"]),
        )
    except UsageError as error:
        raise UsageError(f"{name}: {error.message}", hint=error.hint) from None


def _site(entry: object, place: str) -> FixedSite:
    table = _table(entry, place, {"now", "settings", "groups", "queues", "properties", "jobs"})
    queues, jobs = table.get("queues"), table.get("jobs", [])
    result = FixedSite(
        settings=_table(table.get("settings", {}), place),
        members={user: _strings(groups, place) for user, groups in _table(table.get("groups", {}), place).items()},
        columns={name: str(kind) for name, kind in _table(table.get("properties", {}), place).items()},
        jobs=tuple(_job(job, f"{place}: job") for job in _list(jobs, place)),
    )
    if "now" in table:
        result = dataclasses.replace(result, at=_instant(table["now"], place))
    if queues is not None:
        result = dataclasses.replace(result, queues=tuple(_queue(queue, place) for queue in _list(queues, place)))
    return result


def _job(entry: object, place: str) -> JobInfo:
    table = _table(entry, place, {item.name for item in dataclasses.fields(JobInfo)})
    number = table.get("id")
    if not isinstance(number, int):
        raise UsageError(f"{place} without a whole number as id")
    texts = {name: str(value) for name, value in table.items() if name not in ("id", "types", "reservation")}
    types = _strings(table.get("types", []), place)
    return JobInfo(**({"user": ""} | texts), id=number, types=types, reservation=bool(table.get("reservation", False)))


def _queue(entry: object, place: str) -> QueueInfo:
    table = _table(entry, place, {"name", "priority", "active"})
    priority = table.get("priority", 0)
    return QueueInfo(
        str(table.get("name", "")), priority if isinstance(priority, int) else 0, bool(table.get("active", True))
    )


def _instant(value: object, place: str) -> datetime:
    if not isinstance(value, datetime):
        raise UsageError(f"{place}: now is a date", hint="now = 2026-01-01T12:00:00Z")
    return value if value.tzinfo else value.astimezone()


def _table(entry: object, place: str, keys: set[str] | None = None) -> dict[str, object]:
    if not isinstance(entry, dict):
        raise UsageError(f"{place} is not a table")
    if keys is not None and (unknown := sorted(set(entry) - keys)):
        raise UsageError(f"{place}: unknown key '{unknown[0]}'", hint=f"keys: {', '.join(sorted(keys))}")
    return entry


def _list(entry: object, place: str) -> list[object]:
    if not isinstance(entry, list):
        raise UsageError(f"{place} is not a list")
    return entry


def _strings(entry: object, place: str) -> tuple[str, ...]:
    return tuple(map(str, _list(entry, place)))
