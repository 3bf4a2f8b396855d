"""A command that is executed without a shell does what the shell would have done."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oarpy.transport.agent.job.spawning import plain_command
from tests.harness.examples import examples

NAMES = ("run", "a.out", "2", "x-y", "_z", "run+")
SHELLS = [shell for shell in ("/bin/sh", "/bin/bash") if os.access(shell, os.X_OK)]
TELL = '#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n'
PIECES = (
    *NAMES,
    " ",
    "  ",
    "\t",
    "=",
    "a=b",
    "~",
    "$HOME",
    "'",
    '"',
    "\\",
    "*",
    "?",
    "[a]",
    "{1,2}",
    "(",
    ";",
    "&",
    "|",
)
MORE_PIECES = ("\n", "#", "!", "%1", "-", "--x=1", ":", "./run", "sub/run", "é", "<", ">", "time", "echo", "exec", "^")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with programs that print how they were called."""
    place = tmp_path_factory.mktemp("programs")
    (place / "sub").mkdir()
    for path in (*(place / name for name in NAMES), place / "sub" / "run"):
        path.write_text(TELL)
        path.chmod(0o755)
    return place


@given(
    command=st.tuples(
        st.sampled_from((*NAMES, *NAMES, *MORE_PIECES)), st.lists(st.sampled_from((*PIECES, *MORE_PIECES)), max_size=5)
    ).map(lambda parts: parts[0] + "".join(parts[1])),
    shell=st.sampled_from(SHELLS),
)
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_executed_is_what_the_shell_would_execute(
    command: str, shell: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    environment = {"PATH": str(folder), "HOME": "/"}
    plain = plain_command(command, shell, environment)
    if plain is None:
        return
    asked = subprocess.run([shell, "-c", command], env=environment, capture_output=True, check=True)
    program, words = plain
    direct = subprocess.run(words, executable=program, env=environment, capture_output=True, check=True)
    assert direct.stdout == asked.stdout


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run", ["run"]),
        ("run  1\t--to=x:y,z 50%", ["run", "1", "--to=x:y,z", "50%"]),
        ("./run -n 2", ["./run", "-n", "2"]),
    ],
)
def test_plain_words_need_no_shell(
    command: str, words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for shell in SHELLS:
        plain = plain_command(command, shell, {"PATH": f"/nowhere:{folder}"})
        assert plain is not None
        assert plain[1] == words
        assert os.path.samefile(plain[0], folder / "run")


@pytest.mark.parametrize("command", ["", " run", "run;", "run $A", "A=1 run", "echo a", "exec run", "nothing", "run\n"])
def test_everything_else_is_left_to_the_shell(command: str, folder: Path) -> None:
    assert plain_command(command, "/bin/sh", {"PATH": str(folder)}) is None


@pytest.mark.parametrize("name", ["BASH_ENV", "SSH_CLIENT", "SHELLOPTS", "BASH_FUNC_run%%"])
def test_a_shell_that_would_read_more_than_the_command_is_started(name: str, folder: Path) -> None:
    assert plain_command("run", "/bin/sh", {"PATH": str(folder)}) is not None
    assert plain_command("run", "/bin/sh", {"PATH": str(folder), name: "1"}) is None


@pytest.mark.parametrize("shell", ["/bin/zsh", "/usr/bin/fish", "/no/such/sh"])
def test_other_shells_are_always_started(shell: str, folder: Path) -> None:
    assert plain_command("run", shell, {"PATH": str(folder)}) is None


def test_what_may_not_be_executed_is_not_taken(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run").write_text(TELL)
    (tmp_path / "sub").mkdir()
    plain = plain_command("run", "/bin/sh", {"PATH": f"{tmp_path}:{folder}"})
    assert plain == (str(folder / "run"), ["run"])
    assert plain_command("sub", "/bin/sh", {"PATH": str(tmp_path)}) is None


def test_what_only_the_program_itself_may_see_is_the_shells_to_find(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory of the search path on a file system that its user mounted: another program must not be taken."""
    look = os.stat

    def refuse(path: str, **options: object) -> os.stat_result:
        if str(path).startswith("/mine/"):
            raise PermissionError
        return look(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", refuse)
    assert plain_command("run", "/bin/sh", {"PATH": f"{folder}:/mine"}) is not None
    assert plain_command("run", "/bin/sh", {"PATH": f"/mine:{folder}"}) is None
