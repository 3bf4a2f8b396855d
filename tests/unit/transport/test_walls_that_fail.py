"""What hinders a wall for a moment is told, and tried again; a job is never left without one for that."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from oarpy.transport.agent.job import device_walls
from oarpy.transport.agent.job.devices import Devices
from oarpy.transport.agent.job.isolation import AUTO, Isolation


@pytest.fixture
def isolation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Isolation:
    """A node whose groups of version 2 are plain folders, with a file that stands for a GPU that no driver knows."""
    root = tmp_path / "groups"
    root.mkdir()
    for name in ("cgroup.controllers", "cgroup.procs"):
        (root / name).write_text("")
    devices = Devices("/", [("/dev/null", "own")])
    monkeypatch.setattr(device_walls, "_load", lambda _: os.open(os.devnull, os.O_RDONLY))
    monkeypatch.setattr(device_walls, "refuse", lambda *_: None)
    return Isolation(AUTO, str(root), str(tmp_path), devices=devices)


def test_a_kernel_without_memory_is_asked_again(isolation: Isolation, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(device_walls, "_load", lambda _: _fail(errno.ENOMEM))
        with pytest.raises(OSError, match="memory"):
            isolation.walls((0,))
    assert isolation.walls((0,))


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL, errno.EPERM])
def test_a_kernel_that_takes_no_programs_has_no_walls(
    isolation: Isolation, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(device_walls, "_load", lambda _: _fail(number))
    assert not isolation.walls((0,))


def test_who_cannot_join_the_walled_group_is_not_let_go(isolation: Isolation) -> None:
    with pytest.raises(OSError, match=r"cgroup\.procs"):
        isolation.enter("1.1", (), gpus=())


def test_programs_are_loaded_without_a_limit_of_locked_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    low = (0, before[1])
    resource.setrlimit(resource.RLIMIT_MEMLOCK, low)
    seen: list[int] = []

    def load(*_: object) -> int:
        seen.append(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(device_walls, "_bpf", load)
    try:
        assert not device_walls.takes_programs()
        assert resource.getrlimit(resource.RLIMIT_MEMLOCK) == low
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)
    assert seen in ([resource.RLIM_INFINITY], [before[1]])


def _fail(number: int) -> int:
    raise OSError(number, os.strerror(number))
