"""The requested grid job: on any one cluster, components that start together, or parts on named clusters."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, fields, replace
from datetime import datetime
from math import prod
from typing import cast, get_args

from oarpy.configuration import SubmissionSettings
from oarpy.grid.submission.grid_options import (
    GridOptions,
    read_at_most,
    read_deadline,
    read_overhead,
    read_share,
    read_start,
    read_until,
    read_wait,
)
from oarpy.grid.submission.mapped_processes import MappedProcesses, read_processes
from oarpy.grid.submission.named_parts import MOST_PARTS, NamedPart, read_parts
from oarpy.model.durations import parse_duration
from oarpy.model.errors import UsageError
from oarpy.model.notice import parse_notice
from oarpy.model.request import ResourceRequest, parse_request
from oarpy.model.submission_checks import (
    LONGEST_PATH,
    check_command,
    check_name,
    check_project,
    check_text,
    check_types,
    condition,
    different,
    read_number,
    short,
)
from oarpy.processes.models import SHORTEST
from oarpy.store.grid.bags import BagPolicy, NewGridBag
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from oarpy.store.grid.metajobs import NewMetajob, Operation

_UNTIL_THE_END = "exec sleep infinity"
"""The command of parts on named clusters without a program: their user connects to them, until their end."""
_MOST_TRIES = 1000
_MOST_PROCESSORS = 10_000_000
_QUEUE = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)
_NOT_IN_BAGS = (
    "array",
    "parts",
    "components",
    "deadline",
    "lp",
    "tries",
    "wait",
    "start",
    "program",
    "overhead",
    "operation",
    "at_most",
    "processes",
    "iterations",
    "sizes",
    "model",
    "rate",
)
_MAPPED = ("processes", "iterations", "sizes", "model", "rate")
_SPELLED = {
    "start": "-s",
    "program": "-p",
    "types": "-t",
    "components": "--components",
    "deadline": "--deadline",
    "lp": "--lp",
    "tries": "--tries",
    "wait": "--wait",
    "array": "--array",
    "parts": "--parts",
    "overhead": "--overhead",
    "operation": "--operation",
    "at_most": "--at-most",
    "processes": "--processes",
    "iterations": "--iterations",
    "sizes": "--sizes",
    "model": "--model",
    "rate": "--rate",
    "until": "--until",
    "bag": "--bag",
    "policy": "--policy",
    "strict": "--strict",
    "profile": "--profile",
    "properties": "--properties",
}


@dataclass(frozen=True, slots=True)
class GridDraft:
    """A grid job and its number of copies, more than one for an array.

    ``metajob`` and ``bag`` are the further requests of jobs of these kinds, ``processes`` that of a metajob whose
    processes are mapped.
    """

    job: NewGridJob
    copies: int = 1
    metajob: NewMetajob | None = None
    bag: NewGridBag | None = None
    processes: MappedProcesses | None = None


@dataclass(frozen=True, slots=True)
class BagLimits:
    """What a bag may be: its policy if it does not say, and most ``tasks``."""

    policy: BagPolicy = "plb"
    tasks: int = 10_000


def draft(
    options: GridOptions,
    user: str,
    settings: SubmissionSettings,
    now: datetime,
    operation: Operation = "shift",
    limits: BagLimits | None = None,
) -> GridDraft:
    """Return the request of ``options``; ``operation`` is the default for metajobs, ``limits`` are those of bags.

    Raises :class:`UsageError` for every error that can be found without asking a cluster.
    """
    for field in fields(options):
        value = getattr(options, field.name)
        for text in value if isinstance(value, tuple) else filter(None, [value]):
            if isinstance(text, str):
                check_text("an argument", text, 2**17 - 1)
    if options.bag is not None:
        return _bag(options, user, settings, now, limits or BagLimits())
    _refuse(options, ("policy", "strict", "profile"), "without --bag N")
    if options.parts is not None:
        return _spread(options, user, settings, now, operation)
    _refuse(options, _MAPPED, "without --parts any")
    _refuse(options, ("overhead", "operation", "at_most", "until"), "without --parts any or --bag N")
    if options.resources:
        return _anywhere(options, user, settings, now)
    _refuse(options, ("components", "deadline", "lp", "tries", "wait", "array", "properties"), "without -l")
    if not options.words:
        raise UsageError(
            "nothing to submit", hint='oargridsub -l /core=8 PROG, or parts on clusters: a:rdef="/nodes=2"'
        )
    return GridDraft(_named(options, user, settings, now))


def processors(request: ResourceRequest) -> int:
    """Return how many processors a request means: the product of its counts, summed over its groups."""
    counts = [[level.count for level in group.levels] for group in request.groups]
    if not counts or any(count < 0 for levels in counts for count in levels):
        raise UsageError(f"'{short(str(request))}' names no number of resources", hint="for example /nodes=2/core=4")
    total = sum(map(prod, counts))
    if total > _MOST_PROCESSORS:
        raise UsageError(f"a request of {total} processors", hint=f"at most {_MOST_PROCESSORS}")
    return total


def _anywhere(options: GridOptions, user: str, settings: SubmissionSettings, now: datetime) -> GridDraft:
    """Return a job on clusters that the broker chooses."""
    _refuse(options, ("start", "program"), "with -l")
    if len(options.resources) > 1:
        raise UsageError(f"{len(options.resources)} times -l", hint="a grid job has one request")
    if not options.words:
        raise UsageError("no program", hint="oargridsub -l /core=8 PROG")
    if (options.components is None) != (options.deadline is None):
        given = "--components" if options.deadline is None else "--deadline"
        raise UsageError(f"{given} alone", hint="components start together at --deadline DATE")
    if options.deadline is None:
        _refuse(options, ("lp", "tries", "wait"), "without --deadline")
    request = parse_request(options.resources[0])
    if request.walltime is not None and options.walltime is not None:
        raise UsageError("a walltime in -l and in -w", hint="give one of them")
    filter_ = "" if options.properties is None else condition(options.properties)
    component = NewGridComponent(str(request), processors(request), None, filter_, _types(options))
    count = 1 if options.components is None else read_number("--components", options.components, 1, MOST_PARTS)
    together = options.deadline is not None
    job = NewGridJob(
        user=user,
        kind="coallocated" if together else "mapped",
        program=_program(options.words[0] if len(options.words) == 1 else shlex.join(options.words)),
        walltime=request.walltime or _walltime(options, settings),
        components=(component,) * count,
        deadline=None if options.deadline is None else read_deadline(options.deadline, now),
        lp=None if options.lp is None else read_share(options.lp),
        tries=None if options.tries is None else read_number("--tries", options.tries, 0, _MOST_TRIES),
        wait=None if options.wait is None else read_wait(options.wait),
    )
    copies = 1 if options.array is None else read_number("--array", options.array, 1, settings.maximum_array_size)
    return GridDraft(_with_common(job, options), copies)


def _spread(
    options: GridOptions, user: str, settings: SubmissionSettings, now: datetime, operation: Operation
) -> GridDraft:
    """Return a job whose parts go to clusters that the broker chooses."""
    if options.parts != "any":
        raise UsageError(f"--parts '{short(options.parts or '')}' is not known", hint="--parts any")
    _refuse(options, ("start", "program", "array", "components", "deadline", "lp", "tries", "wait"), "with --parts any")
    if len(options.resources) != 1:
        raise UsageError("--parts any takes one -l", hint="oargridsub --parts any -l core=6 PROG")
    if not options.words:
        raise UsageError("no program", hint="oargridsub --parts any -l core=6 PROG")
    request = parse_request(options.resources[0])
    if request.walltime is not None and options.walltime is not None:
        raise UsageError("a walltime in -l and in -w", hint="give one of them")
    if len(request.groups) != 1 or len(request.groups[0].levels) != 1 or request.consumes:
        hint = "a number of one resource, such as core=6: clusters get parts of it"
        raise UsageError(f"'{short(str(request))}' cannot be shared out", hint=hint)
    procs, walltime = processors(request), request.walltime or _walltime(options, settings)
    mapped = read_processes(options, request)
    if options.operation is not None and options.operation not in get_args(Operation):
        raise UsageError(f"--operation '{short(options.operation)}' is not known", hint="rigid, shift or remap")
    filter_ = "" if options.properties is None else condition(options.properties)
    metajob = NewMetajob(
        _unit(request),
        procs,
        operation if options.operation is None else cast(Operation, options.operation),
        0 if options.overhead is None else read_overhead(options.overhead),
        read_at_most(options.at_most),
        None if options.until is None else read_until(options.until, now, SHORTEST if mapped else walltime),
    )
    job = NewGridJob(
        user=user,
        kind="metajob",
        program=_program(options.words[0] if len(options.words) == 1 else shlex.join(options.words)),
        walltime=walltime,
        components=(NewGridComponent(f"{metajob.unit}={procs}", procs, None, filter_, _types(options)),),
    )
    return GridDraft(_with_common(job, options), metajob=metajob, processes=mapped)


def _bag(options: GridOptions, user: str, settings: SubmissionSettings, now: datetime, limits: BagLimits) -> GridDraft:
    """Return a bag of tasks over clusters."""
    _refuse(options, _NOT_IN_BAGS, "with --bag")
    if len(options.resources) != 1:
        raise UsageError("--bag takes one -l", hint="oargridsub --bag 100 -l core=1,walltime=0:10:0 PROG")
    if not options.words:
        raise UsageError("no program", hint="oargridsub --bag 100 -l core=1,walltime=0:10:0 PROG")
    request = parse_request(options.resources[0])
    if request.walltime is not None and options.walltime is not None:
        raise UsageError("a walltime in -l and in -w", hint="give one of them")
    if options.policy is not None and options.policy not in get_args(BagPolicy):
        raise UsageError(f"--policy '{short(options.policy)}' is not known", hint=", ".join(get_args(BagPolicy)))
    if options.strict and options.until is None:
        raise UsageError("--strict without --until", hint="--until DATE says by when the bag has to be done")
    types = _types(options)
    if unfit := next((word for word in types if word != "idempotent"), None):
        raise UsageError(f"-t {short(unfit)} with --bag", hint="tasks of a bag may be idempotent, and nothing else")
    walltime = request.walltime or _walltime(options, settings)
    filter_ = "" if options.properties is None else condition(options.properties)
    bag = NewGridBag(
        read_number("--bag", options.bag or "", 1, limits.tasks),
        limits.policy if options.policy is None else cast(BagPolicy, options.policy),
        None if options.until is None else read_until(options.until, now, walltime),
        options.strict,
        options.profile or "",
    )
    component = NewGridComponent(str(replace(request, walltime=None)), processors(request), None, filter_, types)
    job = NewGridJob(
        user=user,
        kind="bag",
        program=_program(options.words[0] if len(options.words) == 1 else shlex.join(options.words)),
        walltime=walltime,
        components=(component,),
    )
    return GridDraft(_with_common(job, options), bag=bag)


def _named(options: GridOptions, user: str, settings: SubmissionSettings, now: datetime) -> NewGridJob:
    """Return a job with parts on named clusters, which begin at a date; as soon as possible without a date."""
    parts = read_parts(" ".join(options.words))
    job = NewGridJob(
        user=user,
        kind="named",
        program=_program(_UNTIL_THE_END if options.program is None else options.program),
        walltime=_walltime(options, settings),
        components=tuple(_component(part, _types(options)) for part in parts),
        deadline=read_start(options.start, now),
    )
    return _with_common(job, options)


def _component(part: NamedPart, types: tuple[str, ...]) -> NewGridComponent:
    request = parse_request(part.rdef)
    if request.walltime is not None:
        raise UsageError(f"a walltime in the part on '{short(part.cluster)}'", hint="all parts have that of -w")
    if part.name:
        check_name(part.name)
    own = different((*types, *filter(None, [part.type])))
    check_types(own)
    return NewGridComponent(str(request), processors(request), part.cluster, part.prop, own, part.name)


def _unit(request: ResourceRequest) -> str:
    """Return the resource of a request for a number of one resource, without the number."""
    return str(request.groups[0]).rpartition("=")[0]


def _with_common(job: NewGridJob, options: GridOptions) -> NewGridJob:
    """Return a job with the common options of jobs of every kind."""
    if options.name is not None:
        check_name(options.name)
    if options.project is not None:
        check_project(options.project)
    if options.queue is not None and not _QUEUE.fullmatch(options.queue):
        raise UsageError(f"-q '{short(options.queue)}' is no name of a queue", hint="letters, digits, '_', '-' and '.'")
    if options.directory is not None:
        check_text("-d", options.directory, LONGEST_PATH)
        if not options.directory.startswith("/") or not options.directory.isprintable():
            raise UsageError(f"-d '{short(options.directory)}' is no absolute path", hint="begin it with /")
    notify = (options.notify or "").strip()
    if notify:
        parse_notice(notify)
    return replace(
        job,
        directory=options.directory,
        job_name=options.name or "",
        queue=options.queue or "",
        project=options.project or "",
        notify=notify,
    )


def _types(options: GridOptions) -> tuple[str, ...]:
    types = different(options.types)
    check_types(types)
    return types


def _walltime(options: GridOptions, settings: SubmissionSettings) -> int:
    return settings.default_walltime if options.walltime is None else parse_duration(options.walltime)


def _program(text: str) -> str:
    check_command(text)
    if not text.strip():
        raise UsageError("an empty program", hint="oargridsub -l /core=8 PROG, or -p PROG with parts on clusters")
    return text


def _refuse(options: GridOptions, names: tuple[str, ...], where: str) -> None:
    """Raise :class:`UsageError` for an option of another form."""
    for name in names:
        if getattr(options, name) not in (None, (), False):
            hint = "-l REQUEST PROG is for any cluster, or several with --parts any; a:rdef=REQUEST with -s, -w, -p"
            raise UsageError(f"{_SPELLED[name]} {where}", hint=hint)
