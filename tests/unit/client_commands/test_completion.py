"""Tab completion, as bash itself does it with the script."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from oarpy.commands.completion import bash_script, fish_script, zsh_script
from oarpy.commands.oarpy import app

from oarpy.client.boundary import execute
from tests.harness.terminal_session import TerminalSession

ANSWERS = """#!/bin/sh
case "$*" in
    "--complete jobs") printf "12\\n13\\n27\\n" ;;
    "--complete queues") echo besteffort; echo default ;;
    "--complete users") echo ann ;;
    "--complete nodes") echo n1 ;;
    "--complete levels") printf "core=\\ncpu=\\nnodes=\\nwalltime=\\n" ;;
    "--complete properties") printf "core\\ncpu\\n" ;;
esac
"""
"""What stands for ``oarstat``."""


def stand_in(folder: Path) -> dict[str, str]:
    """Return an environment in which ``oarstat`` knows three jobs, two queues, a user and a node."""
    oarstat = folder / "oarstat"
    oarstat.write_text(ANSWERS)
    oarstat.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def completed(tmp_path: Path, *words: str) -> list[str]:
    """What bash offers for the last of ``words``; ``oarstat`` says that the jobs are 12, 13 and 27."""
    environment = stand_in(tmp_path)
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
        env=environment,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["oarsub", "--array-p"], ["--array-param-file"]),
        (["/usr/bin/oardel", "1"], ["12", "13"]),
        (["oardel", "12", "2"], ["27"]),
        (["oardel", "la"], ["last"]),
        (["oarstat", "state", ":", "Run"], ["Running"]),
        (["oardel", "user", ":", "a"], ["ann"]),
        (["oardel", "-s", "US"], ["USR1", "USR2"]),
        (["oarsub", "-q", "b"], ["besteffort"]),
        (["oarsub", "-l", "c"], ["core=", "cpu="]),
        (["oarsub", "-l", "/n"], ["/nodes="]),
        (["oarsub", "-l", "/nodes", "=", "2/c"], ["2/core=", "2/cpu="]),
        (["oarsub", "-l", "/nodes", "=", "2/core", "=", "1,w"], ["1,walltime="]),
        (["oarsub", "-l", "/nodes", "=", "2"], []),
        (["oarsub", "-l", "/nodes", "="], []),
        (["oarsub", "-p", "cp"], ["cpu"]),
        (["oarnodesetting", "-p", "co"], ["core"]),
        (["oarsub", "-t", "idem"], ["idempotent"]),
        (["oarsub", "--queue", "=", "d"], ["default", "deploy"][:1]),
        (["oarstat", "--color", "a"], ["auto", "always"]),
        (["oarstat", "-u", ""], ["ann"]),
        (["oarnodes", ""], ["n1"]),
        (["oarstat", "--comp"], ["--compact"]),
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
    assert "no completion for the shell 'tcsh' (bash, zsh, fish)" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed (apt install fish)")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("oarsub --array-p", {"--array-param-file"}),
        ("oardel 1", {"12", "13"}),
        ("oardel state:Run", {"state:Running"}),
        ("oarsub -q b", {"besteffort"}),
        ("oarsub -l nod", {"nodes="}),
        ("oarsub -p cp", {"cpu"}),
        ("oarstat --color a", {"auto", "always"}),
        ("oarpy db up", {"upgrade"}),
        ("oarnodes ", {"n1"}),
    ],
)
def test_what_fish_offers(tmp_path: Path, line: str, offered: set[str]) -> None:
    script = tmp_path / "completion.fish"
    script.write_text(fish_script())
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
        capture_output=True,
        text=True,
        check=True,
        env={**stand_in(tmp_path), "HOME": str(tmp_path)},
    )
    assert done.stderr == ""
    assert {word.split("\t")[0] for word in done.stdout.splitlines()} == offered


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed (apt install zsh)")
@pytest.mark.parametrize(
    ("typed", "completed_line"),
    [
        ("oarsub --array-p", "oarsub --array-param-file"),
        ("oardel 2", "oardel 27"),
        ("oardel state:Runn", "oardel state:Running"),
        ("oarsub -l nod", "oarsub -l nodes="),
        ("oarsub -l /nodes=2/cor", "oarsub -l /nodes=2/core="),
        ("oarsub -p cor", "oarsub -p core"),
        ("oarsub --queue=b", "oarsub --queue=besteffort"),
        ("oarstat --color ne", "oarstat --color never"),
        ("oarpy db up", "oarpy db upgrade"),
        ("oarnodes ", "oarnodes n1"),
    ],
)
def test_what_zsh_completes(tmp_path: Path, typed: str, completed_line: str) -> None:
    script = tmp_path / "_oarpy"
    script.write_text(zsh_script())
    environment = {**stand_in(tmp_path), "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    with TerminalSession(["zsh", "-f", "-i"], environment, columns=200) as session:
        session.type(f"PS1='ready> '; autoload -U compinit; compinit -u -D; source {script}; print load''ed\n")
        session.expect("loaded")
        session.expect("ready> ")
        # the line is printed once the key has completed it, rather than run
        session.type("bindkey -s '^X' '^A print -r -- \"^E\"^M'; print bou''nd\n")
        session.expect("bound")
        session.expect("ready> ")
        session.type(f"{typed}\t\x18")
        session.expect(f"\n{completed_line}")
