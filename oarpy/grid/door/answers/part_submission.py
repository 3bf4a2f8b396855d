"""What a broker asks for, taken through the same submission as ``oarsub``: options, rules of the site, checks.

::

    queued    a job that is held
    reserved  an advance reservation from the date on
    claim     an advance reservation from now on; it has the time until its date besides its walltime
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from oarpy.client.session import Session
from oarpy.client.submission.feasibility import Need
from oarpy.client.submission.options import Options
from oarpy.client.submission.site import DatabaseSite, rule_limits
from oarpy.client.submission.submission import (
    Admitted,
    admit,
    admitted,
    drafted,
    enabled_rules,
    store,
    submitter,
    summary,
)
from oarpy.grid.door import grants
from oarpy.grid.door.visit import Visit
from oarpy.grid.provider import CallRefused, GridPart, PartRequest
from oarpy.model.durations import format_duration
from oarpy.model.errors import AdmissionRefused, NotAllowed, NotFound, OarpyError, UsageError
from oarpy.model.job_types import read_types
from oarpy.model.submission import Submission
from oarpy.store.grid.grants import GrantRow

REFUSALS = (AdmissionRefused, NotAllowed, NotFound, UsageError)
"""What says no to a request; any other error says that it could not be looked at."""
_NOTHING = "true"
"""The program of what is only estimated."""


def ask(visit: Visit, request: PartRequest) -> Admitted:
    """Return what would be submitted for a request. Raises as ``oarsub``, and for what no grant allows."""
    with grants.acting(visit, request.user) as (grant, session):
        admitted = admit(session, _options(request, _NOTHING), _typed(request, _NOTHING), {})
        grants.check(grant, session, admitted.submission)
    return admitted


def ask_each(visit: Visit, requests: Sequence[PartRequest]) -> dict[PartRequest, Admitted | OarpyError]:
    """Return the same for each of many requests, or why it is refused: the rules look at those of a user together."""
    found: dict[PartRequest, Admitted | OarpyError] = {}
    by_user: dict[str, list[PartRequest]] = {}
    for request in requests:
        by_user.setdefault(request.user, []).append(request)
    for user, asked in by_user.items():
        try:
            with grants.acting(visit, user) as (grant, session):
                found.update(_each(grant, session, asked))
        except REFUSALS as error:
            found.update(dict.fromkeys(asked, error))
    return found


def _each(
    grant: GrantRow, session: Session, requests: Sequence[PartRequest]
) -> Iterator[tuple[PartRequest, Admitted | OarpyError]]:
    """Take the requests of one user through the submission."""
    caller = submitter(session, {}, ())
    site = DatabaseSite(session, caller.now)
    lines = []
    for request in requests:
        arguments = _typed(request, _NOTHING)
        try:
            options = _options(request, _NOTHING)
            lines.append((request, *drafted(session, options, replace(caller, arguments=arguments), site)))
        except REFUSALS as error:
            yield request, error
    limits = rule_limits(session.configuration.submission)
    outcomes = enabled_rules(session).run_each([asked for _, asked, _ in lines], site, limits=limits)
    for (request, asked, warnings), outcome in zip(lines, outcomes, strict=True):
        try:
            if isinstance(outcome, OarpyError):
                raise outcome
            one = admitted(session, site, asked, warnings, *outcome, _not_counted)
            grants.check(grant, session, one.submission)
        except REFUSALS as error:
            yield request, error
        else:
            yield request, one


def _not_counted(_submission: Submission) -> Need:
    """Return no need: of a job that can never run, the plan says so."""
    return Need(0, 0)


def submit(visit: Visit, part: GridPart) -> int:
    """Submit the job that a part is, in the caller's transaction; return its id. Raises as :func:`ask`."""
    _check(part)
    program = part.program or ("" if part.kind == "reserved" else _NOTHING)
    texts = {"name": part.job_name, "directory": part.directory or ""}
    flags = frozenset({"hold"}) if part.kind == "queued" else frozenset()
    if part.begin is not None:
        texts["reservation"] = str(math.floor(part.begin)) if part.kind == "reserved" else "now"
    options = _options(part.request, program, texts, flags)
    with grants.acting(visit, part.request.user) as (grant, session):
        admitted = admit(session, options, _typed(part.request, program), part.environment)
        grants.check(grant, session, admitted.submission)
        if admitted.submission.array_size != 1 or read_types(admitted.submission.types).negotiates:
            raise UsageError("a part is one job, which asks for all it needs", hint="send a part for each job")
        message = summary(admitted.submission, admitted.need)
        if part.begin is not None and part.kind == "claim":
            admitted = _until_its_end(admitted, part.begin)
        elif part.begin is not None:
            start = datetime.fromtimestamp(part.begin, UTC)
            admitted = replace(admitted, submission=replace(admitted.submission, reservation=start))
        (job,) = store(session, admitted, message)
    return job


def walltime_of(request: PartRequest) -> int:
    """Return the walltime in whole seconds."""
    return max(1, math.ceil(request.walltime))


def _check(part: GridPart) -> None:
    if part.kind == "queued":
        if part.begin is not None:
            raise UsageError("a queued part with a date", hint="it begins when it can")
        return
    if part.begin is None:
        raise UsageError(f"a {part.kind} part without a date", hint="say when it begins")
    if part.begin < time.time():
        raise CallRefused(f"the date of part '{part.name}' is past", hint="give a later one")


def _until_its_end(admitted: Admitted, begin: float) -> Admitted:
    """Let a claim hold its resources until its walltime from ``begin`` (epoch seconds) on is over."""
    lead = max(0, math.ceil(begin - time.time()))
    alternatives = tuple(replace(way, walltime=(way.walltime or 0) + lead) for way in admitted.submission.alternatives)
    return replace(admitted, submission=replace(admitted.submission, alternatives=alternatives))


def _options(
    request: PartRequest,
    program: str,
    texts: Mapping[str, str] | None = None,
    flags: frozenset[str] = frozenset(),
) -> Options:
    """Return the options of ``oarsub``; what is empty was not given."""
    resources = f"{request.resources.rstrip(',') or '/core=1'},walltime={format_duration(walltime_of(request))}"
    given = {"queue": request.queue, "project": request.project, "properties": request.properties, **(texts or {})}
    lists: dict[str, tuple[str, ...]] = {"alternatives": (resources,)}
    if request.types:
        lists["types"] = request.types
    words = (program,) if program else ()
    return Options(words, {name: text for name, text in given.items() if text}, lists, flags)


def _typed(request: PartRequest, program: str) -> list[str]:
    """Return the call as a user would have typed it."""
    words = ["-l", f"{request.resources},walltime={format_duration(walltime_of(request))}"]
    for option, text in (("-q", request.queue), ("--project", request.project), ("-p", request.properties)):
        words += [option, text] if text else []
    for word in request.types:
        words += ["-t", word]
    return [*words, program]
