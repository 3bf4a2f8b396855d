"""``oarsub --processes``: what such a job may be, and the jobs that measure the rates of its program first."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace

from oarpy.admission.filters.filters import compile_filter, join_conditions
from oarpy.client.caller import current
from oarpy.configuration import Configuration, SchedulerSettings
from oarpy.model.errors import UsageError
from oarpy.model.job_types import read_types
from oarpy.model.node_types import ONE_TYPE, of_types
from oarpy.model.plugins import MAPPINGS, plugin
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission
from oarpy.model.submission_checks import short
from oarpy.processes.mapping import MAPPERS
from oarpy.store.database import Connection
from oarpy.store.jobs import rates, submissions
from oarpy.store.jobs.rates import ProgramKey

_USUAL_MODEL = "sync"
_LONGEST = 1000
"""Bytes of the path of a program, and of its arguments, by which its rates are kept."""
_MOST_TYPES = 20
"""Types of nodes on which a program is measured for one job."""
NAME = "rates"
"""The name of jobs that measure."""


def check_mapped(submission: Submission, settings: SchedulerSettings) -> None:
    """Raise :class:`UsageError` for options of mapped processes that clash, or without ``--processes``."""
    parts = {
        "--iterations": bool(submission.iterations),
        "--sizes": bool(submission.sizes),
        "--rate": bool(submission.rate),
        "--model": bool(submission.model),
    }
    if not submission.processes:
        for option, given in parts.items():
            if given:
                raise UsageError(f"{option} without --processes", hint="--processes N says how many there are")
        return
    for option in ("--iterations", "--sizes", "--rate"):
        if not parts[option]:
            raise UsageError(
                f"--processes without {option}",
                hint="oarsub --processes N --iterations N --sizes SIZE[,SIZE...] --rate SCRIPT",
            )
    types = read_types(submission.types)
    faults = {
        "-I": submission.interactive,
        "a reservation": submission.reservation is not None,
        "--bag": bool(submission.bag),
        "--array": submission.array_size > 1 or bool(submission.array_parameters),
        "several -l": len(submission.alternatives) > 1,
        "a job that runs nothing": types.runs_nothing,
        "a type of job that chooses its hosts": types.negotiates,
    }
    for word, given in faults.items():
        if given:
            raise UsageError(f"--processes with {word}", hint="such a job is one that starts when it can")
    _check_model(submission.model, settings)


def _check_model(model: str, settings: SchedulerSettings) -> None:
    if not model or model in MAPPERS:
        return
    if model not in settings.plugins:
        known = ", ".join((*MAPPERS, *settings.plugins))
        raise UsageError(
            f"--model '{short(model)}' is none of {known}", hint="scheduler.plugins names what may be used"
        )
    plugin(MAPPINGS, model)


@dataclass(frozen=True, slots=True)
class Measuring:
    """A job that measures the rates of a program on a type of nodes."""

    node_type: str
    requested: Submission


@dataclass(frozen=True, slots=True)
class Mapped:
    """A job whose processes are to be mapped, before it is stored.

    ``requested`` is the submission before the rules ran.
    """

    key: ProgramKey
    submission: Submission
    requested: Submission

    def unmeasured(self, connection: Connection, configuration: Configuration) -> tuple[list[Measuring], list[int]]:
        """Return the jobs that are to measure, and those that do already. Forgets what is too old."""
        settings = configuration.processes
        rates.forget_aged(connection, settings.rate_age)
        known = rates.known(connection, self.key, settings.rate_age)
        wanted = set(self.submission.sizes)
        live = [
            measurement
            for measurement in rates.measurements(connection, self.key)
            if measurement.live and wanted <= set(measurement.sizes)
        ]
        node_type = configuration.scheduler.node_type
        kinds = _node_types(connection, node_type, self.submission)
        missing = [kind for kind in kinds if not wanted <= known.get(kind, set())]
        measured = {measurement.node_type: measurement.job for measurement in live}
        new = [
            Measuring(kind, _measuring(self.requested, _of_type(connection, node_type, kind), settings.rate_limit))
            for kind in missing
            if kind not in measured
        ]
        return new, [measured[kind] for kind in missing if kind in measured]

    def store(self, connection: Connection, job: int, cores: int) -> None:
        """Note that the processes of a job are to be mapped over ``cores`` cores."""
        request = {
            "processes": self.submission.processes,
            "iterations": self.submission.iterations,
            "sizes": list(self.submission.sizes),
            "model": self.submission.model or _USUAL_MODEL,
        }
        own = any(way.walltime is not None for way in self.requested.alternatives)
        rates.map_job(connection, job, self.key, request, cores, own_walltime=own)


def mapping_of(submission: Submission, requested: Submission) -> Mapped:
    """Return a job with what its map needs. Raises :class:`UsageError` for a program or script that is not there.

    ``requested`` is the submission before the rules ran.
    """
    if _facts(submission.rate) is None:
        raise UsageError(
            f"--rate '{short(submission.rate)}' is no program", hint="name an executable file that is here: chmod +x"
        )
    name, _, arguments = submission.command.strip().partition(" ")
    facts = _facts(name)
    if facts is None:
        raise UsageError(
            f"--processes: there is no program '{short(name)}' here", hint="the command begins with a program of yours"
        )
    path = os.path.join(current().directory(), name) if "/" in name else name
    for what, text in (("path", path), ("arguments", arguments)):
        if len(text.encode(errors="surrogateescape")) > _LONGEST:
            raise UsageError(
                f"--processes: the {what} of the program are longer than {_LONGEST} bytes", hint="use a script"
            )
    key = ProgramKey(submission.user, os.path.normpath(path), *facts, arguments.strip())
    return Mapped(key, submission, requested)


def _facts(name: str) -> tuple[int, int] | None:
    """Return size and date of a program that the caller may run, None if there is none."""
    return current().program_facts(name) if name else None


def _node_types(connection: Connection, node_type: str, submission: Submission) -> list[str]:
    """Return the types of nodes on which a job may run."""
    if not node_type:
        return [ONE_TYPE]
    properties = submissions.properties(connection)
    texts = {join_conditions(submission.properties, text) for text in _filters(submission)}
    everywhere = "" in texts  # some group may have any resource
    conditions = [] if everywhere else [compile_filter(text, properties).sql for text in sorted(texts)]
    types = rates.node_types(connection, node_type, conditions)
    if not types:
        raise UsageError(
            f"no resource that the job may have has a {node_type}",
            hint="scheduler.node_type tells types of nodes apart",
        )
    if len(types) > _MOST_TYPES:
        raise UsageError(
            f"the job may run on {len(types)} types of nodes", hint=f"at most {_MOST_TYPES}: choose some by -p"
        )
    return types


def _filters(submission: Submission) -> set[str]:
    """Return the conditions of groups; empty for no condition."""
    return {group.filter for way in submission.alternatives for group in way.groups} or {""}


def _of_type(connection: Connection, node_type: str, kind: str) -> str:
    """Return the condition on resources that they are of this type."""
    text = not node_type or submissions.properties(connection)[node_type] == "text"
    return of_types(node_type, [kind if text else int(kind)])


def _measuring(submission: Submission, condition: str, limit: int) -> Submission:
    """Return the job of the same user that measures on one core of resources that meet a condition."""
    here = current().directory()
    script = os.path.normpath(os.path.join(here, submission.rate)) if "/" in submission.rate else submission.rate
    request = replace(parse_request("resource_id=1"), walltime=limit)
    filters = _filters(submission)
    return Submission(
        user=submission.user,
        groups=submission.groups,
        queue=submission.queue,
        project=submission.project,
        name=NAME,
        properties=join_conditions(submission.properties, *(filters if len(filters) == 1 else ()), condition),
        alternatives=(request,),
        command=shlex.join(["oarrates", "--measure", script, ",".join(submission.sizes)]),
        directory=submission.directory,
        stdout=f"OAR.{NAME}.%jobid%.stdout",
        stderr=f"OAR.{NAME}.%jobid%.stderr",
        environment=submission.environment,
        submitted_from=submission.submitted_from,
        initial_request=submission.initial_request,
    )
