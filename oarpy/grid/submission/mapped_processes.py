"""``oargridsub --parts any --processes``: the options of a program whose processes are mapped, and its file."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.client.session import Session
from oarpy.client.submission.mapped import USUAL_MODEL, check_model, program_of
from oarpy.client.submission.measuring import require_program, whole_path
from oarpy.grid.submission.grid_options import GridOptions
from oarpy.model.errors import UsageError
from oarpy.model.job_types import read_types
from oarpy.model.request import ResourceRequest
from oarpy.model.submission_checks import (
    MOST_ITERATIONS,
    MOST_PROCESSES,
    different,
    read_number,
    read_sizes,
    short,
)
from oarpy.store.grid.programs import NewGridProgram

_USAGE = "oargridsub --parts any --processes N --iterations N --sizes SIZE[,SIZE...] --rate SCRIPT -l core=16 PROG"
_UNIT = "/core"


@dataclass(frozen=True, slots=True)
class MappedProcesses:
    """The processes of a program, as typed; ``script`` measures its rates. ``own_walltime``: a walltime was given."""

    processes: int
    iterations: int
    sizes: tuple[str, ...]
    model: str
    script: str
    own_walltime: bool


def read_processes(options: GridOptions, request: ResourceRequest) -> MappedProcesses | None:
    """Return what is asked of processes; None without ``--processes``. Raises :class:`UsageError`."""
    others = {
        "--iterations": options.iterations,
        "--sizes": options.sizes,
        "--rate": options.rate,
        "--model": options.model,
    }
    if options.processes is None:
        if given := next((option for option, text in others.items() if text is not None), None):
            raise UsageError(f"{given} without --processes", hint="--processes N says how many there are")
        return None
    if options.iterations is None or options.sizes is None or not options.rate:
        missing = next(option for option in ("--iterations", "--sizes", "--rate") if not others[option])
        raise UsageError(f"--processes without {missing}", hint=_USAGE)
    if options.overhead is not None:
        raise UsageError("--overhead with --processes", hint="grid.transfer says what passing on results takes")
    unit = str(request.groups[0]).rpartition("=")[0]
    if unit != _UNIT:
        raise UsageError(
            f"--processes with '{short(str(request))}'",
            hint="cores are shared out: -l core=16, a filter by --properties",
        )
    if read_types(different(options.types)).runs_nothing:
        raise UsageError("--processes with a job that runs nothing", hint="such a job is one that starts when it can")
    return MappedProcesses(
        read_number("--processes", options.processes, 1, MOST_PROCESSES),
        read_number("--iterations", options.iterations, 1, MOST_ITERATIONS),
        read_sizes(options.sizes),
        (options.model or "").strip() or USUAL_MODEL,
        options.rate,
        request.walltime is not None or options.walltime is not None,
    )


def program_to_map(session: Session, asked: MappedProcesses, command: str) -> NewGridProgram:
    """Return the program with which a command begins, as it is here.

    Raises :class:`UsageError` for a program, script or model that is not there.
    """
    check_model(asked.model, session.configuration.scheduler)
    require_program("--rate", asked.script)
    key = program_of(session.user, command)
    return NewGridProgram(
        key.program,
        key.size,
        key.date,
        key.arguments,
        whole_path(asked.script),
        asked.processes,
        asked.iterations,
        asked.sizes,
        asked.model,
        asked.own_walltime,
    )
