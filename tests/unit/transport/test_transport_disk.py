"""What agents keep on a node's disk: records, tombstones, requests, the incarnation; torn writes never happened."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oarpy.transport.agent.job import processes, record, requests
from oarpy.transport.agent.job.account import Account
from oarpy.transport.agent.job.environment import grid_map_file, node_file, write_files
from oarpy.transport.agent.job.isolation import NONE, Isolation
from oarpy.transport.agent.job.job_run import JobRun, RunSettings
from oarpy.transport.agent.job.tombstones import DAY, Tombstones
from oarpy.transport.agent.statedir import FORMAT, StateDir, StateError
from oarpy.transport.agent.usage import MeasuredUse
from oarpy.wire.jobs import JobKey, JobSpec


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    state = StateDir(str(tmp_path / "state"))
    state.create()
    return state


def test_a_record_goes_through_its_states(state: StateDir) -> None:
    held, locked = record.lock_record(state.jobs, "1.1", create=True)
    assert held is not None
    assert locked
    assert held.empty()
    assert held.history().state == record.CLAIMED
    for event, expected in [
        ("started", record.RUNNING),
        ("suspended", record.SUSPENDED),
        ("resumed", record.RUNNING),
        ("ended", record.ENDED),
    ]:
        held.append(event, 5.0, pid=7)
        assert held.history().state == expected
    held.close()


def test_only_one_holds_a_record(state: StateDir) -> None:
    first, held = record.lock_record(state.jobs, "1.1", create=True)
    assert first is not None
    assert held
    second, held = record.lock_record(state.jobs, "1.1", create=True)
    assert second is not None
    assert not held
    first.close()
    assert second.try_lock()
    second.close()
    assert record.lock_record(state.jobs, "2.1", create=False) == (None, False)


def test_a_record_removed_while_it_is_opened_is_made_anew(state: StateDir) -> None:
    old, _ = record.lock_record(state.jobs, "1.1", create=True)
    assert old is not None
    os.unlink(Path(state.jobs) / "1.1")
    assert old.removed()
    new, held = record.lock_record(state.jobs, "1.1", create=True)
    assert new is not None
    assert held
    assert not new.removed()
    old.close()
    new.close()


@pytest.mark.parametrize(
    "torn",
    [
        b"\n",
        b'\n{"event": "sta',
        b'\n{"event": "started"',
        b"\n\xff\xfe\n",
        b"\n7\n",
        b"\n[]\n",
        b'\n{"event": "started"}\n',
    ],
)
def test_a_torn_line_never_happened_and_does_not_spoil_the_next(state: StateDir, torn: bytes) -> None:
    path = Path(state.jobs) / "1.1"
    path.write_bytes(torn)
    found, _ = record.lock_record(state.jobs, "1.1", create=True)
    assert found is not None
    assert found.history().state == record.CLAIMED
    found.append("started", 5.0, pid=7)
    assert found.history().started == {"event": "started", "at": 5.0, "pid": 7}
    found.close()


def test_every_prefix_of_a_record_is_an_earlier_state(state: StateDir) -> None:
    found, _ = record.lock_record(state.jobs, "1.1", create=True)
    assert found is not None
    found.append("started", 5.0, pid=7)
    found.append("ended", 6.0, status=0)
    found.close()
    content = (Path(state.jobs) / "1.1").read_bytes()
    order = [record.CLAIMED, record.RUNNING, record.ENDED]
    seen = [order.index(record.History(content[:size]).state) for size in range(len(content) + 1)]
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2}


def test_the_first_outcome_counts() -> None:
    history = record.History(b'{"event":"ended","at":1,"n":1}\n{"event":"ended","at":2,"n":2}\n')
    assert history.ended is not None
    assert history.ended["n"] == 1


def test_names_of_records() -> None:
    assert record.parse_key(str(JobKey(12, 3))) == JobKey(12, 3)
    assert [record.parse_key(name) for name in ("", "1", "1.", ".1", "1.x", "-1.1", "1.1.1")] == [None] * 7


def test_tombstones_are_seen_by_all_agents(state: StateDir) -> None:
    ours, theirs = Tombstones(state.forgotten, 3), Tombstones(state.forgotten, 3)
    ours.add(["1.1", "2.1"])
    theirs.refresh()
    assert "1.1" in theirs
    assert "1.2" not in theirs
    theirs.add(["3.1"])
    ours.refresh()
    assert "3.1" in ours


def test_a_torn_tombstone_is_not_taken_for_another(state: StateDir) -> None:
    path = Path(state.forgotten) / str(int(time.time()) // DAY)
    path.write_bytes(b"\n1.1;\n12.")
    tombstones = Tombstones(state.forgotten, 3)
    tombstones.refresh()
    tombstones.add(["1.3"])
    tombstones.refresh()
    assert [key in tombstones for key in ("1.1", "1.3", "12.", "12.1", "12.1.3")] == [True, True, False, False, False]


def test_tombstones_out_of_order_are_found(state: StateDir) -> None:
    tombstones = Tombstones(state.forgotten, 3)
    keys = [f"{job}.{attempt}" for job in (5, 1, 9, 3, 140737488355327) for attempt in (2, 1, 65535)]
    for key in keys:
        tombstones.add([key, key])
        tombstones.refresh()
    assert all(key in tombstones for key in keys)
    assert not any(key in tombstones for key in ("2.1", "5.3", "140737488355328.1", "1.65536", "x"))


def test_old_tombstones_are_dropped(state: StateDir) -> None:
    today = int(time.time()) // DAY
    for age in (0, 3, 4, 30, 31, 400):
        (Path(state.forgotten) / str(today - age)).write_text(f"{age}.1;\n")
    tombstones = Tombstones(state.forgotten, 3)
    tombstones.refresh()
    tombstones.prune()
    assert sorted(os.listdir(state.forgotten)) == sorted(str(today - age) for age in (0, 3, 4, 30))
    assert [f"{age}.1" in tombstones for age in (0, 3, 4, 400)] == [True, True, False, False]


def test_tombstones_recall_what_was_known_longer_than_they_refuse_it(state: StateDir) -> None:
    today = int(time.time()) // DAY
    known = {"user": "ann", "resources": 2, "start": 5.0, "end": 6.0, "status": 0, "reason": "exited"}
    Tombstones(state.forgotten, 3).add(["7.1", "8.1"], {"7.1": known})
    os.rename(Path(state.forgotten) / str(today), Path(state.forgotten) / str(today - 9))
    later = Tombstones(state.forgotten, 3)
    later.add(["9.1", "7.1"], {"9.1": {**known, "user": "bob; DROP"}})
    with (Path(state.forgotten) / str(today)).open("a") as file:
        file.write('10.1 {"user": "torn')
    later.refresh()
    assert ["9.1" in later, "8.1" in later] == [True, False]
    assert later.highest == 9
    assert later.recall((today - 9) * DAY) == {"7.1": known, "9.1": {**known, "user": "bob; DROP"}}
    assert later.recall(today * DAY) == {"9.1": {**known, "user": "bob; DROP"}}


def test_requests_are_taken_once_in_order_and_by_their_job(state: StateDir) -> None:
    requests.leave_request(state, "1.1", requests.SIGNAL, 12)
    requests.leave_request(state, "1.1", requests.KILL, -1, "oardel by ann")
    requests.leave_request(state, "1.10", requests.KILL, 5)
    (Path(state.requests) / "1.1.zzz").write_text("torn")
    assert requests.take_requests(state, "1.1") == [("signal", 12, ""), ("kill", -1, "oardel by ann")]
    assert requests.take_requests(state, "1.1") == []
    requests.leave_request(state, "1.1", requests.SUSPEND, 0)
    requests.drop_requests(state, {"1.1"})
    assert requests.take_requests(state, "1.1") == []
    assert requests.take_requests(state, "1.10") == [("kill", 5, "")]


def test_incarnations(state: StateDir) -> None:
    assert state.read_incarnation() == ("", "")
    identity = state.write_incarnation("boot")
    assert state.read_incarnation() == ("boot", identity)
    assert state.write_incarnation("boot") != identity
    path = Path(state.root) / "incarnation"
    path.write_text("{")
    assert state.read_incarnation() == ("", "")
    path.write_text(json.dumps({"format": FORMAT + 1, "boot": "b", "identity": "i"}))
    with pytest.raises(StateError, match=f"has format {FORMAT + 1}"):
        state.read_incarnation()


def test_the_state_directory_is_closed_to_others(state: StateDir) -> None:
    closed = {name: os.stat(Path(state.root) / name).st_mode & 0o777 for name in os.listdir(state.root)}
    assert closed == {
        **dict.fromkeys(("jobs", "requests", "logins", "scripts", "forgotten"), 0o700),
        "files": 0o711,
        **dict.fromkeys(("bell", "secret"), 0o600),
    }


def test_the_outcome_of_a_job_is_kept_when_ending_its_processes_fails(
    state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_patience: float, _statuses: dict[int, int], _usage: MeasuredUse) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def run_the_command(run: JobRun) -> None:
        run._main, run._statuses[7] = 7, 256

    monkeypatch.setattr(processes, "kill_descendants", fail)
    monkeypatch.setattr(processes, "descendants", lambda _root: [8, 9])
    monkeypatch.setattr(JobRun, "_launch", lambda _run: 7)
    monkeypatch.setattr(JobRun, "_wait", run_the_command)
    held, _ = record.lock_record(state.jobs, "1.1", create=True)
    assert held is not None
    told: list[tuple[str, dict[str, object]]] = []
    user = pwd.getpwuid(os.getuid()).pw_name
    spec, account = JobSpec(1, 1, user, "true", "/"), Account(user)
    isolation = Isolation(NONE, "/sys/fs/cgroup", state.root)
    job = JobRun(
        state,
        isolation,
        held,
        spec,
        account,
        "mark",
        lambda word, values: told.append((word, values)),
        RunSettings(1.0, 60.0, ""),
    )
    assert job.run() == 2
    [(word, outcome)] = told
    assert word == "ended"
    expected = {"status": 256, "reason": "exited", "detail": "while it was ended: OSError: [Errno 22] Invalid argument"}
    assert outcome.items() >= {**expected, "left": 2}.items()
    kept, _ = record.lock_record(state.jobs, "1.1", create=False)
    assert kept is not None
    assert kept.history().state == record.ENDED
    kept.close()


@pytest.fixture
def file_size_limit() -> Iterator[Callable[[int], None]]:
    """Let files of this process have so many bytes: the kernel then takes a part of a write, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_a_full_disk_takes_in_part_is_not_held_for_written(
    state: StateDir, file_size_limit: Callable[[int], None]
) -> None:
    tombstones = Tombstones(state.forgotten, 3)
    before = state.write_incarnation("boot")
    file_size_limit(12)
    with pytest.raises(OSError, match="No space"):
        tombstones.add(["1.1", "2.1", "3.1"])
    with pytest.raises(OSError, match="No space"):
        state.write_incarnation("boot")
    assert state.read_incarnation() == ("boot", before)
    tombstones.refresh()
    assert [key in tombstones for key in ("1.1", "2.1", "3.1")] == [True, True, False]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files for other users")
@pytest.mark.parametrize("answer", [errno.ENOSPC, errno.EDQUOT, errno.EOPNOTSUPP])
def test_a_node_file_is_given_away_only_where_rights_cannot_be(
    state: StateDir, monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(answer, os.strerror(answer))

    monkeypatch.setattr(os, "setxattr", refuse)
    spec = JobSpec(1, 1, "nobody", "true", "/", nodes=("node1",))
    possible = answer == errno.EOPNOTSUPP
    with contextlib.nullcontext() if possible else pytest.raises(OSError, match=os.strerror(answer)):
        write_files(state, "1.1", spec, Account("nobody"))
    assert (os.stat(node_file(state, "1.1")).st_uid == pwd.getpwnam("nobody").pw_uid) == possible


@pytest.mark.parametrize(
    "line", ["", "n1 0 a", "n1 0 a b", "n1 x a 1", "n1 0 a 0", "n1 0 a -1", "n1 0 a 1 1", "n1 0 a 100001", "n1 0 a 1e9"]
)
def test_a_map_that_is_none_is_told_as_what_cannot_be_written(state: StateDir, line: str) -> None:
    account = Account(pwd.getpwuid(os.getuid()).pw_name)
    spec = JobSpec(1, 1, "nobody", "true", "/", grid_map=("n1 0 a 2", line), iterations=5)
    with pytest.raises(OSError, match="no line of a map"):
        write_files(state, "1.1", spec, account)
    assert not os.path.exists(grid_map_file(state, "1.1"))
    write_files(state, "1.1", spec.replace(grid_map=("n1 0 a 2", "n2 0 b 1")), account)
    with open(grid_map_file(state, "1.1"), encoding="utf-8") as file:
        assert file.read().splitlines() == ["0 a n1 0 5", "1 a n1 0 5", "2 b n2 0 5"]
