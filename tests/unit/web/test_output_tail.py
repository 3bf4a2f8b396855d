"""The end of an output is read with the rights of its owner, and never waits for one that does not come."""

from __future__ import annotations

import os
import pwd
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
    """Whoever gets hold of the descriptor may write there without end."""
    (tmp_path / "out").write_text("short")
    monkeypatch.setattr(output_tail, "_READ", "echo 5; exec yes")
    found = tail(str(tmp_path / "out"), ME, 100)
    assert len(found.text) == 100
    assert found.text.startswith("y")


def test_a_user_has_two_outputs_read_at_once(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("short")
    with output_tail._TURNS.of(ME), output_tail._TURNS.of(ME):
        with pytest.raises(OarpyError, match=r"2 outputs of .* are being read"):
            tail(str(tmp_path / "out"), ME)
        with output_tail._TURNS.of("another"):
            pass
    assert tail(str(tmp_path / "out"), ME).text == "short"
