"""The end of an output is read with the rights of its owner, and never waits for one that does not come."""

from __future__ import annotations

import fcntl
import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oarpy.model.errors import NotAllowed, NotFound, OarpyError
from oarpy.web import output_tail
from oarpy.web.output_tail import KEPT, tail
from tests.harness.passable_folder import passable_folder

ME = pwd.getpwuid(os.getuid()).pw_name
OTHER = "daemon"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes other users")


def test_the_end_of_a_long_file_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "out put"
    file.write_bytes(b"x" * KEPT + b"the end \xff\0")
    found = tail(str(file), ME)
    assert found.text.endswith("the end \ufffd\ufffd")
    assert (found.size, found.kept, found.cut) == (KEPT + 10, KEPT, True)


@pytest.mark.parametrize("name", ["missing", "pipe", "folder", "-rf", "$(id)"])
def test_what_is_no_file_is_told(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotFound):
        tail(str(tmp_path / name), ME)


def test_a_user_without_account_has_no_output(tmp_path: Path) -> None:
    with pytest.raises(NotAllowed, match="no account"):
        tail(str(tmp_path), "no-such-user")


@as_root
def test_root_reads_for_a_user_what_the_user_may_read() -> None:
    with passable_folder("oarpy-tail-") as folder:
        secret, link, own = folder / "secret", folder / "link", folder / "own"
        secret.write_text("of root")
        secret.chmod(0o600)
        link.symlink_to(secret)
        own.write_text("mine")
        assert tail(str(own), OTHER).text == "mine"
        for path in (secret, link):
            with pytest.raises(NotAllowed, match="its owner may not read it"):
                tail(str(path), OTHER)


def test_no_more_is_read_than_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever got hold of the descriptor could write there without end."""
    (tmp_path / "out").write_text("short")
    (tmp_path / "reader.py").write_text("print(5)\nwhile True: print('y')\n")
    monkeypatch.setattr(output_tail, "_READER", str(tmp_path / "reader.py"))
    found = tail(str(tmp_path / "out"), ME, 100)
    assert len(found.text) == 100
    assert found.text.startswith("y")


REACH = """
import ctypes, os, sys
pid = int(sys.argv[1])
call = ctypes.CDLL(None, use_errno=True).syscall
got = call(438, os.pidfd_open(pid), 1, 0)
try:
    os.listdir(f"/proc/{pid}/fd")
    listed = True
except OSError:
    listed = False
print(got >= 0, listed)
"""
"""A process takes descriptor 1 of another: by pidfd_getfd, and by what /proc lists."""


def reached(pid: int) -> str:
    """What a process of the user OTHER reaches of another process."""
    account = pwd.getpwnam(OTHER)
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", REACH, str(pid)],
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@as_root
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="no Python here that all users may run")
def test_no_process_of_the_owner_reaches_the_descriptors_of_the_reader() -> None:
    account = pwd.getpwnam(OTHER)
    with passable_folder("oarpy-tail-") as folder:
        (folder / "out").write_bytes(b"x" * 1_000_000)
        mine = subprocess.Popen(
            ["sleep", "60"], stdout=subprocess.PIPE, user=account.pw_uid, group=account.pw_gid, extra_groups=()
        )
        ids = (str(account.pw_uid), str(account.pw_gid), str(account.pw_gid))
        words = [sys.executable, "-I", "-S", output_tail._READER, *ids, str(folder / "out"), "1000000"]
        reader = subprocess.Popen(words, stdout=subprocess.PIPE, cwd="/")
        try:
            assert reader.stdout is not None
            assert reader.stdout.read(8) == b"1000000\n"  # it is the user, and waits until more is read
            if reached(mine.pid) != "True True":
                pytest.skip("this system lets no process reach another of its user (kernel.yama.ptrace_scope)")
            assert reached(reader.pid) == "False False"
        finally:
            for process in (mine, reader):
                process.kill()
                process.communicate()


@as_root
def test_a_lease_of_the_owner_makes_nobody_wait() -> None:
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # tells the holder that somebody asks
    with passable_folder("oarpy-tail-") as folder:
        (folder / "out").write_text("short")
        with (folder / "out").open("a") as file:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            with pytest.raises(NotFound, match="it cannot be read"):
                tail(str(folder / "out"), OTHER)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    signal.signal(signal.SIGIO, before)


def test_a_user_has_two_outputs_read_at_once(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("short")
    with output_tail._TURNS.of(ME), output_tail._TURNS.of(ME):
        with pytest.raises(OarpyError, match=r"2 outputs of .* are being read"):
            tail(str(tmp_path / "out"), ME)
        with output_tail._TURNS.of("another"):
            pass
    assert tail(str(tmp_path / "out"), ME).text == "short"
