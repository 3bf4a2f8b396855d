"""``oarsub`` as a function: check, admit by the rules, check again, store in one transaction."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from oarpy import configuration as settings
from oarpy.admission.rules.process import RuleSet
from oarpy.admission.rules.rules import AdmissionTrace, RefusedByRule, Rule
from oarpy.client.jobs.selection import one_array, one_job, parse_one
from oarpy.client.session import Session
from oarpy.client.submission import job_keys
from oarpy.client.submission.bags import check_bag
from oarpy.client.submission.directives.translation import Names
from oarpy.client.submission.draft import Submitter, draft
from oarpy.client.submission.feasibility import Need, check_consumables, check_names, consumable_names, needed_resources
from oarpy.client.submission.kept_scripts import without_foreign_script
from oarpy.client.submission.mapped import Mapped, check_mapped, mapping_of
from oarpy.client.submission.measuring import Measuring, require_program
from oarpy.client.submission.options import Options
from oarpy.client.submission.profiled import profiling_jobs
from oarpy.client.submission.project_hours import Stored, charge, charge_again
from oarpy.client.submission.projects import check_project, with_project
from oarpy.client.submission.site import DatabaseSite, rule_limits, unix_groups
from oarpy.client.submission.values import check_values
from oarpy.client.submission.waiting_jobs import WAITING_JOBS
from oarpy.model.dependency import Dependency
from oarpy.model.durations import format_duration
from oarpy.model.errors import AdmissionRefused, NotFound, OarpyError, UsageError
from oarpy.model.job_types import BESTEFFORT, NEGOTIATED, read_types
from oarpy.model.request import ResourceRequest, parse_request
from oarpy.model.states import JobState
from oarpy.model.submission import Submission
from oarpy.model.submission_checks import short
from oarpy.store import notifications
from oarpy.store.jobs import bag_profiles, job_listing, rates, submissions
from oarpy.store.jobs.scope import JobScope, reached
from oarpy.store.platform import admission_rules as rule_store

_RESUBMITTABLE = frozenset({JobState.TERMINATED, JobState.ERROR, JobState.FINISHING})
_NOT_AGAIN = frozenset({"reservation", "array_size", "array_parameters", "bag", "profile", "dependencies"})
"""Parts of a request that are not repeated in a second submission."""
NO_SERVER = "no server is running: jobs start when 'oarpy server' does"
"""The message while no scheduler runs."""


def resubmit_failed(session: Session, array: str) -> Submitted:
    """Submit the members of an array that failed again, each in its place in the array and with its parameters.

    Raises as :func:`resubmit`, and :class:`NotFound` when there is no such array or none has failed. A member that
    waits again has not failed.
    """
    number = one_array(session, parse_one(array))
    with reached(session.connection, JobScope(array_ids=(number,), live=False)):
        failed = [member.job_id for member in job_listing.failed_members(session.connection, number)]
    if not failed:
        raise NotFound(f"no member of array {number} has failed", hint=f"oarstat --array {number} shows them")
    with session.connection.transaction():
        WAITING_JOBS.check(session, len(failed))
        # members are copies of each other, so the rules see only one of them
        again, repeated = list[int](), list[submissions.EndedJobRow]()
        traces = dict[tuple[object, ...], AdmissionTrace]()
        for job_id in failed:
            old = _ended_job(session, job_id)
            alike = old.queue, old.project, *old.types
            if alike not in traces:
                traces[alike] = _admit_again(session, job_id, old)
            again.append(submissions.copy_job(session.connection, job_id))
            repeated.append(old)
        charge_again(session, repeated)
        WAITING_JOBS.recheck(session, again[-1], len(again))
    notes = tuple(dict.fromkeys(note for trace in traces.values() for note in trace.notes))
    lines = tuple(line for trace in traces.values() for line in trace.lines())
    return Submitted(tuple(again), is_array=True, notes=notes, trace=lines, array=number)


def resubmit(session: Session, job: str) -> Submitted:
    """Submit the job with this id again, for its own user; dependants of the old job wait for the new one.

    Raises :class:`NotFound`, :class:`NotAllowed` for another's job, :class:`UsageError` for a job that is not over.
    """
    job_id = one_job(session, parse_one(job))
    with session.connection.transaction():
        old = _ended_job(session, job_id)
        trace = _admit_again(session, job_id, old)
        new = submissions.copy_job(session.connection, job_id)
        charge_again(session, [old])
        WAITING_JOBS.recheck(session, new, 1)
    return Submitted((new,), is_array=False, notes=tuple(trace.notes), trace=tuple(trace.lines()))


def _ended_job(session: Session, job_id: int) -> submissions.EndedJobRow:
    """Return a job that may be submitted again; raise as :func:`resubmit`."""
    old = submissions.ended_job(session.connection, job_id)
    if old is None:
        raise NotFound(f"job {job_id} does not exist", hint="oarstat shows the jobs")
    session.require_owner(old.user, f"job {job_id}")
    if old.state not in _RESUBMITTABLE:
        raise UsageError(f"job {job_id} is {old.state}, not over", hint="oardel it, or wait for its end")
    if old.kind != "PASSIVE":
        raise UsageError(f"job {job_id} is interactive", hint="only a job with a command can run again")
    if not submissions.queues(session.connection)[old.queue].active:
        raise AdmissionRefused(f"queue '{old.queue}' is not active", hint="oarqueue shows the queues")
    return old


def _admit_again(session: Session, job_id: int, old: submissions.EndedJobRow) -> AdmissionTrace:
    """Run today's rules over the former request; raise when they refuse it or would now make another job of it."""
    record = {name: value for name, value in old.request.items() if name not in _NOT_AGAIN}
    site = DatabaseSite(session, datetime.now().astimezone())
    requested = Submission.from_record({"queue": old.queue, **record, "user": old.user})
    requested = requested.changed(groups=tuple(site.groups(old.user)), resubmit_of=job_id)
    limits = session.configuration.submission
    ruled, trace = enabled_rules(session).run(requested, site, limits=rule_limits(limits))
    ruled = filled_in(ruled, limits)
    check_project(site.payers, ruled)
    for what, now, then in (
        ("queue", ruled.queue, old.queue),
        ("project", ruled.project, old.project),
        ("types", sorted(ruled.types), sorted(old.types)),
    ):
        if now != then:
            raise AdmissionRefused(
                f"the admission rules would now change the {what} of job {job_id}", hint="submit it as a new job"
            )
    return trace


@dataclass(frozen=True, slots=True)
class Submitted:
    """The jobs made by one call, ascending; the first one names the array.

    ``array`` is an older array that they join. ``kind`` and ``request`` belong to the submission, if it is new.
    ``warnings`` come from the client, ``notes`` from the rules; ``trace`` says what each rule did.
    ``measuring`` are jobs that measure the rates of its program, or the seconds of a task, first.
    """

    job_ids: tuple[int, ...]
    is_array: bool
    reservation: datetime | None = None
    is_bag: bool = False
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()
    array: int | None = None
    kind: int | None = None
    request: ResourceRequest | None = None
    measuring: tuple[int, ...] = ()

    @property
    def array_id(self) -> int:
        """The array of the jobs: an older one, or that of the first job."""
        return self.job_ids[0] if self.array is None else self.array


@dataclass(frozen=True, slots=True)
class Admitted:
    """A submission that may be stored, with the findings of its checks.

    ``requested`` is the submission before the rules ran, ``need`` the resources that it takes. ``measuring`` are jobs
    that measure the rates of its program, or the seconds of a task, first.
    """

    submission: Submission
    requested: Submission
    need: Need
    warnings: tuple[str, ...]
    trace: AdmissionTrace
    measuring: tuple[int, ...] = ()


def submit(
    session: Session,
    options: Options,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    also: Callable[[int], None] | None = None,
) -> Submitted:
    """Submit the request of ``options``, as the user of ``session``.

    ``arguments`` is the call as typed, ``environment`` the environment of the jobs. ``also`` makes an application of
    the job, in the same transaction. Raises :class:`OarpyError` (from a rule: ``RefusedByRule``, which carries the
    trace), and then nothing is stored.
    """
    accepted = admit(session, options, arguments, environment)
    submission = accepted.submission
    if also is None:
        require_no_launcher(submission)
    elif not read_types(submission.types).negotiates:
        raise UsageError(f"-t {NEGOTIATED} is for what subscribes", hint="oarnegotiate, or oarsub without it")
    mapping = mapping_of(submission, accepted.requested) if submission.processes else None
    if submission.profile:
        require_program("--profile", submission.profile)
    pairs = job_keys.key_pairs(submission, environment)
    kind = submission.kind if session.configuration.submission.hints and also is None else None
    with session.connection.transaction():
        profiles = _profiling(session, accepted)
        if profiles:
            accepted = _after(accepted, [job for job, _ in profiles])
        if mapping is not None:
            accepted = _after(accepted, measured_first(session, mapping))
        job_ids = store(session, accepted, message(accepted), kind)
        if mapping is not None:
            mapping.store(session.connection, job_ids[0], accepted.need.resources)
        bag_profiles.insert(session.connection, job_ids[0], profiles)
        job_keys.store(session.connection, submission, job_ids, pairs)
        if also is not None:
            also(job_ids[0])
    job_keys.hand_out(session, submission, job_ids, pairs)
    return replace(as_submitted(accepted, job_ids, unscheduled(session)), kind=kind)


def measured_first(
    session: Session, mapping: Mapped, check: Callable[[Submission], None] = lambda _: None
) -> list[int]:
    """Store the jobs that measure what rates are missing; return these, and those that measure already.

    ``check`` raises for a job that may not be stored.
    """
    new, jobs = mapping.unmeasured(session.connection, session.configuration)
    for job, kind in store_measuring(session, new, check):
        rates.measure(session.connection, job, mapping.key, mapping.submission.sizes, kind)
        jobs.append(job)
    return jobs


def _profiling(session: Session, accepted: Admitted) -> list[tuple[int, str]]:
    """Store the jobs that take the profile of a bag; return each with its type of nodes, none without a profile."""
    if not accepted.submission.profile:
        return []
    settings = session.configuration.scheduler
    return store_measuring(
        session, profiling_jobs(session.connection, settings, accepted.submission, accepted.requested)
    )


def store_measuring(
    session: Session, new: Sequence[Measuring], check: Callable[[Submission], None] = lambda _: None
) -> list[tuple[int, str]]:
    """Store jobs that measure, which go through the rules as any job does; return each with its type of nodes."""
    site = DatabaseSite(session, datetime.now().astimezone())
    stored = []
    for measure in new:
        measuring = admitted(session, site, measure.requested, (), *_ruled(session, site, measure.requested))
        check(measuring.submission)
        (job,) = store(session, measuring, message(measuring))
        stored.append((job, measure.node_type))
    return stored


def _after(accepted: Admitted, jobs: Sequence[int]) -> Admitted:
    """Return a submission that waits for jobs that measure."""
    submission = accepted.submission
    return replace(
        accepted,
        submission=submission.changed(dependencies=(*submission.dependencies, *map(str, jobs))),
        measuring=tuple(jobs),
    )


def require_no_launcher(submission: Submission) -> None:
    """Raise :class:`UsageError` for a job whose launcher would have to subscribe."""
    if read_types(submission.types).negotiates:
        raise UsageError(f"-t {NEGOTIATED} is for what subscribes", hint="oarnegotiate, or oarsub without it")


def unscheduled(session: Session) -> tuple[str, ...]:
    """Return the warning that no scheduler runs; empty when one runs."""
    return () if notifications.is_scheduled(session.connection) else (NO_SERVER,)


def as_submitted(accepted: Admitted, job_ids: Sequence[int], warnings: Sequence[str]) -> Submitted:
    """Return the answer about stored jobs; ``warnings`` are warnings that do not concern the jobs."""
    submission = accepted.submission
    return Submitted(
        job_ids=tuple(job_ids),
        is_array=len(job_ids) > 1 or bool(submission.array_parameters or submission.bag),
        is_bag=bool(submission.bag),
        reservation=submission.reservation,
        warnings=(*accepted.warnings, *warnings),
        notes=tuple(accepted.trace.notes),
        trace=tuple(accepted.trace.lines()),
        request=submission.alternatives[0],
        measuring=accepted.measuring,
    )


def store(session: Session, accepted: Admitted, message: str, kind: int | None = None) -> list[int]:
    """Store an admitted submission, in the transaction that the caller has begun.

    Return the ids of the jobs, ascending. Raises :class:`AdmissionRefused` when too many jobs of the user wait.
    """
    size = accepted.submission.array_size
    WAITING_JOBS.check(session, size)
    job_ids = submissions.insert(
        session.connection, accepted.submission, asked=accepted.requested, message=message, kind=kind
    )
    WAITING_JOBS.recheck(session, job_ids[-1], size)
    charge(session, [Stored(accepted.submission, accepted.need, job_ids)])
    return job_ids


def submitter(session: Session, environment: Mapping[str, str], arguments: Sequence[str]) -> Submitter:
    """Return the user of ``session`` as the caller with these words from this environment."""
    return Submitter(
        session.user,
        unix_groups(session.user),
        environment,
        arguments,
        datetime.now().astimezone(),
        Names(
            lambda: consumable_names(session),
            lambda: submissions.properties(session.connection),
            lambda: submissions.resource_types(session.connection),
        ),
        lambda word: one_job(session, parse_one(word)),
        session.configuration.jobs.keep_scripts,
    )


def admit(session: Session, options: Options, arguments: Sequence[str], environment: Mapping[str, str]) -> Admitted:
    """Check the request of ``options``, let the rules change it, check again. Raises as :func:`submit`."""
    caller = submitter(session, environment, arguments)
    return admit_drafted(session, *drafted(session, options, caller), caller.now)


def drafted(session: Session, options: Options, caller: Submitter) -> tuple[Submission, list[str]]:
    """Return the request of ``options`` before the cluster is looked at, and warnings. Raises as :func:`submit`."""
    settings = session.configuration
    return draft(options, caller, settings.submission, settings.scheduler.bag_tasks)


def admit_drafted(session: Session, requested: Submission, warnings: Sequence[str], now: datetime) -> Admitted:
    """Let the rules change a request that was drafted, now or before, and check it. Raises as :func:`submit`."""
    site = DatabaseSite(session, now)
    requested = with_project(site.payers, requested)
    accepted = admitted(session, site, requested, warnings, *_ruled(session, site, requested))
    warned = site.hours.pay(accepted.submission, accepted.need)
    if warned is not None:
        return replace(accepted, warnings=(*accepted.warnings, *warned))
    requested, warning = as_best_effort(accepted)
    return admitted(session, site, requested, (*warnings, warning), *_ruled(session, site, requested))


def as_best_effort(unpaid: Admitted) -> tuple[Submission, str]:
    """Return the request, to be admitted again, of a submission without hours left, and the warning."""
    requested = unpaid.requested.changed(queue=BESTEFFORT, types=(*unpaid.requested.types, BESTEFFORT))
    project = short(unpaid.submission.project)
    return requested, f"Warning: project '{project}' has too few hours left: it is best effort"


def _ruled(session: Session, site: DatabaseSite, requested: Submission) -> tuple[Submission, AdmissionTrace]:
    """Return the submission after the rules. Raises as :func:`submit`."""
    try:
        return enabled_rules(session).run(requested, site, limits=rule_limits(session.configuration.submission))
    except RefusedByRule as refusal:
        raise cause(refusal, requested, site, session) from None


def cause(refusal: RefusedByRule, requested: Submission, site: DatabaseSite, session: Session) -> OarpyError:
    """Return the cause of a rule's refusal: names in ``requested`` that the cluster does not know, or the rule itself.

    Rules come before the check of names, because they may replace old ones.
    """
    try:
        _check_against_cluster(requested, site, session)
    except OarpyError as error:
        return error
    return refusal


def admitted(
    session: Session,
    site: DatabaseSite,
    requested: Submission,
    warnings: Sequence[str],
    ruled: Submission,
    trace: AdmissionTrace,
    need_of: Callable[[Submission], Need] | None = None,
) -> Admitted:
    """Check the submission that the rules made; raise its error, with the rule's name if the rule caused it.

    ``need_of`` returns the need of a submission, in place of the planner's matching.
    """
    limits = session.configuration.submission
    submission = without_foreign_script(_with_fix(filled_in(ruled, limits), session), requested)
    try:
        _check(submission, site, session)
    except OarpyError as error:
        raise _blamed(
            error, requested, trace, lambda changed: _check(filled_in(changed, limits), site, session)
        ) from None
    need = needed_resources(session, submission) if need_of is None else need_of(submission)
    return Admitted(submission, requested, need, (*warnings, *need.warnings), trace)


def message(accepted: Admitted) -> str:
    """Return the message of the jobs of a submission."""
    return summary(accepted.submission, accepted.need)


def readmitted(session: Session, record: Mapping[str, object], changes: Mapping[str, object]) -> Admitted:
    """Let the rules look at a submission again that was stored as ``record``, changed; raise as :func:`submit`."""
    limits = session.configuration.submission
    site = DatabaseSite(session, datetime.now().astimezone())
    requested = Submission.from_record(dict(record))
    requested = requested.changed(groups=tuple(site.groups(requested.user)), **changes)
    ruled, trace = _ruled(session, site, requested)
    submission = without_foreign_script(filled_in(ruled, limits), requested)
    _check(submission, site, session, project=requested.project if "project" not in changes else None)
    return Admitted(submission, requested, needed_resources(session, submission), (), trace)


def enabled_rules(session: Session) -> RuleSet:
    """Return the rules of the site."""
    return RuleSet([_rule(row) for row in rule_store.rules(session.connection) if row.enabled])


def _check(submission: Submission, site: DatabaseSite, session: Session, project: str | None = None) -> None:
    """Raise the error of a submission that cannot be stored or carried out here.

    A job that has ``project`` already keeps it, whoever its members are by now.
    """
    check_values(submission)
    check_bag(submission, session.configuration.scheduler)
    if submission.project != project:
        check_project(site.payers, submission)
    check_mapped(submission, session.configuration.scheduler)
    _check_against_cluster(submission, site, session)


def _blamed(
    error: OarpyError, requested: Submission, trace: AdmissionTrace, check: Callable[[Submission], None]
) -> OarpyError:
    """Return the fault of the request itself, else ``error`` with the name of the rule that caused it."""
    if wrong := _fault(check, requested):
        return wrong
    for rule, changed in trace.replayed(requested):
        if _fault(check, changed):
            return type(error)(f"{error.message}, set by admission rule {rule}", hint="tell the administrators")
    return error


def _fault(check: Callable[[Submission], None], submission: Submission) -> OarpyError | None:
    try:
        check(submission)
    except OarpyError as error:
        return error
    return None


def _check_against_cluster(submission: Submission, site: DatabaseSite, session: Session) -> None:
    """Raise for names that this cluster does not know."""
    check_consumables(session.connection, submission.alternatives, site.properties())
    check_names(submission.alternatives, submission.properties, site.properties())
    if submission.queue is not None:
        _check_queue(submission.queue, site)
    required = submission.required
    if missing := sorted(required.keys() - submissions.existing_jobs(session.connection, required)):
        raise NotFound(f"dependency on job {missing[0]}, which does not exist", hint="check the id given to -a")
    for dependency in required.values():
        _check_members(dependency, submission.array_size, session)
    for request in submission.alternatives:
        if request.walltime is not None and submission.checkpoint >= request.walltime:
            raise UsageError(
                f"--checkpoint {submission.checkpoint} does not fit in walltime {format_duration(request.walltime)}",
                hint="seconds before the end of the walltime",
            )


def _check_members(dependency: Dependency, size: int, session: Session) -> None:
    """Raise :class:`UsageError` unless each of ``size`` jobs has one of its number to wait for."""
    if dependency.outcome != "corr":
        return
    members = submissions.of_array(session.connection, dependency.job)
    if not members:
        raise UsageError(f"dependency '{dependency}': job {dependency.job} is no array", hint="-a corr:ARRAY")
    if missing := [index for index in range(1, size + 1) if index not in members]:
        raise UsageError(
            f"dependency '{dependency}': array {dependency.job} has no job number {missing[0]}",
            hint=f"--array {len(members)} at most",
        )


def _check_queue(name: str, site: DatabaseSite) -> None:
    queue = site.queue(name)
    if queue is None:
        names = site.queue_names()
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"queues: {', '.join(names)}"
        raise NotFound(f"unknown queue '{name[:80]}'", hint=hint)
    if not queue.active:
        raise AdmissionRefused(f"queue '{name}' is not active", hint="oarqueue shows the queues")


def filled_in(submission: Submission, limits: settings.SubmissionSettings) -> Submission:
    """Return the submission with the configured defaults for all that neither the user nor a rule has set."""
    usual = parse_request(limits.default_resources)
    alternatives = tuple(
        replace(
            request,
            groups=request.groups or usual.groups,
            walltime=request.walltime or limits.default_walltime,
            consumes=request.consumes if request.groups else usual.consumes,
        )
        for request in submission.alternatives or (ResourceRequest(()),)
    )
    return submission.changed(
        queue=limits.default_queue if submission.queue is None else submission.queue, alternatives=alternatives
    )


def _with_fix(submission: Submission, session: Session) -> Submission:
    """Return the submission, fixed when the site says if it is a reservation that may move and its user did not say."""
    if submission.fix or (submission.until is None and not submission.slack):
        return submission
    return submission.changed(fix=session.configuration.scheduler.reservation_fix)


def summary(submission: Submission, need: Need) -> str:
    """Return OAR's summary of a submission: resources, walltime, kind, and its unusual parts."""
    walltime = submission.alternatives[need.alternative].walltime or 0
    parts = [f"R={need.resources}", f"W={format_duration(walltime)}", _kind_letter(submission)]
    parts += [f"N={submission.name}"] if submission.name else []
    parts += [f"Q={submission.queue}"] if submission.queue != "default" else []
    parts += [f"P={submission.project}"] if submission.project != "default" else []
    parts += [f"T={'|'.join(submission.types)}"] if submission.types else []
    return ",".join(parts)


def _kind_letter(submission: Submission) -> str:
    return "J=I" if submission.interactive else "J=R" if submission.reservation else "J=B"


def _rule(row: rule_store.AdmissionRuleRow) -> Rule:
    return Rule(row.name, row.text, row.priority, row.enabled, row.id, row.version)
