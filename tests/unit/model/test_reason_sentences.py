"""Reasons are facts: each kind has its sentence, and JSON keeps what the sentence needs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec import Struct, structs

from oarpy.model.reasons import (
    LOWER,
    NO_REASON,
    BudgetLimit,
    BudgetLimitDocument,
    Change,
    NamedOutage,
    NamedOutageDocument,
    QuotaLimit,
    QuotaLimitDocument,
    Reason,
    ReasonDocument,
    ShortAmount,
    ShortAmountDocument,
    Why,
    plain_instant,
    reason_json,
    reason_of,
    reason_record,
    sentence,
    words,
)

_LIMIT = QuotaLimit("*,*,*,*", resources=1, passing=True, period="day", end=100)
_ALWAYS = QuotaLimit("*,*,*,ann", jobs=2, resource_hours=4.5)
_MORE = "job 7, which it depends on,"
SENTENCES = {
    Reason(Why.UNEXPLAINED): "",
    Reason(
        Why.ALTERED, "ann", changes=(Change("queue", "a", "b"), Change("notify"), Change("message", "R=1", "R=2"))
    ): ("changed by ann: queue a -> b, notify"),
    Reason(Why.WORDS, "as somebody said"): "as somebody said",
    Reason(Why.STARTS): "starts now",
    Reason(Why.ITS_DATE): "its reservation",
    Reason(Why.ACCEPTED): "accepted",
    Reason(Why.PROMISED): "accepted reservation",
    Reason(Why.HELD): "held",
    Reason(Why.QUEUE_STOPPED, "night"): "queue 'night' is not active",
    Reason(Why.QUEUE_MISSING, "night"): "queue 'night' does not exist",
    Reason(Why.QUEUE_ORDER, "policy 'x' of queue 'a' does not exist"): "policy 'x' of queue 'a' does not exist",
    Reason(Why.NO_LAUNCHER): "its launcher has not asked for hosts yet",
    Reason(Why.FAULT, "its dates cannot be read"): "its dates cannot be read",
    Reason(Why.SET_ASIDE, "no such row"): "set aside, and tried again soon: no such row",
    Reason(Why.NOT_PLANNED, "KeyError: 1"): "it could not be planned: KeyError: 1",
    Reason(Why.NO_ALTERNATIVE): "its request is gone: there is no alternative left",
    Reason(Why.LIMIT_OF_USER, count=3): "not looked at in this pass, which takes 3 jobs of a user",
    Reason(Why.LIMIT_OF_PASS, count=3): "not looked at in this pass, which stops after 3 jobs",
    Reason(Why.LIMIT_OF_APPLICATIONS, count=3): "not looked at in this pass, which takes 3 applications",
    Reason(Why.NEXT_NEGOTIATION): "its request is looked at by the next pass for applications",
    Reason(Why.POSTPONED, until=60): "it is postponed until 60",
    Reason(Why.POSTPONED, until=60, end_by=90): "it is postponed until 60, and it has to end by 90",
    Reason(Why.AFTER_JOBS, jobs=(1, 2), until=60): "the jobs it depends on let it start at 60",
    Reason(Why.AFTER_END, jobs=(1,), until=60.5, start_by=70, end_by=90): (
        "the job it depends on is expected to end at 60.5, and it has to start by 70 and end by 90"
    ),
    Reason(Why.TOO_LATE, at=10, end=30, start_by=5): "it has to start by 5; the earliest it could run from 10 to 30",
    Reason(Why.EXPIRED, start_by=5): "it expired at 5",
    Reason(Why.DEADLINE_MISSED, end_by=5): "it can no longer end by its deadline at 5",
    Reason(Why.ANTERIOR_HELD, jobs=(7,)): f"{_MORE} is held",
    Reason(Why.ANTERIOR_ENDLESS, jobs=(7,)): f"{_MORE} has no predicted end",
    Reason(Why.ANTERIOR_ENDED, "ok", (7,)): "job 7 ended without success, which can no longer meet 'ok:7'",
    Reason(Why.ANTERIOR_ENDED, "notok", (7,)): "job 7 ended with success, which can no longer meet 'notok:7'",
    Reason(Why.WINDOW_MISSED, "7,[+10,", (7,)): (
        "it should have started within the time that '7,[+10,' leaves it, which is over"
    ),
    Reason(Why.CIRCLE, "box"): (
        "it waits for container 'box', which cannot come first: jobs wait for each other in a circle"
    ),
    Reason(Why.CIRCLE, jobs=(7,)): "it waits for job 7, which cannot come first: jobs wait for each other in a circle",
    Reason(Why.MAKING_ROOM, jobs=(1, 2)): "best-effort jobs are cancelled to make room: 1, 2",
    Reason(Why.MAKING_ROOM, LOWER, jobs=(1, 2), until=30): (
        "jobs on lower levels give way: 1, 2; their checkpoints take until 30"
    ),
    Reason(Why.TAKING_BACK, jobs=(1,), until=30): (
        "revocable hosts are taken back to make room: 1; their checkpoints take until 30"
    ),
    Reason(Why.CHECKPOINTS, until=60, at=30): (
        "best-effort jobs leave it no room until 60: their checkpoints take until 30"
    ),
    Reason(Why.CHECKPOINTS, LOWER, at=30): "jobs on lower levels leave it no room: their checkpoints take until 30",
    Reason(Why.CHECKPOINTS, at=30): "best-effort jobs leave it no room: their checkpoints take until 30",
    Reason(Why.QUOTA, quota=_ALWAYS): "quota *,*,*,ann: at most 2 jobs, 4.5 resource-hours",
    Reason(Why.QUOTA, quota=_LIMIT, until=60, at=90): (
        "quota *,*,*,* (day, valid until 100): at most 1 resource, reached until 60; all that it needs is free at 90"
    ),
    Reason(Why.QUOTA, quota=QuotaLimit("", end=100)): "it would end beyond 100, until when quotas are known",
    Reason(Why.QUOTA_OF_RUNNING, quota=_LIMIT): (
        "quota *,*,*,* (day, valid until 100): at most 1 resource, reached by running jobs"
    ),
    Reason(Why.BUDGET, budget=BudgetLimit("fire", 100, 2.5, 60), until=60, at=90): (
        "project fire has 2.5 of 100 hours left in the period that ends at 60, too few for it, so that it waits until "
        "60; all that it needs is free at 90"
    ),
    Reason(Why.BUDGET, budget=BudgetLimit("fire", 100, 81.99999101)): (
        "project fire has 81.99 of 100 hours left, too few for it"
    ),
    Reason(Why.BUDGET, budget=BudgetLimit("fire", over=50)): "project fire is over at 50",
    Reason(Why.OUTAGE, outages=(NamedOutage("n1 not available", 5, 20), NamedOutage("new disks", 7)), until=20): (
        "n1 not available from 5 until 20; new disks from 7 on, so that it waits until 20"
    ),
    Reason(Why.OUTAGE, outages=(NamedOutage("n1 not available", end=20),), more_outages=1): (
        "n1 not available until 20 ..."
    ),
    Reason(Why.SHORT, amounts=(ShortAmount("memory", 2048, "node", (("n1", 0), ("n2", 1)), 3),), until=20): (
        "memory: 2K asked on each node, 0 left on n1, 1 left on n2 and 3 more until 20"
    ),
    Reason(Why.BEHIND, until=20, security=5): (
        "jobs ahead of it take what it needs until 20, 5 s of security time included"
    ),
    Reason(Why.BUSY): "what it needs is held",
    Reason(Why.BUSY, until=20, security=5): "what it needs is held until 20, 5 s of security time included",
    Reason(Why.BUSY, jobs=(1, 2), more_jobs=1, until=20, security=5, young=(3,), quota=_ALWAYS, quota_until=40): (
        "what it needs is held until 20, when jobs 1, 2, ... should be over, 5 s of security time included"
        " and best-effort job 3 may be cancelled, then quota *,*,*,ann: at most 2 jobs, 4.5 resource-hours until 40"
    ),
    Reason(Why.BUSY, "lower", until=20, young=(3, 4)): (
        "what it needs is held until 20, when jobs 3, 4 on a lower level may be cancelled"
    ),
    Reason(Why.LACKING, "4 of 5 core"): "4 of 5 core",
    Reason(Why.TOO_FEW_ALIVE, "1 of 2 core"): "too few resources are Alive: 1 of 2 core",
    Reason(Why.TOO_FEW_IN_USE, "1 of 2 core"): "too few resources are Alive and not drained: 1 of 2 core",
    Reason(Why.AWAY): "nodes that it needs are not available for long enough",
    Reason(Why.ASLEEP): "its nodes are asleep and have to wake first",
    Reason(Why.NO_CONTAINER, "9"): "no container '9' runs or is planned",
    Reason(Why.BESTEFFORT_CONTAINER, "9"): "no container '9' runs or is planned, but for best-effort jobs",
    Reason(Why.TOO_LARGE_FOR_CONTAINER, "9"): "it does not fit inside container '9'",
    Reason(Why.CONTAINER_FULL, "9"): "other jobs fill container '9' until it ends",
    Reason(Why.REFUSED, because=Reason(Why.NOT_FREE, at=10), at=50): (
        "refused: its resources are not free at 10, possible at 50"
    ),
    Reason(Why.RESERVATION_REFUSED, because=Reason(Why.END_PAST, at=10)): "reservation refused: its end 10 is past",
    Reason(Why.END_PAST, at=10): "its end 10 is past",
    Reason(Why.NOT_FREE, at=10): "its resources are not free at 10",
    Reason(Why.CHECKPOINTS_LAST, until=10): "best-effort jobs write checkpoints until 10",
    Reason(Why.CHECKPOINTS_LAST, LOWER, until=10): "jobs on lower levels write checkpoints until 10",
    Reason(Why.NOTHING_TO_AMEND, jobs=(7,)): "job 7, whose place it is to take, is no reservation any more",
    Reason(Why.NO_ROOM_TO_AMEND): "there is no room at its date, also without what it is to take the place of",
    Reason(Why.GIVEN_UP): "reservation expired and could not be started",
    Reason(Why.ANTERIOR_FAILED, "ok", (7,)): f"reservation given up: {_MORE} ended without success",
    Reason(Why.RESERVATION_AFTER, jobs=(7,)): "reservation waits for job 7, which it depends on",
    Reason(Why.BAG_TOO_LATE, at=20.0, end_by=10.0): "the bag would be done at 20, and has to be by 10",
    Reason(Why.BAG_WITHOUT_PLACE, count=3): ("there is never room for the 3 tasks of the bag beside what is promised"),
    Reason(Why.RESERVATION_SHORT, count=1, wanted=4): "reservation waits for 1 of its 4 resources",
}


@pytest.mark.parametrize(("reason", "text"), SENTENCES.items(), ids=lambda one: getattr(one, "kind", ""))
def test_a_reason_is_said_and_read_again(reason: Reason, text: str) -> None:
    assert sentence(reason, plain_instant) == str(reason) == text
    again = reason_of("", reason_json(reason))
    assert (again, str(again)) == (reason, text)


def test_each_kind_has_its_sentence() -> None:
    assert {reason.kind for reason in SENTENCES} == set(Why)


def test_the_reader_says_how_dates_are_written() -> None:
    reason = Reason(Why.BUSY, until=60, quota=_LIMIT, quota_until=90)
    assert sentence(reason, "<{:g}>".format) == (
        "what it needs is held until <60>, then quota *,*,*,* (day, valid until <100>): at most 1 resource until <90>"
    )


def test_what_was_stored_as_words_stays_words() -> None:
    assert reason_of("what it needs is held until 60", None) == words("what it needs is held until 60")
    assert (reason_of("", None), words("")) == (NO_REASON, NO_REASON)
    later = json.dumps({"kind": "of_a_later_version", "until": 60})
    assert str(reason_of("in other words", later)) == "in other words"


@pytest.mark.parametrize(
    ("facts", "document"),
    [
        (Reason, ReasonDocument),
        (QuotaLimit, QuotaLimitDocument),
        (BudgetLimit, BudgetLimitDocument),
        (NamedOutage, NamedOutageDocument),
        (ShortAmount, ShortAmountDocument),
    ],
)
def test_programs_are_told_of_each_field(facts: type[Struct], document: type[object]) -> None:
    needed = {name: "NotRequired" not in str(kind) for name, kind in document.__annotations__.items()}
    assert needed == {one.name: one.required for one in structs.fields(facts)}


def test_each_kind_is_in_the_guide() -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/why.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)` \| [^|]+ \|$", guide.partition("## Reasons for programs")[2], re.MULTILINE))
    assert named >= set(Why) - {Why.UNEXPLAINED}


def test_programs_read_what_has_a_value() -> None:
    reason = Reason(Why.BUSY, jobs=(1,), until=60)
    assert reason_record(reason) == {"kind": "busy", "jobs": (1,), "until": 60}
    assert json.loads(reason_json(reason) or "") == {"kind": "busy", "jobs": [1], "until": 60}
    assert (reason_record(NO_REASON), reason_json(NO_REASON)) == (None, None)
