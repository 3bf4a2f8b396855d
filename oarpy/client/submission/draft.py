"""From the options of a call to the submission that admission rules first see."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from oarpy import configuration as settings
from oarpy.client.caller import current
from oarpy.client.rendering import warn
from oarpy.client.submission.bags import as_bag
from oarpy.client.submission.directives.reading import read_directives
from oarpy.client.submission.directives.script import (
    Script,
    in_directory,
    own_options,
    read_input_script,
    read_script,
)
from oarpy.client.submission.directives.translation import Names
from oarpy.client.submission.kept_scripts import kept_script
from oarpy.client.submission.options import Options, as_typed, first_word, merge, read_array_parameters
from oarpy.client.submission.values import check_values, read_reservation, read_until
from oarpy.model.dependency import other_word, with_job
from oarpy.model.errors import UsageError
from oarpy.model.job_types import known_types, read_types
from oarpy.model.request import ResourceRequest
from oarpy.model.submission import OPTIONS, Submission
from oarpy.model.submission_checks import LARGEST_ARRAY, check_text, read_number, short

_UNSAFE_IN_FILE = str.maketrans(
    {chr(code): "_" for code in range(128) if not chr(code).isalnum()} | {"-": "-", ".": "."}
)

_SCRIPT_NAME = re.compile(r"[\w./+-]+\.(sh|bash|csh|ksh|zsh|py|pl|rb|R|jl)", re.ASCII)
_WALLTIME = re.compile(r"[,/]*walltime=\S*")


@dataclass(frozen=True, slots=True)
class Submitter:
    """The caller and where it calls from: the process's own environment and directory, or a test's."""

    user: str
    groups: tuple[str, ...]
    environment: Mapping[str, str]
    arguments: Sequence[str]
    now: datetime
    names: Names
    """The names of the site."""
    job_named: Callable[[str], int] = int
    """The job that ``last`` or ``@NAME`` means."""
    keeps_scripts: bool = False
    """Whether jobs run their scripts as they are now."""


def draft(
    options: Options, caller: Submitter, limits: settings.SubmissionSettings, most_tasks: int = 10_000
) -> tuple[Submission, list[str]]:
    """Return the submission asked for and the warnings for the user; a bag has at most ``most_tasks``.

    Raises :class:`UsageError` for errors that can be seen without the database.
    """
    for text in caller.arguments:
        check_text("an argument", text, 2**24)
    _check_no_walltime(options)
    warnings: list[str] = []
    script_lines: tuple[str, ...] = ()
    data: bytes | None = None
    if options.words[:1] == ("-",) or (options.scan_script and not options.words):
        script = read_input_script()
        options, script_lines, warnings = _scanned(options, script, caller)
        options = replace(options, words=(script.inline_command(options.words[1:]),))
    elif options.scan_script:
        options = in_directory(options)
        script = read_script(options.command)
        options, script_lines, warnings = _scanned(options, script, caller)
        data = script.data
    else:
        warnings = _check_script(options)
    if "interactive" in options.flags:
        warnings += _check_interactive(options)
    submission = Submission(
        **{
            "user": caller.user,
            "groups": caller.groups,
            "command": _command(options),
            "initial_request": _without_key(as_typed(caller.arguments, script_lines), options),
            "submitted_from": socket.gethostname(),
            "environment": _environment(caller.environment, warnings),
            **_outputs(options),
            **_with_ids(options, caller).values(),
            "directory": directory(options),
            **_array(options, limits),
            "script": kept_script(options, data) if caller.keeps_scripts else "",
        }
    )
    if "bag" in options.texts:
        submission = as_bag(submission, options, caller.now, most_tasks)
    else:
        submission = _with_reservation(submission, options, caller.now)
    check_values(submission)
    return submission, warnings


def _check_no_walltime(options: Options) -> None:
    """Refuse a walltime in the place of the command: the comma before it is forgotten."""
    first = options.words[0] if options.words else ""
    if _WALLTIME.fullmatch(first):
        (*_, before) = options.lists.get("alternatives", ("/nodes=1",))
        together = f"{before.strip().rstrip(',')},{first.lstrip(',/')}"
        raise UsageError(f"'{short(first)}' is no command", hint=f"a comma is missing: -l {short(together)}")


def _with_ids(options: Options, caller: Submitter) -> Options:
    """Return the options with the ids of the jobs that ``-a`` names otherwise."""
    texts = options.lists.get("dependencies", ())
    named = tuple(
        text if (word := other_word(text)) is None else with_job(text, caller.job_named(word)) for text in texts
    )
    return replace(options, lists={**options.lists, "dependencies": named}) if named else options


def _without_key(typed: str, options: Options) -> str:
    """Leave a private key out of the call as it was typed."""
    key = options.texts.get("key_text")
    return typed.replace(key, "...") if key else typed


def _check_script(options: Options) -> list[str]:
    """Refuse a command that looks like a missing script; return the warning about a script that may be on nodes alone.

    A name without a slash is looked for in the folders of PATH, as the shell on the node does. With ``-d`` the
    directory may be on the nodes alone, an absolute path may be there alone too, and ``||`` expects a failure.
    """
    name = first_word(options.command)
    if "directory" in options.texts or "||" in options.command or not _SCRIPT_NAME.fullmatch(name):
        return []
    if "/" not in name and current().has_program(name):
        return []
    if name.startswith("/"):
        return [] if _is_there(name) else [f"Warning: there is no file '{short(name)}' on this host"]
    if not _is_there(name):
        raise UsageError(
            f"there is no file '{short(name)}' here",
            hint="check its name; if the nodes alone have it, -d names their directory",
        )
    return [] if "/" in name else [f"Warning: '{short(name)}' is here, but not in PATH: the job needs ./{short(name)}"]


def _is_there(path: str) -> bool:
    """Tell whether the caller has this file; a path that cannot be looked at may be there."""
    try:
        current().read_file(path, 0)
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def _scanned(typed: Options, script: Script, caller: Submitter) -> tuple[Options, tuple[str, ...], list[str]]:
    """Return the options of the command line and the script, the script's lines with options, and warnings.

    The command line wins over ``#OAR`` lines, and these over lines of other schedulers. Options of the latter that are
    left out are reported at once, since they may explain a refusal that follows.
    """
    written, own_lines = own_options(script)
    options, warnings = merge(typed, written)
    translated, complaints, other_lines = read_directives(
        script.path,
        script.lines,
        caller.user,
        caller.names,
        job_name=options.texts.get("name", ""),
        strict=not typed.ignore_directives and "alternatives" not in options.lists,
    )
    for complaint in complaints:
        warn(f"oarsub: {complaint}")
    if "alternatives" in options.lists:  # resources come from one side alone: joined, they would be a choice
        lists = {name: values for name, values in translated.lists.items() if name != "alternatives"}
        translated = replace(translated, lists=lists)
    return merge(options, translated, quiet=True)[0], (*own_lines, *other_lines), warnings


def _check_interactive(options: Options) -> list[str]:
    """Refuse options that an interactive job cannot have; return the warnings about ignored ones."""
    for name in ("array_size", "array_parameters", "reservation", "until"):
        if name in options.texts:
            what = OPTIONS[name].words[0]
            raise UsageError(f"-I with {what}", hint="an interactive job is one job that starts when it can")
    for word, kind in known_types(map(str.strip, options.lists.get("types", ()))).items():
        if not kind.interactive:
            raise UsageError(f"-I with -t {word[:80]}", hint="a job of this type cannot be interactive")
    return ["Warning: an interactive job has no command: the one given is left out"] if options.words else []


_UNTIL_THE_END = "exec sleep infinity"
"""The command of a reservation, or an application, without one: its user connects to it, until its end."""


def _command(options: Options) -> str:
    if "interactive" in options.flags:
        return ""
    command = options.command
    types = read_types(options.lists.get("types", ()))
    if command.strip() or types.runs_nothing:
        return command
    reserves = ("reservation" in options.texts or "until" in options.texts) and "bag" not in options.texts
    if types.negotiates or (reserves and "array_parameters" not in options.texts):
        return _UNTIL_THE_END
    raise UsageError("no command", hint="oarsub [OPTIONS] COMMAND; - reads a script from standard input")


def directory(options: Options) -> str:
    """Return the working directory that is asked for: that of the caller, or one beside it."""
    if "directory" in options.texts:
        named = options.texts["directory"]
        if os.path.isabs(named) or not named:
            return named
    try:
        here = current().directory()
        return os.path.normpath(os.path.join(here, options.texts.get("directory", "")))
    except OSError as error:
        raise UsageError(f"the current directory is gone: {error.strerror}", hint="cd elsewhere or use -d") from None


def _outputs(options: Options) -> dict[str, str]:
    """Return the usual files for output; the launcher replaces ``%jobid%`` and ``%jobname%`` in them."""
    name = options.texts.get("name", "")
    stem = f"OAR.{name.translate(_UNSAFE_IN_FILE)}" if name else "OAR"
    return {"stdout": f"{stem}.%jobid%.stdout", "stderr": f"{stem}.%jobid%.stderr"}


def _array(options: Options, limits: settings.SubmissionSettings) -> dict[str, Any]:
    """Return how many jobs are asked for, how many run at once, and the arguments of each when a file has them."""
    path, size_text = options.texts.get("array_parameters"), options.texts.get("array_size")
    throttle: dict[str, Any] = {}
    if size_text is not None and "%" in size_text:
        if "throttle" in options.texts:
            raise UsageError(f"--array {short(size_text)} with --throttle", hint="say once how many run at once")
        size_text, _, at_once = size_text.partition("%")
        throttle = {"throttle": read_number("--array N%", at_once, 1, LARGEST_ARRAY)}
    lines: tuple[str, ...] = ()
    if path is not None:
        lines = read_array_parameters(path)
        for line in lines:
            check_text(f"a line of '{path}'", line, 2**24)
    size = len(lines) or 1
    if size_text is not None:
        size = read_number("--array", size_text, 1, limits.maximum_array_size)
        if path is not None and size != len(lines):
            raise UsageError(f"--array {size} but {len(lines)} lines in '{path}'", hint="leave one out")
    if size > limits.maximum_array_size:
        raise UsageError(f"array of {size} jobs", hint=f"at most {limits.maximum_array_size} (maximum_array_size)")
    return {"array_size": size, "array_parameters": lines, **throttle}


def _with_reservation(submission: Submission, options: Options, now: datetime) -> Submission:
    """Return the submission with the requested start. A given end sets the walltime of requests without one."""
    reservation = options.texts.get("reservation")
    if reservation is None and "until" in options.texts:
        reservation = "now"
    if reservation is None:
        return submission
    if submission.hold:
        raise UsageError("--hold with a reservation", hint="a reservation has its date")
    start, length = read_reservation(reservation, now)
    alternatives = submission.alternatives
    if length is not None:
        alternatives = tuple(
            request if request.walltime else replace(request, walltime=length)
            for request in alternatives or (ResourceRequest(()),)
        )
    until = read_until(options.texts["until"], now, start) if "until" in options.texts else None
    if until is not None or submission.slack:
        start = start.replace(microsecond=0)
    return submission.changed(reservation=start, alternatives=alternatives, until=until)


def _environment(given: Mapping[str, str], warnings: list[str]) -> Mapping[str, str]:
    """Keep the variables that can be stored as text: UTF-8 without NUL."""
    kept: dict[str, str] = {}
    for name, value in given.items():
        if name and all(text.isascii() or _is_text(text) for text in (name, value)) and "\0" not in name + value:
            kept[name] = value
        else:
            warnings.append(f"Warning: environment variable {name[:80]!a} is not UTF-8 and is left out")
    # the same for many submissions stays one value
    return given if len(kept) == len(given) else kept


def _is_text(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
