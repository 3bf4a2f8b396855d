"""The output of ``oarstat --why``: sentences, or one JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import NotRequired, TypedDict

from oarpy.client.jobs.description import ExpectedStartDocument, exit_text, expected_record, expected_sentence
from oarpy.client.jobs.explanation import Explanation
from oarpy.client.rendering import Report, TwoForms, local_date, one_line
from oarpy.model.durations import format_duration
from oarpy.model.reasons import ReasonDocument, Why, reason_record, sentence
from oarpy.model.states import JobState
from oarpy.scheduler.explain.blocking_jobs import Holder, QuotaUse
from oarpy.scheduler.explain.counterfactuals import Counterfactuals, Shortage
from oarpy.scheduler.verdicts import Verdict
from oarpy.store.passes.last_answer import LastAnswer
from oarpy.store.platform.nodes import NodeDescription

_MOST_NAMED = 5
_SHORTEST_ADVICE = 60
"""Seconds: a walltime below this is no advice for people; the JSON object has it."""

_VERDICTS: Mapping[Verdict, str] = {
    Verdict.STARTS: "starts in the next scheduling pass",
    Verdict.RESERVED: "is a reservation that the next scheduling pass accepts",
    Verdict.RESOURCES_BUSY: "waits for resources that are held",
    Verdict.BEHIND_HIGHER_PRIORITY: "waits behind jobs ahead of it",
    Verdict.DEPENDENCY: "waits for another job",
    Verdict.DATE: "waits for a date, or for a place that its dates allow",
    Verdict.QUOTA: "waits for its quota",
    Verdict.RESERVATION: "is a reservation that cannot be had",
    Verdict.RESOURCES_DOWN: "waits for resources that are not Alive",
    Verdict.HELD: "is held",
    Verdict.NEVER: "can never run as it is",
}

_FOR_HOURS = "waits for hours of its project (budget)"
"""The same for a job whose quota is that of its project."""


class StoredDocument(TypedDict):
    """The verdict of the last scheduling pass, which was at ``pass_at``; times in epoch seconds."""

    verdict: str | None
    reason: str | None
    reason_data: ReasonDocument | None
    start: float | None
    pass_at: float


class RankDocument(TypedDict):
    """A place in a queue, from 1."""

    place: int
    among: int


class HolderDocument(TypedDict):
    """A job in the way; ``until`` in epoch seconds."""

    job_id: int
    owner: str | None
    resources: int
    until: float
    running: bool


class QuotaRuleDocument(TypedDict):
    queue: str
    project: str
    type: str
    user: str
    level: str


QuotaPeriodDocument = TypedDict("QuotaPeriodDocument", {"name": str, "from": float | None, "to": float | None})


class QuotaLimitsDocument(TypedDict):
    """Limits of a rule, null for none."""

    resources: float | None
    jobs: float | None
    resource_hours: float | None


class QuotaUsedDocument(TypedDict):
    """The used part of a quota."""

    resources: int
    jobs: int
    resource_hours: float


class QuotaUseDocument(TypedDict):
    """A quota that is reached, and the jobs that use it."""

    rule: QuotaRuleDocument
    period: QuotaPeriodDocument | None
    limits: QuotaLimitsDocument
    used: QuotaUsedDocument
    job_ids: Sequence[int]


class CountDocument(TypedDict):
    """The largest smaller count of a level that would start now."""

    level: str
    count: int
    request: str


class StartNowDocument(TypedDict):
    """Changes of a request that let the job start now; null, or no consumable, if such a change does not help."""

    count: CountDocument | None
    consumables: Mapping[str, int]
    walltime: float | None


class ShorterDocument(TypedDict):
    """With a walltime of so many seconds a job would start at ``start``."""

    walltime: float
    start: float


class UnfilteredDocument(TypedDict):
    """Without the filter a job would start at ``start``; ``group`` from 0, null for the filter of the whole job."""

    filter: str
    group: int | None
    start: float


class StartEarlierDocument(TypedDict):
    """Changes of a request that let the job start earlier."""

    walltime: ShorterDocument | None
    filters: Sequence[UnfilteredDocument]


class AwayNodeDocument(TypedDict):
    """A node that the job could use, drained or down since ``since``."""

    node: str
    reason: str | None
    author: str | None
    since: float | None


class LevelShortageDocument(TypedDict):
    """The requested number of a level, and the largest number that the platform can serve."""

    level: str
    asked: int
    largest: int


class ShortageDocument(TypedDict):
    """The resources that the platform lacks for a group of a request; groups count from 0."""

    group: int
    condition: str | None
    matching: int | None
    left: int | None
    unmet: str | None
    levels: Sequence[LevelShortageDocument]


class _AnswerDocument(TypedDict):
    verdict: str
    reason: str
    reason_data: ReasonDocument | None
    start: float | None
    resources: int
    alternative: int | None
    rank: RankDocument | None
    in_the_way: Sequence[HolderDocument]
    quota: QuotaUseDocument | None
    would_start_now: StartNowDocument
    would_start_earlier: StartEarlierDocument
    if_resumed: float | None


class WhyDocument(TypedDict):
    """The reasons why a job waits, as in ``docs/guides/why.md``. Keys after ``expected_start`` depend on its state."""

    job_id: int
    state: str
    owner: str
    queue: str
    summary: str
    sentences: Sequence[str]
    stored: StoredDocument
    expected_start: ExpectedStartDocument | None
    resumes: NotRequired[float | None]
    held_up_by: NotRequired[Sequence[int]]
    verdict: NotRequired[str]
    reason: NotRequired[str]
    reason_data: NotRequired[ReasonDocument | None]
    start: NotRequired[float | None]
    resources: NotRequired[int]
    alternative: NotRequired[int | None]
    rank: NotRequired[RankDocument | None]
    in_the_way: NotRequired[Sequence[HolderDocument]]
    quota: NotRequired[QuotaUseDocument | None]
    would_start_now: NotRequired[StartNowDocument]
    would_start_earlier: NotRequired[StartEarlierDocument]
    if_resumed: NotRequired[float | None]
    server_runs: NotRequired[bool]
    asleep: NotRequired[Sequence[str]]
    away: NotRequired[Sequence[AwayNodeDocument]]
    missing: NotRequired[Sequence[ShortageDocument]]


def report(explanation: Explanation) -> Report[WhyDocument]:
    """Return one sentence a line, the most important first, or one JSON object."""
    return TwoForms(lambda: _text(explanation), lambda: _record(explanation))


def _text(explanation: Explanation) -> str:
    return "".join(f"{one_line(line)}\n" for line in _lines(explanation))


def _record(explanation: Explanation) -> WhyDocument:
    stored, answer = explanation.standing, explanation.answer
    lines = list(_lines(explanation))
    result: WhyDocument = {
        "job_id": stored.job,
        "state": stored.state,
        "owner": stored.user,
        "queue": stored.queue,
        "summary": lines[0],
        "sentences": lines,
        "stored": {
            "verdict": stored.verdict or None,
            "reason": sentence(stored.why, local_date) or None,
            "reason_data": reason_record(stored.why),
            "start": stored.predicted,
            "pass_at": stored.passed,
        },
        "expected_start": expected_record(stored.told),
    }
    if answer is None:
        resumption = explanation.resumption
        result["resumes"] = None if resumption is None else resumption.start
        result["held_up_by"] = list(explanation.held_up_by)
        return result
    return {
        **result,
        **_answer_record(answer, explanation.owners or {}),
        "server_runs": not explanation.unscheduled,
        "asleep": list(explanation.asleep),
        "away": [
            {"node": node.name, "reason": node.away_reason, "author": node.away_by, "since": node.away_since}
            for node in explanation.away
        ],
        "missing": [_shortage_record(*pair) for pair in zip(answer.shortages, explanation.culprits, strict=True)],
    }


def _answer_record(answer: Counterfactuals, owners: Mapping[int, str]) -> _AnswerDocument:
    fewer, shorter = answer.fewer, answer.shorter
    count: CountDocument | None = None
    if fewer is not None:
        count = {"level": fewer.level, "count": fewer.count, "request": str(fewer.request)}
    return {
        "verdict": str(answer.verdict),
        "reason": sentence(answer.reason, local_date),
        "reason_data": reason_record(answer.reason),
        "start": answer.start,
        "resources": answer.resources,
        "alternative": answer.alternative,
        "rank": None if answer.rank is None else {"place": answer.rank.place, "among": answer.rank.among},
        "in_the_way": [_holder_record(holder, owners) for holder in answer.holders],
        "quota": None if answer.quota is None else _quota_record(answer.quota),
        "would_start_now": {
            "count": count,
            "consumables": {consumption.name: consumption.amount for consumption in answer.leaner},
            "walltime": None if answer.shorter_now is None else answer.shorter_now.walltime,
        },
        "would_start_earlier": {
            "walltime": None if shorter is None else {"walltime": shorter.walltime, "start": shorter.start},
            "filters": [
                {"filter": trial.dropped, "group": trial.group, "start": trial.start} for trial in answer.unfiltered
            ],
        },
        "if_resumed": answer.resumed,
    }


def _lines(explanation: Explanation) -> Iterator[str]:
    if explanation.answer is None:
        yield _resuming(explanation) or _settled(explanation.standing)
        yield from explanation.mapping
        return
    answer = explanation.answer
    yield _first(explanation, answer)
    if explanation.unscheduled:
        yield "No server is running: no job starts until 'oarpy server' does."
    yield from _start(explanation, answer)
    yield from explanation.mapping
    if explanation.asleep:
        more = len(explanation.asleep) - _MOST_NAMED
        named = ", ".join(explanation.asleep[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield f"These nodes have to wake first: {named}."
    for node in explanation.away[:_MOST_NAMED]:
        yield f"{node.name} is drained or down since {_absence(node)}."
    if (more := len(explanation.away) - _MOST_NAMED) > 0:
        yield f"{_counted(more, 'more node')} {'is' if more == 1 else 'are'} drained or down."
    if answer.rank is not None:
        yield f"Rank: {answer.rank.place} of {answer.rank.among} waiting in queue {explanation.standing.queue}."
    if answer.holders:
        yield _in_the_way(answer, explanation.owners or {}, explanation.security)
    if answer.quota is not None:
        yield _quota(answer.quota)
    for shortage, culprit in zip(answer.shortages, explanation.culprits, strict=True):
        yield _missing(shortage, culprit, answer.verdict)
    yield from _advice(answer)


def _start(explanation: Explanation, answer: Counterfactuals) -> Iterator[str]:
    """Say when the job starts: by the plan, and by its first prediction."""
    if answer.start is not None and answer.verdict is not Verdict.STARTS:
        yield f"Predicted start: {local_date(answer.start)}, on {_counted(answer.resources, 'resource')}."
        if explanation.standing.told is not None:
            yield expected_sentence(explanation.standing.told, explanation.standing.passed)
    elif answer.verdict not in (Verdict.STARTS, Verdict.HELD, Verdict.NEVER):
        yield "No start is predicted."


def _first(explanation: Explanation, answer: Counterfactuals) -> str:
    number = explanation.standing.job
    waits = _FOR_HOURS if answer.reason.kind is Why.BUDGET else f"{_VERDICTS[answer.verdict]} ({answer.verdict})"
    head = f"Job {number} {waits}"
    if answer.verdict is not Verdict.HELD:
        return f"{head}: {sentence(answer.reason, local_date)}."
    if explanation.stopped:
        return f"{head}: queue '{explanation.standing.queue}' is not active, an administrator can start it."
    return f"{head}: oarresume {number} lets it go on."


def _resuming(explanation: Explanation) -> str:
    """Tell when a job that is to go on has its resources again, "" when that is not known."""
    stored, resumption, jobs = explanation.standing, explanation.resumption, explanation.held_up_by
    if resumption is None or not jobs or stored.dying:
        return ""
    noun = "job" if len(jobs) == 1 else "jobs"
    named = ", ".join(map(str, jobs[:_MOST_NAMED])) + (", ..." if len(jobs) > _MOST_NAMED else "")
    if resumption.kill:
        return f"Job {stored.job} is resuming: jobs give way to it: {named}."
    date = local_date(resumption.start)
    return f"Job {stored.job} is resuming: it goes on at {date}, when {noun} {named} should be over."


def _settled(stored: LastAnswer) -> str:
    """Tell about a job that waits for nothing the scheduler decides."""
    end = None if stored.started is None or stored.walltime is None else stored.started + stored.walltime
    if stored.ended is not None:
        status = f", exit status {exit_text(stored.exit_status)}" if stored.exit_status is not None else ""
        message = f": {stored.message}" if stored.message else ""
        return (
            f"Job {stored.job} does not wait: it ended at {local_date(stored.ended)} ({stored.state}{status}){message}."
        )
    if stored.dying:
        return f"Job {stored.job} is being deleted ({stored.state})."
    if stored.state == JobState.SUSPENDED:
        return f"Job {stored.job} is suspended: oarresume {stored.job} lets it go on."
    if stored.state == JobState.RESUMING:
        return f"Job {stored.job} is resuming: it goes on as soon as its resources are free."
    if stored.reserved is not None and stored.started is None and stored.state in ("Waiting", "Hold"):
        held = f"; it is held: oarresume {stored.job} lets it start" if stored.state == "Hold" else ""
        return f"Job {stored.job} is an accepted reservation and starts at {local_date(stored.reserved)}{held}."
    since = f" since {local_date(stored.started)}" if stored.started is not None else ""
    until = f", until {local_date(end)} at the latest" if end is not None else ""
    return f"Job {stored.job} does not wait: it is {stored.state}{since}{until}."


def _in_the_way(answer: Counterfactuals, owners: Mapping[int, str], security: float) -> str:
    named = [
        f"job {holder.job} of {owners.get(holder.job, '?')} ({_counted(holder.resources, 'resource')} "
        f"until {local_date(holder.until)}{'' if holder.running else ', not started yet'})"
        for holder in answer.holders[:_MOST_NAMED]
    ]
    more = len(answer.holders) - _MOST_NAMED
    others = f" and {_counted(more, 'more job')}" if more > 0 else ""
    included = f"; {security:g} s of security time included" if security else ""
    return f"In the way: {', '.join(named)}{others}{included}."


def _quota(use: QuotaUse) -> str:
    rule = use.rule
    parts = [
        f"{held:g} of {limit:g} {name}"
        for name, held, limit in (
            ("resources", use.resources, rule.resources),
            ("jobs", len(use.jobs), rule.jobs),
            ("resource-hours", use.resource_hours, rule.resource_hours),
        )
        if limit >= 0
    ]
    more = ", ..." if len(use.jobs) > _MOST_NAMED else ""
    noun = "job" if len(use.jobs) == 1 else "jobs"
    named = f" by {noun} {', '.join(map(str, use.jobs[:_MOST_NAMED]))}{more}" if use.jobs else ""
    name, when = f"Quota {rule.key}", "now"
    if use.end < inf:
        name += f" ({rule.period}, until {local_date(use.end)})"
    if use.at == use.begin:
        when = f"at {local_date(use.at)}, when it becomes valid,"
    return f"{name}: {', '.join(parts)} used {when}{named}."


def _missing(shortage: Shortage, culprit: str, verdict: Verdict) -> str:
    there = "Alive" if verdict is Verdict.RESOURCES_DOWN else "that exist"
    if culprit:
        return f"Missing: no resource meets {culprit}."
    if shortage.admitted == 0:
        return f"Missing: no resource meets {shortage.condition}."
    if shortage.left == 0 and shortage.admitted:
        where = f" that meet {shortage.condition}" if shortage.condition else ""
        return f"Missing: the rules of this site leave none of the {_counted(shortage.admitted, 'resource')}{where}."
    largest = [f"{level}={most} instead of {wanted}" for level, wanted, most in shortage.counts if most]
    where = f" where {shortage.condition}" if shortage.condition else ""
    if not largest:
        group = shortage.group + 1
        return f"Missing: the resources {there}{where} do not serve group {group}, whichever count is reduced."
    return f"Missing: the resources {there}{where} serve at most {' or '.join(largest)}."


def _advice(answer: Counterfactuals) -> Iterator[str]:
    if answer.resumed is not None:
        yield f"Resumed now, it would start at {local_date(answer.resumed)}."
    if answer.fewer is not None:
        yield f'It would start now with {answer.fewer.level}={answer.fewer.count} (-l "{answer.fewer.request}").'
    for less in answer.leaner:
        yield f"It would start now with {less}."
    now, sooner = answer.shorter_now, answer.shorter
    if now is not None and now.walltime >= _SHORTEST_ADVICE:
        yield f"It would start now with a walltime of at most {format_duration(now.walltime)}."
    if sooner is not None and sooner != now and sooner.walltime >= _SHORTEST_ADVICE:
        longest = format_duration(sooner.walltime)
        yield f"It would start at {local_date(sooner.start)} with a walltime of at most {longest}."
    for trial in answer.unfiltered:
        whose = "its filter" if trial.group is None else f"the filter of group {trial.group + 1},"
        yield f"It would start at {local_date(trial.start)} without {whose} {trial.dropped}."


def _absence(node: NodeDescription) -> str:
    """Say since when a node is drained or down, by which user and why."""
    if node.away_since is None:
        return "some time"
    why = f": {one_line(node.away_reason)}" if node.away_reason else ""
    return f"{local_date(node.away_since)} ({node.away_by}){why}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _holder_record(holder: Holder, owners: Mapping[int, str]) -> HolderDocument:
    return {
        "job_id": holder.job,
        "owner": owners.get(holder.job),
        "resources": holder.resources,
        "until": holder.until,
        "running": holder.running,
    }


def _quota_record(use: QuotaUse) -> QuotaUseDocument:
    rule = use.rule

    def limit(value: float) -> float | None:
        return value if value >= 0 else None

    def finite(instant: float) -> float | None:
        return instant if abs(instant) < inf else None

    return {
        "rule": {
            "queue": rule.queue,
            "project": rule.project,
            "type": rule.type,
            "user": rule.user,
            "level": rule.level,
        },
        "period": None
        if rule.valid is None
        else {"name": rule.period, "from": finite(use.begin), "to": finite(use.end)},
        "limits": {
            "resources": limit(rule.resources),
            "jobs": limit(rule.jobs),
            "resource_hours": limit(rule.resource_hours),
        },
        "used": {"resources": use.resources, "jobs": len(use.jobs), "resource_hours": use.resource_hours},
        "job_ids": list(use.jobs),
    }


def _shortage_record(shortage: Shortage, culprit: str) -> ShortageDocument:
    return {
        "group": shortage.group,
        "condition": shortage.condition or None,
        "matching": shortage.admitted,
        "left": shortage.left,
        "unmet": culprit or None,
        "levels": [{"level": level, "asked": wanted, "largest": most} for level, wanted, most in shortage.counts],
    }
