"""Whatever goes wrong in a command: one line, and the documented exit status."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest
import typer

from oarpy.client.boundary import execute
from oarpy.model.errors import AdmissionRefused, NotAllowed, NotFound, OarpyError, Unreachable, UsageError

CASES: dict[str, tuple[BaseException, int]] = {
    "failed": (OarpyError("no luck"), 1),
    "usage": (UsageError("bad date 'x'", hint="YYYY-MM-DD"), 2),
    "refused": (AdmissionRefused("needs 12 nodes,\n4 exist"), 3),
    "not_found": (NotFound("no job 12"), 4),
    "not_allowed": (NotAllowed("job 12 is not yours"), 5),
    "unreachable": (Unreachable("no server"), 6),
    "connection": (psycopg.OperationalError("server closed the connection\nunexpectedly"), 6),
    "privilege": (psycopg.errors.InsufficientPrivilege("permission denied for table jobs"), 5),
    "no_schema": (psycopg.errors.UndefinedTable('relation "jobs" does not exist'), 1),
    "file": (FileNotFoundError(2, "No such file or directory", "/nowhere"), 1),
    "bug": (ZeroDivisionError("division by zero"), 1),
    "interrupt": (KeyboardInterrupt(), 130),
    "exit": (typer.Exit(3), 3),
}


def application() -> typer.Typer:
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(case: str, number: int = 0) -> None:
        typer.echo(f"case {case}")
        if case in CASES:
            raise CASES[case][0]
        if case == "flood":
            for line in range(200_000):
                typer.echo(line)

    return app


@pytest.mark.parametrize("case", CASES)
def test_status_and_one_line(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    error, status = CASES[case]
    assert execute(application(), "oarx", [case]) == status
    lines = capsys.readouterr().err.splitlines()
    if case in ("interrupt", "exit"):
        assert lines == []
    else:
        assert len(lines) == 1
        assert lines[0].startswith("oarx: ")
        assert str(error).split("\n")[0].split()[-1].strip("'") in lines[0]


def test_a_subcommand_that_is_misused_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    app = application()
    app.add_typer(application(), name="inner")
    app.command("other")(lambda: None)
    assert execute(app, "oarx", ["inner", "--bogus"]) == 2
    assert capsys.readouterr().err == "oarx: No such option: --bogus (see oarx inner --help)\n"
    assert execute(app, "oarx", ["--bogus"]) == 2
    assert capsys.readouterr().err == "oarx: No such option: --bogus (see oarx --help)\n"


def test_done_is_zero_and_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(application(), "oarx", ["fine"]) == 0
    assert capsys.readouterr() == ("case fine\n", "")


@pytest.mark.parametrize(
    "arguments", [[], ["fine", "--nothing"], ["fine", "--number", "x"], ["fine", "more"], ["fine", "--number"]]
)
def test_usage_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(application(), "oarx", arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert captured.err.startswith("oarx: ")


def test_line_is_bounded_and_printable(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(application(), "oarx", ["fine", "--number", "9\x1b[31m" * 100_000]) == 2
    line = capsys.readouterr().err
    assert len(line) < 600
    assert "\x1b" not in line


def test_reader_that_leaves_is_no_error() -> None:
    program = "from test_boundary import *; from oarpy.client.boundary import run; run(application(), 'oarx')"
    script = f"import sys; sys.path.insert(0, {__file__.rpartition('/')[0]!r}); {program}"
    pipe = subprocess.Popen(
        [sys.executable, "-c", script, "flood"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert pipe.stdout is not None
    assert pipe.stderr is not None
    assert pipe.stdout.readline() == "case flood\n"
    pipe.stdout.close()
    assert pipe.stderr.read() == ""
    assert pipe.wait(timeout=30) == 1
    pipe.stderr.close()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_below_the_output_is_told(monkeypatch: pytest.MonkeyPatch, unbuffered: str) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    program = "import sys; from oarpy.commands.oarpy import main; sys.argv = ['oarpy', 'plan', '--help']; main()"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == "oarpy: the output cannot be written: No space left on device\n"
    assert done.returncode == 1


def test_traceback_only_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OARPY_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        execute(application(), "oarx", ["bug"])
