"""The tutorial is followed in a home of its own, command by command; what is printed has the shape that it shows.

A look (``oarstat``, ``cat``) is repeated until it shows that: a reader is slower than the cluster. The user guide's
commands follow in a cluster: none of them is one that its program does not know.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from oarpy.local_cluster.sandbox import local_nodes, running_sandbox
from tests.harness.passable_folder import passable_folder
from tests.harness.waiting import DEADLINE

pytestmark = [pytest.mark.e2e, pytest.mark.db]

GUIDES = Path(__file__).resolve().parents[2] / "docs/guides"
END = "== end of a command, status "
LOOKS = ("oarstat", "cat OAR", "oarnodes")
STARTING = re.compile("no gateway listens on|^# no server is running")
"""What commands say until the server has started, as the tutorial tells."""
USAGE = 2
NOT_HERE = re.compile(r"needs a terminal|OAR_JOB_ID")
"""What a command says that only works at a terminal, or inside a job."""
SHAPES = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "DATE"),
    (re.compile(r"\d+:\d+:\d+"), "TIME"),
    (re.compile(rf"\b(root|{re.escape(getpass.getuser())})\b"), "USER"),
    (re.compile(r"^(node\d) [a-z.#]{40,}$"), r"\1 BAR"),
    (re.compile(r"on node\d, node\d, node\d, node\d"), "on NODES"),
    (re.compile(r"-{3,}"), "-"),
    (re.compile(r"\s+"), " "),
)


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the blocks of a page with the lines that it is to print."""
    for block in re.findall(r"^```console\n(.*?)^```", (GUIDES / page).read_text("utf-8"), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            typed = 1
            while typed < len(lines) and lines[typed].startswith("> "):
                typed += 1
            yield "\n".join(line.removeprefix("> ") for line in lines[:typed]), lines[typed:]


def shape(line: str) -> str:
    for pattern, word in SHAPES:
        line = pattern.sub(word, line)
    return line.strip()


def alike(shown: list[str], printed: list[str]) -> bool:
    """Whether lines have the shape of those on the page, where ``...`` stands for anything."""
    pattern = "".join(
        "(?:.*\n)*?" if line == "..." else re.escape(shape(line)).replace(r"\.\.\.", ".*") + "\n" for line in shown
    )
    kept = [shape(line) for line in printed if "no gateway listens" not in line]
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in kept)) is not None


def typed(shell: subprocess.Popen[str], command: str) -> tuple[int, list[str]]:
    """Type a command into the shell, and return its status and what it printed."""
    into, out = _pipes(shell)
    into.write(f"{command}\necho; echo '{END}'$?\n")
    into.flush()
    printed: list[str] = []
    for line in out:
        if line.startswith(END):
            return int(line.removeprefix(END)), printed[:-1] if printed and not printed[-1] else printed
        printed.append(line.rstrip("\n"))
    raise AssertionError(f"the shell ended in: {command}")


def _pipes(shell: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert shell.stdin is not None
    assert shell.stdout is not None
    return shell.stdin, shell.stdout


def test_the_tutorial_prints_what_it_shows() -> None:
    followed = list(commands("tutorial.md"))
    with passable_folder("oarpy-tutorial-") as home:
        (home / "clone").mkdir()
        (home / "clone/.venv").symlink_to(sys.prefix)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OARPY_", "OAR_", "XDG_"))}
        with subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=home / "clone",
            env={**kept, "HOME": str(home)},
        ) as shell:
            try:
                for command, shown in followed:
                    _follow(shell, command, shown)
            finally:
                typed(shell, "kill %1 2>/dev/null; wait; oarpy db stop 2>/dev/null")
                _pipes(shell)[0].close()
    assert len(followed) > 25


def _follow(shell: subprocess.Popen[str], command: str, shown: list[str]) -> None:
    end = time.monotonic() + DEADLINE
    while True:
        status, printed = typed(shell, command)
        printed = [line for line in printed if not STARTING.search(line)]
        if (status == 0 or (command, status) == FAILS) and alike(shown, printed):
            return
        if not command.startswith(LOOKS) or time.monotonic() > end:
            raise AssertionError(f"$ {command}\nstatus {status}\n" + "\n".join(printed))


FAILS = (next(command for command, _ in commands("tutorial.md") if "--array" in command), 1)
"""The array with a member that fails ends so."""


def test_the_first_replay_of_the_guide_for_researchers_works(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = "\n".join(["set -eu", *(command for command, _ in commands("researcher.md"))])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {"easy", "conservative"} <= set(done.stdout.split())


@pytest.mark.skipif(shutil.which("timeout") is None, reason="timeout is not installed")
def test_no_command_of_the_user_guide_is_unknown(tmp_path: Path) -> None:
    """Its jobs 12 and 4058 are not there, but each option and form of words is."""
    unknown = []
    with running_sandbox(tmp_path / "cluster", {}, local_nodes("/host=n[1-2]/cpu={1}/core={2}")) as cluster:
        work = cluster.directory / "work"
        (work / "job.sh").write_text("#!/bin/sh\n", encoding="utf-8")
        (work / "job.sh").chmod(0o755)
        for name in ("mem", "gpu", "gpu_count"):
            cluster.run("oarproperty", "-a", name)
        listed = [command for command, _ in commands("user.md")]
        for command in listed:
            done = subprocess.run(
                ["timeout", "5", "bash", "-c", command],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=cluster.environment(),
                cwd=work,
                check=False,
            )
            if done.returncode in (USAGE, 127) and not NOT_HERE.search(done.stderr):
                unknown.append((command, done.stderr))
    assert len(listed) > 20
    assert unknown == []
