"""``oarsub --accept``: take a start that a refused reservation was offered."""

from __future__ import annotations

import socket
from datetime import datetime

from oarpy.client.jobs.running.windows import WindowChange, change
from oarpy.client.session import Session
from oarpy.client.submission import job_keys
from oarpy.client.submission.submission import Submitted, as_submitted, message, readmitted, store, unscheduled
from oarpy.model.errors import NotAllowed, NotFound, OarpyError, Unreachable
from oarpy.model.request import ResourceRequest
from oarpy.model.submission import Submission
from oarpy.store.jobs import windows
from oarpy.store.jobs.windows import OfferedPlace


def accept(session: Session, number: int, timeout: float) -> Submitted:
    """Ask as the refused job asked, the rules included, and take the offered start if the window cannot be had.

    The answer comes as to any reservation. If the offer is for another window of a reservation that stands, the same
    is asked for the reservation itself. Its answer is awaited here, for ``timeout`` seconds at most.

    Raises :class:`NotFound` for an offer that does not exist, or whose time is over, :class:`NotAllowed` for another
    user's, :class:`OarpyError` for an offer that was accepted before, :class:`WindowRefused` and :class:`Unreachable`
    as ``oarwindow`` does.
    """
    with session.connection.transaction():
        offer = _claimed(session, number)
        if offer.stands:
            windows.take_offer(session.connection, number, offer.job)
        else:
            admitted = readmitted(session, {**offer.request, "queue": offer.queue}, _changes(session, offer))
            pairs = job_keys.key_pairs(admitted.submission, offer.environment)
            job_ids = store(session, admitted, message(admitted))
            job_keys.store(session.connection, admitted.submission, job_ids, pairs)
            windows.take(session.connection, job_ids[0], offer.start, _date(admitted.submission, offer))
            windows.take_offer(session.connection, number, job_ids[0])
    if not offer.stands:
        job_keys.hand_out(session, admitted.submission, job_ids, pairs)
        return as_submitted(admitted, job_ids, unscheduled(session))
    _move(session, number, offer, timeout)
    return Submitted((offer.job,), is_array=False, reservation=offer.start)


def _move(session: Session, number: int, offer: OfferedPlace, timeout: float) -> None:
    """Ask for the other window of a reservation that stands again; an offer that is refused can be taken again.

    Without an answer, the reservation may still move there: then the offer stays taken.
    """
    try:
        change(session, offer.job, WindowChange(offer.ready, offer.deadline, take=offer.start.timestamp()), timeout)
    except Unreachable:
        raise
    except OarpyError:
        windows.take_offer(session.connection, number, None)
        raise


def _claimed(session: Session, number: int) -> OfferedPlace:
    """Return an offer that the caller may take, which no other command can take until the transaction ends."""
    offer = windows.claim_offer(session.connection, number)
    if offer is None:
        raise NotFound(f"there is no offer {number}", hint="a refused reservation prints its own")
    if offer.user != session.user:
        raise NotAllowed(f"offer {number} is for {offer.user}", hint="who was refused can take it")
    if offer.accepted_job is not None:
        raise OarpyError(f"offer {number} was accepted as job {offer.accepted_job}")
    if not offer.is_valid:
        raise NotFound(f"the time of offer {number} is over", hint="submit the reservation again")
    return offer


def _date(question: Submission, offer: OfferedPlace) -> tuple[datetime, datetime]:
    """Return from when to when a strict reservation would be."""
    assert question.reservation is not None
    return question.reservation, question.reservation + (offer.end - offer.start)


def _changes(session: Session, offer: OfferedPlace) -> dict[str, object]:
    """Return in which fields the submission differs: it is for one job, with the alternative that the offer is for."""
    refused = Submission.from_record(dict(offer.request))
    return {
        "alternatives": _taken(session, refused.alternatives, int((offer.end - offer.start).total_seconds())),
        "array_size": 1,
        "array_parameters": (),
        "command": offer.command,
        "environment": offer.environment,
        "script": offer.script,
        "submitted_from": socket.gethostname(),
        "initial_request": f"oarsub --accept, offered to job {offer.job}",
    }


def _taken(session: Session, requests: tuple[ResourceRequest, ...], seconds: int) -> tuple[ResourceRequest, ...]:
    """Return the alternative that an offer is for: the first that runs as long."""
    usual = session.configuration.submission.default_walltime
    return tuple(request for request in requests if (request.walltime or usual) == seconds)[:1] or requests
