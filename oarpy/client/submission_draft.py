"""From the options of a call to the submission that admission rules first see."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from oarpy import configuration as settings
from oarpy.admission.submission import Submission
from oarpy.client.caller import current
from oarpy.client.submission_options import Options, as_typed, merge, read_array_parameters, read_script
from oarpy.client.submission_site import unix_groups
from oarpy.client.submission_values import check_text, check_values, read_number, read_reservation
from oarpy.model.errors import UsageError
from oarpy.model.job_types import TYPES, read_types, split_word, with_offsets
from oarpy.model.request import ResourceRequest, parse_request

_LONGEST_CHECKPOINT = 10 * 366 * 86400
_HIGHEST_SIGNAL = 64
_MOST_ALTERNATIVES = 100
_UNSAFE_IN_FILE = str.maketrans(
    {chr(code): "_" for code in range(128) if not chr(code).isalnum()} | {"-": "-", ".": "."}
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, from where: the process's own environment and directory, or what a test gives."""

    user: str
    environment: Mapping[str, str]
    arguments: Sequence[str]
    now: datetime


def draft(options: Options, caller: Caller, limits: settings.Submission) -> tuple[Submission, list[str]]:
    """Return the submission asked for and the warnings for the user.

    Raises :class:`UsageError` for whatever is wrong without looking at the cluster.
    """
    for text in caller.arguments:
        check_text("an argument", text, 2**24)
    warnings: list[str] = []
    script_lines: tuple[str, ...] = ()
    if options.scan_script:
        script, script_lines = read_script(options.command)
        options, warnings = merge(options, script)
    if options.interactive:
        warnings += _check_interactive(options)
    submission = Submission(
        user=caller.user,
        groups=unix_groups(caller.user),
        queue=options.queue,
        project=_given(options.project, "default"),
        name=_given(options.name, ""),
        types=with_offsets(dict.fromkeys(word.strip() for word in options.types)),
        properties=_given(options.properties, "").strip(),
        command=_command(options),
        directory=_directory(options),
        dependencies=tuple(dict.fromkeys(word.strip() for word in options.dependencies)),
        hold=options.hold,
        interactive=options.interactive,
        notify=_given(options.notify, "").strip(),
        initial_request=as_typed(caller.arguments, script_lines),
        submitted_from=socket.gethostname(),
        environment=_environment(caller.environment, warnings),
    )
    if options.properties is not None and not submission.properties:
        raise UsageError("-p with an empty filter", hint="leave it out for no filter")
    _add_outputs(submission, options)
    _add_array(submission, options, limits)
    _add_checkpoint(submission, options)
    _add_request(submission, options, caller.now)
    check_values(submission)
    return submission, warnings


def _check_interactive(options: Options) -> list[str]:
    """Refuse what an interactive job cannot be; return the warnings about what it leaves out."""
    for given, what in (
        (options.array is not None, "--array"),
        (options.array_param_file is not None, "--array-param-file"),
        (options.reservation is not None, "-r"),
    ):
        if given:
            raise UsageError(f"-I with {what}", hint="an interactive job is one job that starts when it can")
    for word in options.types:
        kind = TYPES.get(split_word(word.strip())[0])
        if kind is not None and not kind.interactive:
            raise UsageError(f"-I with -t {word.strip()[:80]}", hint="a job of this type cannot be interactive")
    return ["Warning: an interactive job has no command: the one given is left out"] if options.words else []


_UNTIL_THE_END = "exec sleep infinity"
"""What a reservation without a command runs: its user connects to it, until its end or oardel."""


def _command(options: Options) -> str:
    if options.interactive:
        return ""
    command = options.command
    if command.strip() or read_types(options.types).runs_nothing:
        return command
    if options.reservation is not None and options.array_param_file is None:
        return _UNTIL_THE_END
    raise UsageError("no command", hint="oarsub [OPTIONS] COMMAND")


def _directory(options: Options) -> str:
    if options.directory is not None:
        return options.directory
    try:
        return current().directory()
    except OSError as error:
        raise UsageError(f"the current directory is gone: {error.strerror}", hint="cd elsewhere or use -d") from None


def _add_outputs(submission: Submission, options: Options) -> None:
    """Fill in the files for output; the launcher replaces ``%jobid%`` and ``%jobname%`` in them."""
    stem = f"OAR.{submission.name.translate(_UNSAFE_IN_FILE)}" if submission.name else "OAR"
    submission.stdout = f"{stem}.%jobid%.stdout" if options.stdout is None else options.stdout
    submission.stderr = f"{stem}.%jobid%.stderr" if options.stderr is None else options.stderr


def _add_array(submission: Submission, options: Options, limits: settings.Submission) -> None:
    if options.array_param_file is not None:
        submission.array_parameters = read_array_parameters(options.array_param_file)
        submission.array_size = len(submission.array_parameters)
        for line in submission.array_parameters:
            check_text(f"a line of '{options.array_param_file}'", line, 2**24)
    if options.array is not None:
        asked = read_number("--array", options.array, 1, limits.maximum_array_size)
        if options.array_param_file is not None and asked != submission.array_size:
            raise UsageError(
                f"--array {asked} but {submission.array_size} lines in '{options.array_param_file}'",
                hint="leave one out",
            )
        submission.array_size = asked
    if submission.array_size > limits.maximum_array_size:
        raise UsageError(
            f"array of {submission.array_size} jobs", hint=f"at most {limits.maximum_array_size} (maximum_array_size)"
        )


def _add_checkpoint(submission: Submission, options: Options) -> None:
    if options.checkpoint is not None:
        submission.checkpoint = read_number("--checkpoint", options.checkpoint, 0, _LONGEST_CHECKPOINT)
    if options.signal is not None:
        submission.checkpoint_signal = read_number("--signal", options.signal, 1, _HIGHEST_SIGNAL)


def _add_request(submission: Submission, options: Options, now: datetime) -> None:
    if len(options.resources) > _MOST_ALTERNATIVES:
        raise UsageError(f"{len(options.resources)} alternatives", hint=f"at most {_MOST_ALTERNATIVES} times -l")
    submission.alternatives = tuple(parse_request(text) for text in options.resources)
    if options.reservation is None:
        return
    if submission.hold:
        raise UsageError("--hold with a reservation", hint="a reservation has its date")
    start, length = read_reservation(options.reservation, now)
    submission.reservation = start
    if length is not None:
        alternatives = submission.alternatives or (ResourceRequest(()),)
        submission.alternatives = tuple(
            request if request.walltime else dataclasses.replace(request, walltime=length) for request in alternatives
        )


def _environment(given: Mapping[str, str], warnings: list[str]) -> dict[str, str]:
    """Keep what can be stored as text: UTF-8 without NUL."""
    kept = {}
    for name, value in given.items():
        if name and all(text.isascii() or _is_text(text) for text in (name, value)) and "\0" not in name + value:
            kept[name] = value
        else:
            warnings.append(f"Warning: environment variable {name[:80]!a} is not UTF-8 and is left out")
    return kept


def _is_text(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _given(value: str | None, default: str) -> str:
    return default if value is None else value
