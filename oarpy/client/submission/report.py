"""The output of ``oarsub``. Programs read the lines ``OAR_JOB_ID=...`` and ``OAR_ARRAY_ID=...``, or the JSON object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NotRequired, TypedDict

from oarpy.client.rendering import elapsed, joined_date, local_date, whole_seconds
from oarpy.client.submission.bags import BagAnswer
from oarpy.client.submission.reservation_answer import ReservationAnswer
from oarpy.client.submission.submission import Submitted
from oarpy.store.jobs.windows import OfferRow

_MOST_LINES = 20


class OfferDocument(TypedDict):
    """A start that a refused reservation could have, in epoch seconds."""

    offer_id: int
    start: int
    end: int
    phi: float


class AnswerDocument(TypedDict):
    """The answer to a reservation; ``offers`` of a refused one."""

    job_id: int
    accepted: bool
    reason: str
    next_date: int | None
    offers: NotRequired[Sequence[OfferDocument]]


class SubmittedDocument(TypedDict):
    """The submitted jobs.

    ``job_id`` is the first job, ``notes`` are those of the rules, ``reservations`` is there when it was one, ``trace``
    when it was asked for. A bag has ``promise``, ``deadline`` (epoch seconds) and ``meets``, a refused one the
    ``reason``, and as ``promise`` when it could be had, one with a profile when it is ``expected``. ``measuring`` are
    jobs that measure its rates, or the seconds of a task, first.
    """

    job_id: int
    array_id: int
    job_ids: Sequence[int]
    notes: Sequence[str]
    warnings: Sequence[str]
    reservations: NotRequired[Sequence[AnswerDocument]]
    promise: NotRequired[int | None]
    deadline: NotRequired[int | None]
    meets: NotRequired[bool | None]
    reason: NotRequired[str]
    expected: NotRequired[int | None]
    measuring: NotRequired[Sequence[int]]
    trace: NotRequired[Sequence[str]]


def text(submitted: Submitted, *, verbose: bool, brief: bool = False) -> str:
    """Return the rules' notes as they are, ``# `` lines for people, and one line for each job.

    ``brief``: if there are many jobs, only the first and the last have a line, since a person reads them.
    """
    lines = remarks(submitted)
    if verbose:
        lines += trace_lines(submitted.trace)
    ids = [f"OAR_JOB_ID={job_id}" for job_id in submitted.job_ids]
    lines += [ids[0], f"... {len(ids) - 2} more ...", ids[-1]] if brief and len(ids) > _MOST_LINES else ids
    if submitted.is_array:
        lines.append(f"OAR_ARRAY_ID={submitted.array_id}")
    return "\n".join(lines) + "\n"


def remarks(submitted: Submitted) -> list[str]:
    """Return the rules' notes as they are, and warnings behind ``# ``."""
    lines = [*submitted.notes, *(f"# {line}" for line in submitted.warnings)]
    if submitted.measuring:
        what = "The seconds of a task are" if submitted.is_bag else "Its rates are"
        lines.append(f"# {what} measured first, by {_jobs(submitted.measuring)}")
    return lines


def _jobs(jobs: Sequence[int]) -> str:
    return f"job{'s' if len(jobs) > 1 else ''} {', '.join(map(str, jobs))}"


def trace_lines(trace: Iterable[str]) -> list[str]:
    """Return the actions of the rules, as lines for people."""
    return [f"# {line}" for line in trace]


def answer_text(answer: ReservationAnswer) -> str:
    """Return OAR's line about a reservation, and one for each start that a refused one could have."""
    if answer.accepted:
        return "# Reservation valid --> OK\n"
    refused = f"# Reservation not valid --> KO ({' '.join(answer.reason.split())})\n"
    return refused + offer_lines(answer.offers)


def completion_lines(promise: float | None, deadline: float | None) -> list[str]:
    """Return by when a bag is done, and how that is to its deadline; both in epoch seconds."""
    lines = [f"promised completion : {local_date(promise)}"]
    if promise is not None and deadline is not None:
        late = round(promise - deadline)
        lines.append("deadline met" if promise <= deadline else f"deadline missed by {elapsed(late)}")
    return lines


def promise_text(answer: BagAnswer) -> str:
    """Return the date by which a bag will be done and whether that meets its deadline, or why it was refused."""
    warnings = [f"# {warning}" for warning in answer.warnings]
    if answer.reason:
        return "".join(f"{line}\n" for line in (*warnings, f"# Bag not accepted --> KO ({answer.reason})"))
    lines = [*warnings, *completion_lines(answer.promise, answer.deadline)]
    if answer.expected is not None:
        lines.append(f"expected completion : {local_date(answer.expected)}")
    return "".join(f"{line}\n" for line in lines)


def offer_lines(offers: Iterable[OfferRow]) -> str:
    """Return a line for each start that could be had."""
    return "".join(map(_offer_line, offers))


def _offer_line(offer: OfferRow) -> str:
    start, end = joined_date(offer.start), joined_date(offer.end)
    return f"OAR_OFFER_ID={offer.id} start={start} end={end} phi={offer.phi:.2f}\n"


def offer_records(offers: Iterable[OfferRow]) -> list[OfferDocument]:
    """Return the JSON objects of starts that could be had."""
    return [
        {"offer_id": offer.id, "start": int(offer.start), "end": int(offer.end), "phi": offer.phi} for offer in offers
    ]


def _answer_record(answer: ReservationAnswer) -> AnswerDocument:
    document: AnswerDocument = {
        "job_id": answer.job_id,
        "accepted": answer.accepted,
        "reason": answer.reason,
        "next_date": whole_seconds(answer.next_date),
    }
    if not answer.accepted:
        document["offers"] = offer_records(answer.offers)
    return document


def record(
    submitted: Submitted, answers: Sequence[ReservationAnswer], *, verbose: bool, bag: BagAnswer | None = None
) -> SubmittedDocument:
    """Return the JSON object of ``oarsub -J``, ``verbose`` with the trace."""
    result: SubmittedDocument = {
        "job_id": submitted.job_ids[0],
        "array_id": submitted.array_id,
        "job_ids": list(submitted.job_ids),
        "notes": list(submitted.notes),
        "warnings": list(submitted.warnings),
    }
    if answers:
        result["reservations"] = [_answer_record(answer) for answer in answers]
    if submitted.measuring:
        result["measuring"] = list(submitted.measuring)
    if bag is not None:
        result["promise"] = whole_seconds(bag.promise)
        result["deadline"] = whole_seconds(bag.deadline)
        result["meets"] = bag.meets
        if bag.expected is not None:
            result["expected"] = whole_seconds(bag.expected)
        result["warnings"] = [*result["warnings"], *bag.warnings]
        if bag.reason:
            result["reason"] = bag.reason
    if verbose:
        result["trace"] = list(submitted.trace)
    return result
