"""Root keeps nothing in a folder that somebody else owns, or to which somebody else's link leads."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from oarpy.model.errors import NotAllowed
from oarpy.postgres import embedded_server
from oarpy.transport.agent.statedir import StateDir, StateError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root refuses what belongs to others")

OTHER = 65534


def owned_by_another(folder: Path) -> Path:
    """The folder itself is theirs."""
    folder.mkdir()
    os.chown(folder, OTHER, OTHER)
    return folder


def through_a_link(folder: Path) -> Path:
    """Their link leads to a folder of root's."""
    (folder.parent / "real").mkdir()
    folder.symlink_to(folder.parent / "real")
    os.chown(folder, OTHER, OTHER, follow_symlinks=False)
    return folder


def below_a_link(folder: Path) -> Path:
    """Their link is further up, and what it leads to is not there yet."""
    return through_a_link(folder) / "new" / "state"


def by_roots_link(folder: Path) -> Path:
    """A link of root's leads to a folder of theirs."""
    folder.symlink_to(owned_by_another(folder.parent / "real"))
    return folder


@pytest.mark.parametrize("make", [owned_by_another, through_a_link, below_a_link, by_roots_link])
def test_what_is_anothers_is_refused_in_one_line(make: object, tmp_path: Path) -> None:
    assert callable(make)
    place = make(tmp_path / "place")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StateError, match=r"is not root's alone: .* of uid 65534$") as refused:
        StateDir(str(place)).create()
    assert "\n" not in str(refused.value)
    with pytest.raises(NotAllowed, match=re.escape("is not root's alone: ")):
        embedded_server.start(place)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_roots_is_used_also_through_a_link_of_roots(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    StateDir(str(tmp_path / "link" / "state")).create()
    assert (tmp_path / "real" / "state" / "jobs").is_dir()


def test_what_others_may_write_to_is_closed_to_them_and_what_they_have_put_there_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "open"
    (place / "requests").mkdir(parents=True)
    place.chmod(0o777)
    (place / "requests").chmod(0o770)
    StateDir(str(place)).create()
    assert [oct(path.stat().st_mode & 0o777) for path in (place, place / "requests")] == ["0o755", "0o750"]
    os.chown(place / "scripts", OTHER, OTHER)
    with pytest.raises(StateError, match="belongs to uid 65534, the agent runs as uid 0"):
        StateDir(str(place)).create()
