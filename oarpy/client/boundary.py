"""The one place where an error of a command becomes one line on standard error and an exit status.

0 done, 1 failed, 2 usage, 3 refused by admission, 4 no such object, 5 not allowed, 6 unreachable, 130 interrupted.
"""

from __future__ import annotations

import difflib
import errno
import functools
import io
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from oarpy import installed_version
from oarpy.frontend import standard_streams
from oarpy.model.errors import NotAllowed, OarpyError, Unreachable

_LONGEST_LINE = 500
"""Characters of an error shown: an argument of a megabyte must not fill the terminal."""

INTERRUPTED = 130

_ALIKE = 0.7
"""The least similarity, from 0 to 1, of an existing option that the error for an unknown option names."""

_WIDEST_HELP = 80

Parser = TyperCommand | TyperGroup
"""The parsers of a command's arguments."""


def run(app: typer.Typer, name: str) -> NoReturn:
    """Run the command ``name`` on the arguments of the process and end the process with its exit status."""
    standard_streams.complete()
    sys.exit(execute(app, name, sys.argv[1:]))


def _raise_if_debugging(error: Exception) -> None:
    if os.environ.get("OARPY_DEBUG") == "1":
        raise error


def execute(
    app: typer.Typer,
    name: str,
    arguments: Sequence[str],
    unexpected: Callable[[Exception], None] = _raise_if_debugging,
) -> int:
    """Run ``app`` on ``arguments`` and return the exit status, after one line on standard error if it failed.

    ``unexpected`` gets an error that is no answer of oarpy, before it becomes that line.
    """
    command = parser(app)
    try:
        # without standalone_mode typer hands back the status of typer.Exit, and errors as they are
        status = command.main(args=list(arguments), prog_name=name, standalone_mode=False, terminal_width=_help_width())
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except (BrokenPipeError, SystemExit) as stop:
        return _reader_left() if isinstance(stop, BrokenPipeError) or _broken(stop) else _status(stop)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except typer.TyperException as error:
        return _misused(error, name)
    except OarpyError as error:
        return _report(name, str(error), error.exit_status)
    except Exception as error:
        unexpected(error)
        message, status = _unexpected(error)
        return _report(name, message, status)


def _help_width() -> int:
    """Return how many columns the help takes: two less than the terminal has, 78 at most."""
    return min(shutil.get_terminal_size().columns, _WIDEST_HELP) - 2


def _misused(error: typer.TyperException, name: str) -> int:
    """Name the command whose help says more; for a command with subcommands, the subcommand."""
    if guesses := getattr(error, "possibilities", None):
        written = getattr(error, "option_name", "")
        vars(error)["possibilities"] = difflib.get_close_matches(written, guesses, cutoff=_ALIKE)
    message = error.format_message()
    # a command with subcommands that is called alone raises its help page, empty where rich has printed it already
    if not message or message.startswith("Usage: "):
        print(message, file=sys.stderr)  # noqa: T201
        return error.exit_code
    context = getattr(error, "ctx", None)
    command = name if context is None else context.command_path
    return _report(name, f"{message.rstrip('.')} (see {command} --help)", error.exit_code)


@functools.cache
def parser(app: typer.Typer) -> Parser:
    """Return the parser of the arguments of ``app``, made once for the life of the process.

    Every command has ``-h``, unless that is one of its own options, and ``-V``.
    """
    command = typer.main.get_command(app)
    assert isinstance(command, Parser)
    command.context_settings["help_option_names"] = ["-h", "--help"]
    command.params += declared(_version)
    return command


def declared(function: Callable[..., None]) -> list[Any]:
    """Return the options that the parameters of ``function`` declare, as typer makes them for a command."""
    app = typer.Typer(add_completion=False)
    app.command()(function)
    return list(typer.main.get_command(app).params)


def _tell_version(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        sys.stdout.write(f"{context.find_root().info_name} of oarpy {installed_version()}\n")
        raise typer.Exit


def _version(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "-V",
            "--version",
            is_eager=True,
            expose_value=False,
            callback=_tell_version,
            help="Print the version and stop.",
        ),
    ] = False,
) -> None:
    """Declare the option that every command has."""


def _report(name: str, message: str, status: int) -> int:
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(message.split()))
    if len(line) > _LONGEST_LINE:
        line = line[: _LONGEST_LINE - 4] + " ..."
    try:
        sys.stdout.flush()
    except OSError:  # no reader, no room: perhaps the very reason that the line gives
        _drop_output()
    print(f"{name}: {line}", file=sys.stderr)  # noqa: T201
    return status


def _unexpected(error: Exception) -> tuple[str, int]:
    if "psycopg" in sys.modules:
        import psycopg

        if isinstance(error, psycopg.Error):
            return _database_failure(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", 1
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"the output cannot be written: {error.strerror}", 1
    if isinstance(error, MemoryError | RecursionError):
        return f"the input is too large ({type(error).__name__})", 1
    return f"unexpected {type(error).__name__}: {error} (OARPY_DEBUG=1 shows where)", 1


def _database_failure(error: Exception) -> tuple[str, int]:
    import psycopg

    assert isinstance(error, psycopg.Error)
    message = error.diag.message_primary or str(error)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return f"the database cannot be reached: {message}", Unreachable.exit_status
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return f"the database does not allow it: {message}", NotAllowed.exit_status
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return f"the database has no schema of oarpy: {message} (run oarpy db upgrade)", 1
    hint = f" ({error.diag.message_hint})" if error.diag.message_hint else ""
    return f"the database refused: {message}{hint}", 1


def _broken(stop: BaseException) -> bool:
    """Say whether typer ended the process because the reader of the output went away."""
    return isinstance(stop.__context__, BrokenPipeError)


def _status(stop: BrokenPipeError | SystemExit) -> int:
    code = stop.code if isinstance(stop, SystemExit) else 1
    return code if isinstance(code, int) else int(code is not None)


def _reader_left() -> int:
    _drop_output()
    return 1


def _drop_output() -> None:
    """Discard the buffered output, or the interpreter would complain when it flushes at exit."""
    with suppress(io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
