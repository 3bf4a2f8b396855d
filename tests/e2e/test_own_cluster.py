"""``oarpy try``: a shell with a cluster of its own, which goes on with it the next time and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import command

pytestmark = pytest.mark.e2e


def _try(folder: Path, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [command("oarpy"), "try", "--directory", str(folder), *words],
        input=typed,
        capture_output=True,
        text=True,
        env={**os.environ, "SHELL": "/bin/sh"},
        check=False,
    )


def _left_of(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def test_a_shell_with_a_cluster_and_its_pages(tmp_path: Path) -> None:
    folder = tmp_path / "try"
    asks_the_page = "python3 -c \"import sys, urllib.request as r; print('page', r.urlopen(sys.argv[1]).status)\" "
    typed = (
        "job=$(oarsub -l nodes=2,walltime=0:1:0 'echo here' | sed -n 's/OAR_JOB_ID=//p')\n"
        "oarsub -I -a $job -l core=1,walltime=0:1:0 </dev/null >/dev/null 2>&1\n"
        "oarsub -l core=1,walltime=0:10:0 'sleep 600'\n"
        f"{asks_the_page} http://$(sed -n 's/listen = \"\\(.*\\)\"/\\1/p' ../config.toml)/login\n"
        "exit 3\n"
    )
    done = _try(folder, typed=typed)
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(r"its pages    http://127\.0\.0\.1:\d+\n  a token      oarpy_\S+\n", done.stdout)
    assert "page 200" in done.stdout
    assert f"it is kept in {folder}\n" in done.stdout
    assert not _left_of(folder), "and no job"
    again = _try(folder, "sh", "-c", "oarstat -s -j 1; echo $?; oarpy doctor")
    assert again.stdout.startswith("1: Terminated\n0\n")
    assert "web.listen" not in again.stdout, "who runs a command alone gets no pages"
    assert not _left_of(folder)


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    done = _try(tmp_path / "try", "nosuch")
    assert (done.returncode, done.stderr) == (127, "oarpy try: nosuch cannot be started: No such file or directory\n")


def test_one_process_a_folder_and_none_after_a_signal(tmp_path: Path) -> None:
    folder = tmp_path / "try"
    words = [command("oarpy"), "try", "--directory", str(folder), "sh", "-c", "echo open; exec sleep 600"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "open\n"
        second = _try(folder, "true")
        assert second.returncode == 2
        assert f"the cluster in {folder} runs already" in second.stderr
        first.send_signal(signal.SIGHUP)
    assert first.returncode == 128 + signal.SIGHUP
    assert not _left_of(folder)
