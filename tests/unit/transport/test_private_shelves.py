"""Folders for jobs' own directories are looked for in directories where users may have put what they like."""

from __future__ import annotations

import os
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
