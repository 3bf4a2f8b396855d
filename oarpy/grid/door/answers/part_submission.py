"""The requests of a broker, taken through the same submission as ``oarsub``: options, rules of the site, checks.

::

    queued    a job that is held
    reserved  an advance reservation from the date on
    claim     an advance reservation from now on; it has the time until its date besides its walltime
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby

import psycopg

from oarpy.admission.rules.rules import RefusedByRule
from oarpy.client.session import Session
from oarpy.client.submission.batch.batch_site import BatchSite
from oarpy.client.submission.draft import draft
from oarpy.client.submission.feasibility import KnownNeeds, Need
from oarpy.client.submission.options import Options
from oarpy.client.submission.project_hours import Stored, charge
from oarpy.client.submission.projects import Payers, with_project
from oarpy.client.submission.site import DatabaseSite, rule_limits
from oarpy.client.submission.submission import (
    Admitted,
    admit,
    admitted,
    cause,
    enabled_rules,
    store,
    submitter,
    summary,
)
from oarpy.client.submission.waiting_jobs import WAITING_JOBS
from oarpy.grid.calls.parts import BagPart, GridPart, PartRequest
from oarpy.grid.calls.table import CallRefused, Measure, TakeProfile
from oarpy.grid.door import grants
from oarpy.grid.door.call_context import CallContext
from oarpy.model.durations import format_duration
from oarpy.model.errors import AdmissionRefused, NotAllowed, NotFound, OarpyError, UsageError
from oarpy.model.job_types import read_types
from oarpy.model.submission import Submission
from oarpy.store.grid.grants import GrantRow
from oarpy.store.jobs import submissions
from oarpy.store.jobs.submissions import NewSubmission
from oarpy.store.refusals import first_line, is_refusal

REFUSALS = (AdmissionRefused, NotAllowed, NotFound, UsageError)
"""The errors that refuse a request; any other error means that the request could not be looked at."""
_NOTHING = "true"
"""The program of requests that are only estimated."""


def ask(context: CallContext, request: PartRequest) -> Admitted:
    """Return the admitted submission for a request. Raises as ``oarsub``, and for a request beyond the grant."""
    with grants.acting(context, request.user) as (grant, session):
        admitted = admit(session, _options(request, _NOTHING), _typed(request, _NOTHING), {})
        grants.check(grant, KnownNeeds(session), admitted.submission)
    return admitted


def ask_each(context: CallContext, requests: Sequence[PartRequest]) -> dict[PartRequest, Admitted | OarpyError]:
    """Return the same for each of many requests, or why it is refused. The rules look at a user's requests together."""
    outcomes: dict[PartRequest, Admitted | OarpyError] = {}
    by_user: dict[str, list[PartRequest]] = {}
    for request in requests:
        by_user.setdefault(request.user, []).append(request)
    for user, of_user in by_user.items():
        try:
            with grants.acting(context, user) as (grant, session):
                outcomes.update(_each(grant, session, of_user))
        except REFUSALS as error:
            outcomes.update(dict.fromkeys(of_user, error))
    return outcomes


def _each(
    grant: GrantRow, session: Session, requests: Sequence[PartRequest]
) -> Iterator[tuple[PartRequest, Admitted | OarpyError]]:
    """Run the requests of one user through the checks of a submission."""
    site = DatabaseSite(session, datetime.now().astimezone())
    typed = [_Asked(request, partial(_options, request, _NOTHING), _typed(request, _NOTHING)) for request in requests]
    return zip(requests, _admitted_each(grant, session, typed, site, counted=False), strict=True)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A part to submit. Parts of one ``kind`` differ in nothing but their environments."""

    kind: Hashable
    options: Callable[[], Options]
    typed: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def _admitted_each(
    grant: GrantRow,
    session: Session,
    typed: Sequence[_Asked],
    site: DatabaseSite,
    *,
    counted: bool,
) -> list[Admitted | OarpyError]:
    """Pass one user's requests through the submission: the rules look at all of them together.

    On a :class:`BatchSite` an admitted request counts for the requests behind it. Without ``counted``, the needs of
    requests are not counted, and a request that can never run is admitted too.
    """
    needs = KnownNeeds(session)
    results: list[Admitted | OarpyError] = []
    drafts = _drafts(session, typed, site.payers)
    lines = [drafted for drafted in drafts if not isinstance(drafted, OarpyError)]
    limits = rule_limits(session.configuration.submission)
    outcomes = enabled_rules(session).run_each([line for line, _ in lines], site, limits=limits)
    for wanted in drafts:
        try:
            if isinstance(wanted, OarpyError):
                raise wanted
            if isinstance(outcome := next(outcomes), RefusedByRule):
                raise cause(outcome, wanted[0], site, session)
            passed = admitted(session, site, *wanted, *outcome, needs.of if counted else _not_counted)
            grants.check(grant, needs, passed.submission)
        except REFUSALS as error:
            results.append(error)
        else:
            results.append(passed)
            if isinstance(site, BatchSite):
                site.add(passed.submission)
    return results


def _drafts(
    session: Session, typed: Sequence[_Asked], payers: Payers
) -> list[tuple[Submission, list[str]] | OarpyError]:
    """Return the submission of each request before the rules, and warnings; it is worked out once for each kind."""
    caller, limits = submitter(session, {}, ()), session.configuration.submission
    known: dict[Hashable, tuple[Submission, list[str]] | OarpyError] = {}
    drafts: list[tuple[Submission, list[str]] | OarpyError] = []
    for request in typed:
        if request.kind not in known:
            try:
                drafted, warnings = draft(request.options(), replace(caller, arguments=request.typed), limits)
                known[request.kind] = with_project(payers, drafted), warnings
            except REFUSALS as error:
                known[request.kind] = error
        wanted = known[request.kind]
        if not isinstance(wanted, OarpyError):
            wanted = wanted[0].changed(environment=request.environment), wanted[1]
        drafts.append(wanted)
    return drafts


def _not_counted(_submission: Submission) -> Need:
    """Return no need: the plan finds jobs that can never run."""
    return Need(0, 0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What is to be measured, as submitted by the local user of ``session``; ``check`` holds its jobs to the grant."""

    session: Session
    admitted: Admitted
    check: Callable[[Submission], None]


@contextmanager
def measuring(context: CallContext, call: Measure | TakeProfile) -> Iterator[Measured]:
    """Act as the local user whose jobs are to measure, while the block runs. Raises as ``oarsub``."""
    if not context.configuration.gateway.calls:
        raise CallRefused("jobs here cannot tell what they measure (gateway.calls)", hint="ask another cluster")
    texts = {"directory": call.directory or ""}
    with grants.acting(context, call.request.user) as (grant, session):
        admitted = admit(session, _options(call.request, _NOTHING, texts), _typed(call.request, _NOTHING), {})
        check = partial(grants.check, grant, KnownNeeds(session))
        check(admitted.submission)
        yield Measured(session, admitted, check)


def submit(context: CallContext, part: GridPart) -> int:
    """Submit the job of a part in the caller's transaction; return its id. Raises as :func:`ask`."""
    _check(part)
    _check_lead(part, context.configuration.door.longest_lead)
    program = _program(part)
    with grants.acting(context, part.request.user) as (grant, own):
        session = own if part.begin is None else _unlimited(own)
        admitted = admit(session, _options_of(part), _typed(part.request, program), part.environment)
        grants.check(grant, KnownNeeds(session), admitted.submission)
        _check_is_one(admitted)
        message = summary(admitted.submission, admitted.need)
        if part.begin is not None and part.kind == "claim":
            admitted = _until_its_end(admitted, part.begin)
        elif part.begin is not None:
            start = datetime.fromtimestamp(part.begin, UTC)
            admitted = replace(admitted, submission=admitted.submission.changed(reservation=start))
        (job,) = store(session, admitted, message)
    return job


def submit_bag(context: CallContext, part: GridPart, bag: BagPart) -> int:
    """Submit the tasks that a part is, in the caller's transaction; return the first job. Raises as :func:`ask`."""
    texts = {
        "name": part.job_name,
        "directory": part.directory or "",
        "bag": str(len(bag.tasks)),
        "until": str(math.floor(bag.end_by)),
    }
    options = _options(part.request, _program(part), texts, frozenset({"strict"} if bag.strict else ()))
    with grants.acting(context, part.request.user) as (grant, own):
        session = _unlimited(own)
        admitted = admit(session, options, _typed(part.request, _program(part)), part.environment)
        grants.check(grant, KnownNeeds(session), admitted.submission)
        return store(session, admitted, summary(admitted.submission, admitted.need))[0]


def submit_all(context: CallContext, parts: Sequence[GridPart]) -> list[int | OarpyError]:
    """Submit the jobs of queued parts in their order; return the id of each, or the reason of its refusal."""
    results: list[int | OarpyError] = []
    for user, mine in groupby(parts, lambda part: part.request.user):
        of_user = list(mine)
        try:
            with grants.acting(context, user) as (grant, session):
                results += _submitted(grant, session, of_user)
        except REFUSALS as error:
            results += [error] * len(of_user)
    return results


def _submitted(grant: GrantRow, session: Session, parts: Sequence[GridPart]) -> list[int | OarpyError]:
    """Submit queued parts of one user."""
    site = BatchSite(session, datetime.now().astimezone())
    typed = [
        _Asked(
            (part.request, part.program, part.directory, part.job_name),
            partial(_options_of, part),
            _typed(part.request, _program(part)),
            part.environment,
        )
        for part in parts
    ]
    outcomes = _admitted_each(grant, session, typed, site, counted=True)
    for place, (part, result) in enumerate(zip(parts, outcomes, strict=True)):
        try:
            _check(part)
            if isinstance(result, Admitted):
                _check_is_one(result)
        except REFUSALS as error:
            outcomes[place] = error
    stored = iter(_stored(session, [outcome for outcome in outcomes if isinstance(outcome, Admitted)]))
    return [next(stored) if isinstance(outcome, Admitted) else outcome for outcome in outcomes]


def _stored(session: Session, admissions: Sequence[Admitted]) -> list[int | OarpyError]:
    """Store jobs together; if that is refused, each half of them alone."""
    if not admissions:
        return []
    try:
        with session.connection.transaction():
            WAITING_JOBS.check(session, len(admissions), "a batch")
            jobs = submissions.insert_all(session.connection, [_new(admission) for admission in admissions])
            WAITING_JOBS.recheck(session, jobs[-1][-1], len(admissions))
            stored = [
                Stored(admission.submission, admission.need, ids)
                for admission, ids in zip(admissions, jobs, strict=True)
            ]
            charge(session, stored)
    except AdmissionRefused as error:
        refusal: OarpyError = error
    except psycopg.Error as error:
        if not is_refusal(error):
            raise
        refusal = OarpyError(f"the database refused: {first_line(error)}")
    else:
        return [job for (job,) in jobs]
    half = len(admissions) // 2
    return [*_stored(session, admissions[:half]), *_stored(session, admissions[half:])] if half else [refusal]


def _new(admission: Admitted) -> NewSubmission:
    return NewSubmission(admission.submission, summary(admission.submission, admission.need), admission.requested)


def _check_is_one(admitted: Admitted) -> None:
    if admitted.submission.array_size != 1 or read_types(admitted.submission.types).negotiates:
        raise UsageError("a part is one job, which asks for all it needs", hint="send a part for each job")


def _program(part: GridPart) -> str:
    return part.program or ("" if part.kind == "reserved" else _NOTHING)


def _options_of(part: GridPart) -> Options:
    """Return the options of ``oarsub`` for a part."""
    texts = {"name": part.job_name, "directory": part.directory or ""}
    flags = frozenset({"hold"}) if part.kind == "queued" else frozenset[str]()
    if part.begin is not None:
        texts["reservation"] = str(math.floor(part.begin)) if part.kind == "reserved" else "now"
    return _options(part.request, _program(part), texts, flags)


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


def _check_lead(part: GridPart, longest: float) -> None:
    """Raise :class:`CallRefused` for a claim that would hold its resources too long before it begins."""
    if part.kind == "claim" and part.begin is not None and part.begin > time.time() + longest:
        raise CallRefused(
            f"claim '{part.name}' begins more than {longest:.0f} s from now", hint="claim later; door.longest_lead"
        )


def _unlimited(session: Session) -> Session:
    """Return a session in which the limit on waiting reservations is none: a broker keeps to its own order."""
    limits = session.configuration.submission
    users = (*limits.unlimited_reservation_users, session.user)
    limits = replace(limits, unlimited_reservation_users=users)
    return replace(session, configuration=replace(session.configuration, submission=limits))


def _until_its_end(admitted: Admitted, begin: float) -> Admitted:
    """Extend the hold of a claim to its walltime after ``begin`` (epoch seconds)."""
    lead = max(0, math.ceil(begin - time.time()))
    alternatives = tuple(replace(way, walltime=(way.walltime or 0) + lead) for way in admitted.submission.alternatives)
    return replace(admitted, submission=admitted.submission.changed(alternatives=alternatives))


def _options(
    request: PartRequest,
    program: str,
    texts: Mapping[str, str] | None = None,
    flags: frozenset[str] = frozenset(),
) -> Options:
    """Return the options of ``oarsub``; an empty field counts as not given."""
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
