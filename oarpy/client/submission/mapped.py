"""``oarsub --processes``: what such a job may be, and the jobs that measure the rates of its program first."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.client.submission.measuring import (
    Measurer,
    Measuring,
    facts,
    measuring_job,
    node_types,
    require_program,
    whole_path,
)
from oarpy.configuration import Configuration, SchedulerSettings
from oarpy.model.errors import UsageError
from oarpy.model.job_types import read_types
from oarpy.model.plugins import MAPPINGS, plugin
from oarpy.model.submission import Submission
from oarpy.model.submission_checks import short
from oarpy.processes.mapping import MAPPERS
from oarpy.store.database import Connection
from oarpy.store.jobs import rates
from oarpy.store.jobs.rates import ProgramKey

USUAL_MODEL = "sync"
_LONGEST = 1000
"""Bytes of the path of a program, and of its arguments, by which its rates are kept."""
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
    check_model(submission.model, settings)


def check_model(model: str, settings: SchedulerSettings) -> None:
    if not model or model in MAPPERS:
        return
    if model not in settings.plugins:
        known = ", ".join((*MAPPERS, *settings.plugins))
        raise UsageError(
            f"--model '{short(model)}' is none of {known}", hint="scheduler.plugins names what may be used"
        )
    plugin(MAPPINGS, model)


@dataclass(frozen=True, slots=True)
class Mapped:
    """A job whose processes are to be mapped, before it is stored.

    ``requested`` is the submission before the rules ran.
    """

    key: ProgramKey
    submission: Submission
    requested: Submission

    def unmeasured(self, connection: Connection, configuration: Configuration) -> tuple[list[Measuring], list[int]]:
        """Return the jobs that are to measure, and those that do already. Forgets what is too old.

        Until the transaction ends, those that do already are not ended as needless.
        """
        settings = configuration.processes
        rates.lock(connection)
        rates.forget_aged(connection, settings.rate_age)
        known = rates.known(connection, self.key, settings.rate_age)
        wanted = set(self.submission.sizes)
        live = [
            measurement
            for measurement in rates.measurements(connection, self.key)
            if measurement.live and wanted <= set(measurement.sizes)
        ]
        node_type = configuration.scheduler.node_type
        kinds = node_types(connection, node_type, self.submission)
        missing = [kind for kind in kinds if not wanted <= known.get(kind, {}).keys()]
        measured = {measurement.node_type: measurement.job for measurement in live}
        measurer = Measurer(NAME, self.requested.rate, [",".join(self.requested.sizes)], settings.rate_limit)
        new = [
            measuring_job(connection, measurer, self.requested, node_type, kind)
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
            "model": self.submission.model or USUAL_MODEL,
        }
        own = any(way.walltime is not None for way in self.requested.alternatives)
        rates.map_job(connection, job, self.key, request, cores, own_walltime=own)


def mapping_of(submission: Submission, requested: Submission) -> Mapped:
    """Return a job with what its map needs. Raises :class:`UsageError` for a program or script that is not there.

    ``requested`` is the submission before the rules ran.
    """
    require_program("--rate", submission.rate)
    return Mapped(program_of(submission.user, submission.command), submission, requested)


def program_of(user: str, command: str) -> ProgramKey:
    """Return the program with which a command begins. Raises :class:`UsageError` for a program that is not there."""
    name, _, arguments = command.strip().partition(" ")
    found = facts(name)
    if found is None:
        raise UsageError(
            f"--processes: there is no program '{short(name)}' here", hint="the command begins with a program of yours"
        )
    path = whole_path(name)
    for what, text in (("path", path), ("arguments", arguments)):
        if len(text.encode(errors="surrogateescape")) > _LONGEST:
            raise UsageError(
                f"--processes: the {what} of the program are longer than {_LONGEST} bytes", hint="use a script"
            )
    return ProgramKey(user, path, *found, arguments.strip())
