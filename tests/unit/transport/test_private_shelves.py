"""Folders for jobs' own directories are looked for in directories where users may have put what they like."""

from __future__ import annotations

import errno
import os
import signal
import zlib
from pathlib import Path

import pytest

from oarpy.transport.agent.job import private_directories
from oarpy.transport.agent.statedir import StateDir
from oarpy.wire.jobs import JobKey


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    made = StateDir(str(tmp_path / "state"))
    made.create()
    return made


def shelf(state: StateDir, everybody: Path) -> Path:
    everybody.mkdir()
    everybody.chmod(0o1777)
    return everybody / f".oarpy-{zlib.crc32(os.fsencode(state.root)):08x}"


def test_what_a_link_of_a_user_leads_to_is_not_removed(state: StateDir, tmp_path: Path) -> None:
    kept, key = tmp_path / "kept", str(JobKey(1, 1))
    (kept / key).mkdir(parents=True)
    everybody = tmp_path / "tmp"
    shelf(state, everybody).symlink_to(kept)
    Path(state.files, f"{key}.private").write_text(str(everybody))
    assert private_directories.sweep(state, [str(everybody)]) == 0
    assert private_directories.begin_removal(state, [key]) == 0
    assert (kept / key).is_dir()
    with pytest.raises(FileNotFoundError):
        private_directories._shelf(state, str(everybody))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of root")
def test_what_is_left_in_a_folder_of_root_is_removed(state: StateDir, tmp_path: Path) -> None:
    place = shelf(state, tmp_path / "tmp")
    (place / "7.1" / "deep").mkdir(parents=True)
    remover = private_directories.sweep(state, [str(tmp_path / "tmp")])
    os.waitpid(remover, 0)
    assert list(place.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of root")
def test_what_cannot_be_removed_ends_nobody_and_is_tried_again(
    state: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody, key = tmp_path / "tmp", str(JobKey(1, 1))
    place = shelf(state, everybody)
    (place / key).mkdir(parents=True)
    Path(state.files, f"{key}.private").write_text(str(everybody))
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", _refuse)
        assert private_directories.begin_removal(state, [key]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_spawnp", _refuse)
        assert private_directories.sweep(state, [str(everybody)]) == 0
    assert (place / key).is_dir()
    os.waitpid(private_directories.sweep(state, [str(everybody)]), 0)
    assert list(place.iterdir()) == []


def _refuse(*_: object, **__: object) -> int:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of root")
def test_more_folders_than_a_command_bears_go_bit_by_bit(state: StateDir, tmp_path: Path) -> None:
    place = shelf(state, tmp_path / "tmp")
    place.mkdir()
    for number in range(private_directories._MOST_REMOVED + 1):
        (place / f"gone.{number}").mkdir()
    for left in (1, 0):
        os.waitpid(private_directories.sweep(state, [str(tmp_path / "tmp")]), 0)
        assert len(list(place.iterdir())) == left


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of root")
def test_a_removal_holds_no_channel_open(state: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shelf(state, tmp_path / "tmp") / "7.1").mkdir(parents=True)
    monkeypatch.setattr(private_directories, "_REMOVE", ["sh", "-c", "exec sleep 600"])
    real = os.posix_spawnp
    monkeypatch.setattr(
        os, "posix_spawnp", lambda _, command, *more, **other: real(command[0], command, *more, **other)
    )
    remover = private_directories.sweep(state, [str(tmp_path / "tmp")])
    try:
        assert {os.readlink(f"/proc/{remover}/fd/{stream}") for stream in (0, 1)} == {"/dev/null"}
    finally:
        os.kill(remover, signal.SIGKILL)
        os.waitpid(remover, 0)
