"""Tab completion, as bash itself does it with the script."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from oarpy.commands.completion import bash_script
from oarpy.commands.oarpy import app

from oarpy.client.boundary import execute


def completed(tmp_path: Path, *words: str) -> list[str]:
    """What bash offers for the last of ``words``; ``oarstat`` says that the jobs are 12, 13 and 27."""
    oarstat = tmp_path / "oarstat"
    oarstat.write_text('#!/bin/sh\n[ "$*" = "-u --format ids" ] && printf "12\\n13\\n27\\n"\n')
    oarstat.chmod(0o755)
    script = tmp_path / "completion"
    script.write_text(bash_script())
    program = (
        '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _oarpy_complete "$1";'
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", program, "bash", str(script), *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["oarsub", "--array-p"], ["--array-param-file"]),
        (["/usr/bin/oardel", "1"], ["12", "13"]),
        (["oardel", "-s", "9", ""], ["12", "13", "27"]),
        (["oarstat", "-j", "2"], ["27"]),
        (["oarstat", "--why", "1"], ["12", "13"]),
        (["oarpy", "comp"], ["completion"]),
        (["oarpy", "db", "up"], ["upgrade"]),
        (["oarpy", "db", "upgrade", "--j"], ["--json"]),
        (["oarsub", "12"], []),
    ],
)
def test_what_is_offered(tmp_path: Path, words: list[str], offered: list[str]) -> None:
    assert completed(tmp_path, *words) == offered


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(app, "oarpy", ["completion", "bash"]) == 0
    assert capsys.readouterr().out == bash_script()


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(app, "oarpy", ["completion", "tcsh"]) == 2
    assert "no completion for the shell 'tcsh' (bash)" in capsys.readouterr().err
