"""The shell of an interactive job with windows ends with its job and with oarsub, whatever it does."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oarpy.frontend import windowed_shell
from oarpy.frontend.windowed_shell import WindowedShell, was_asked_for
from tests.harness.waiting import until

ENDED = "#!/bin/sh\nexit 3\n"
STOPPED = "#!/bin/sh\nkill -STOP $$\nexec sleep 600\n"
STUBBORN = """#!/bin/sh
trap '' TERM
echo > {here}
exec sleep 600
"""
OARSUB = """
import signal
from oarpy.frontend import windowed_shell
windowed_shell.oarsh_path = lambda: "{shell}"
shell = windowed_shell.WindowedShell(7, "n1")
print(shell._process.pid, flush=True)
while True:
    signal.pause()
"""


def script(folder: Path, text: str) -> str:
    """Write what stands for oarsh; return its path."""
    path = folder / "oarsh"
    path.write_text(text.format(here=folder / "here"))
    path.chmod(0o755)
    return str(path)


def open_shell(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> WindowedShell:
    monkeypatch.setattr(windowed_shell, "oarsh_path", lambda: script(folder, text))
    return WindowedShell(7, "n1")


def state(pid: int) -> str:
    """Return the state of a process as the kernel names it, "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_the_status_of_a_shell_is_the_line_for_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = open_shell(tmp_path, monkeypatch, ENDED)
    assert select.select([shell], [], [], 60)[0] == [shell]
    assert shell.status_line() == b"3\n"
    shell.close()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_stopped_shell_ends_with_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = open_shell(tmp_path, monkeypatch, STOPPED)
    until(lambda: state(shell._process.pid) == "T", "the shell is stopped")
    shell.close()
    assert shell._process.returncode == -signal.SIGTERM


def test_a_shell_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windowed_shell, "_PATIENCE", 0.01)
    shell = open_shell(tmp_path, monkeypatch, STUBBORN)
    until((tmp_path / "here").exists, "the shell ignores SIGTERM")
    shell.close()
    assert shell._process.returncode == -signal.SIGKILL


def test_a_shell_ends_with_oarsub(tmp_path: Path) -> None:
    program = OARSUB.format(shell=script(tmp_path, STOPPED))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as oarsub:
        assert oarsub.stdout is not None
        shell = int(oarsub.stdout.readline())
        until(lambda: state(shell) == "T", "the shell is stopped")
        oarsub.terminate()
        assert oarsub.wait(60) == -signal.SIGTERM
    until(lambda: state(shell) in ("", "Z"), "the shell has ended")


def test_a_shell_that_cannot_be_watched_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = []

    def refuse(pid: int) -> int:
        pids.append(pid)
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(PermissionError):
        open_shell(tmp_path, monkeypatch, STOPPED)
    assert state(pids[0]) == ""


def test_a_shell_that_is_gone_already_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(pid: int) -> int:
        raise ProcessLookupError

    monkeypatch.setattr(os, "pidfd_open", gone)
    shell = open_shell(tmp_path, monkeypatch, ENDED)
    assert select.select([shell], [], [], 60)[0] == [shell]
    shell.close()


@pytest.mark.parametrize(
    ("word", "asked"),
    [("-X", True), ("-IX", True), ("-IXl/core=2", True), ("--x11", True), ("--xml", False), ("-l/core=2", False)],
)
def test_windows_are_asked_for_among_other_letters(word: str, asked: bool) -> None:
    assert was_asked_for([word]) is asked
