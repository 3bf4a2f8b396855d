"""Waiting for the answer to an advance reservation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oarpy.client.pass_answers import place_to_wait, wait_for
from oarpy.model.errors import Unreachable
from oarpy.model.states import JobState
from oarpy.store.database import Connection
from oarpy.store.jobs.submissions import ReservationRow, reservation_answers
from oarpy.store.jobs.windows import OfferRow, offers

_STAYS = "the job stays: oarstat -j tells, oardel gives it up"
_REFUSED = frozenset({JobState.TO_ERROR, JobState.ERROR})


@dataclass(frozen=True, slots=True)
class ReservationAnswer:
    """``reason`` says why a reservation was refused, ``next_date`` (epoch seconds) when it could be had, if ever.

    ``offers`` are other starts that it could have.
    """

    job_id: int
    accepted: bool
    reason: str = ""
    next_date: float | None = None
    offers: tuple[OfferRow, ...] = ()


def wait_for_answers(connection: Connection, job_ids: Sequence[int], timeout: float) -> list[ReservationAnswer]:
    """Return the answers to these reservations once all have one, by ascending id.

    Raises :class:`Unreachable` when too many of the caller's commands wait, and after ``timeout`` seconds.
    The jobs stay, and may be answered later.
    """
    with place_to_wait(_STAYS):
        rows: list[ReservationRow] = []

        def all_answers() -> list[ReservationAnswer] | None:
            rows[:] = reservation_answers(connection, job_ids)
            answered = [answer for row in rows if (answer := _answer(row)) is not None]
            return answered if len(answered) == len(rows) else None

        answers = wait_for(connection, all_answers, timeout)
    if answers is None:
        waiting = ", ".join(str(row.id) for row in rows if _answer(row) is None)
        raise Unreachable(f"no server has answered reservation {waiting} within {timeout:g} s", hint=_STAYS)
    return _with_offers(connection, answers)


def _with_offers(connection: Connection, answers: list[ReservationAnswer]) -> list[ReservationAnswer]:
    """Return the answers with the offers to refused reservations."""
    refused = [answer.job_id for answer in answers if not answer.accepted]
    offered = offers(connection, refused) if refused else []
    return [
        answer
        if answer.accepted
        else replace(answer, offers=tuple(offer for offer in offered if offer.job == answer.job_id))
        for answer in answers
    ]


def _answer(row: ReservationRow) -> ReservationAnswer | None:
    if row.state in _REFUSED:
        reason = row.message
        for prefix in ("reservation ", "refused: ", "refused: "):
            reason = reason.removeprefix(prefix)
        return ReservationAnswer(row.id, accepted=False, reason=reason, next_date=row.offer)
    return ReservationAnswer(row.id, accepted=True) if row.reservation_state == "Scheduled" else None
