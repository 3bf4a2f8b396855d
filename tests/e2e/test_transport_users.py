"""Jobs as real other users: what they may read and write, and who may run what."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.local import LocalTransport
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Clean, Cleaned, Ended
from tests.harness.transport_driver import Driver, local_driver
from tests.harness.waiting import until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs of other users"),
]

GAMES, NOBODY = pwd.getpwnam("games"), pwd.getpwnam("nobody")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that every user may pass through (those of pytest are closed)."""
    path = Path(tempfile.mkdtemp(prefix="oarpy-users-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def driver(directory: Path) -> Iterator[Driver]:
    with local_driver(directory, user="games") as made:
        yield made


def test_a_job_is_its_user_in_everything(driver: Driver) -> None:
    driver.connect()
    script = "id -u; id -g; id -G; echo $USER $HOME; cat $OAR_NODEFILE; "
    script += "grep -E '^(Uid|Gid|CapEff|CapPrm):' /proc/self/status"
    spec = driver.spec(1, script, nodes=("node1",), allow_root=False)
    assert driver.run(spec).status == 0
    lines = driver.output(1).splitlines()
    uid, gid = str(GAMES.pw_uid), str(GAMES.pw_gid)
    groups = sorted(os.getgrouplist("games", GAMES.pw_gid))
    assert lines[:2] == [uid, gid]
    assert sorted(map(int, lines[2].split())) == groups
    assert lines[3:5] == [f"games {GAMES.pw_dir}", "node1"]
    status = {line.split(":")[0]: line.split()[1:] for line in lines[5:]}
    assert status == {"Uid": [uid] * 4, "Gid": [gid] * 4, "CapEff": ["0" * 16], "CapPrm": ["0" * 16]}
    for name in ("out.1", "err.1"):
        assert (driver.directory / name).stat().st_uid == GAMES.pw_uid


@pytest.mark.skipif(not GAMES.pw_shell.endswith(("nologin", "false")), reason="games may log in here")
def test_who_may_not_log_in_may_have_work_done(driver: Driver) -> None:
    driver.connect()
    assert driver.run(driver.spec(1, 'echo "$SHELL" && exit 3', shell="")).status == 3 << 8
    assert driver.output(1) == f"{GAMES.pw_shell}\n"


def test_users_cannot_read_each_others_files_or_the_state(driver: Driver) -> None:
    driver.connect()
    driver.start(driver.spec(1, "touch ready; sleep 600", nodes=("secret",), environment={"TOKEN": "secret"}))
    until((driver.directory / "ready").exists, "the job of games runs")
    state = Path(driver.node.state_directory)
    paths = [
        state / "files" / "1.1.nodes",
        state / "jobs" / "1.1",
        state / "jobs",
        state / "files",
        state / "incarnation",
    ]
    probe = "; ".join(f"cat {path} 2>/dev/null; ls {path}/ 2>/dev/null" for path in paths)
    spy = f"{probe}; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep TOKEN; echo over"
    assert driver.run(driver.spec(2, spy, user="nobody")).status == 0
    assert driver.output(2) == "over\n"
    tamper = "; ".join(f"echo x >> {path}; rm -f {path}" for path in paths[:2])
    driver.run(
        driver.spec(3, f"{tamper}; echo x > {state}/requests/1.1.0; touch {state}/bell; kill -9 -1; true", user="irc")
    )
    assert (state / "files" / "1.1.nodes").stat().st_mode & 0o037 == 0
    assert (state / "files" / "1.1.nodes").read_text() == "secret\n"
    assert driver.kill(1).reason == "killed"


def test_users_can_write_nowhere_on_the_disk_of_the_state(driver: Driver) -> None:
    driver.connect()
    state = Path(driver.node.state_directory)
    fill = "cat $OAR_NODEFILE; head -c 100000 /dev/zero >>$OAR_NODEFILE; chmod 600 $OAR_NODEFILE"
    ended = driver.run(driver.spec(1, f"{fill}; head -c 100000 /dev/zero > {state}/calls/x", nodes=("n1",)))
    assert ended.status == 0, "the folder of calls takes it"
    assert driver.output(1) == "n1\n"
    assert (state / "calls").stat().st_dev != state.stat().st_dev
    writable = f"find -L {state} -not -path '*/calls*' \\( -type f -o -type d \\) -writable 2>/dev/null; echo over"
    driver.run(driver.spec(2, writable, nodes=("n1",)))
    assert driver.output(2) == "over\n"
    owners = {path.stat().st_uid for path in state.rglob("*") if path.is_file()}
    assert owners == {0}


def test_a_user_who_kills_everything_of_his_ends_only_his_jobs(driver: Driver) -> None:
    ready = driver.connect()
    # an account of its own: tests beside this one run jobs of the others
    driver.start(driver.spec(1, "sleep 600", user="irc"), driver.spec(2, "sleep 600", user="nobody"))
    until(lambda: len(driver.processes(1)) > 0 and len(driver.processes(2)) > 0, "both run")
    driver.start(driver.spec(3, "kill -9 -1", user="irc"))
    outcomes = {ended.key.job: ended.reason for ended in (driver.expect(Ended) for _ in range(2))}
    assert outcomes == {1: "exited", 3: "exited"}
    assert os.path.exists(f"/proc/{ready.pid}")
    assert driver.kill(2).reason == "killed"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"directory": "/root"}, "WORKING_DIRECTORY"), ({"stdout": "/etc/oarpy-test-output"}, "OUTPUT_FILES")],
)
def test_the_users_rights_decide(driver: Driver, changes: dict[str, str], reason: str) -> None:
    Path("/root").chmod(Path("/root").stat().st_mode & ~0o007)
    driver.connect()
    ended = driver.run(driver.spec(1, "exit 0", **changes))
    assert (ended.reason, ended.status) == (reason, None)
    assert "Permission denied" in ended.detail
    assert not os.path.exists("/etc/oarpy-test-output")
    assert driver.run(driver.spec(2, "id -un", user="nobody")).status == 0
    assert driver.output(2) == "nobody\n"


def test_root_only_when_asked(driver: Driver) -> None:
    driver.connect()
    driver.start(driver.spec(1, "exit 0", user="root", allow_root=False))
    assert driver.refused(1).reason == "NOT_PERMITTED"
    assert driver.run(driver.spec(1, "exit 0", user="root", allow_root=True)).status == 0


def test_daemons_of_another_user_die_and_are_cleaned(driver: Driver) -> None:
    driver.connect()
    script = "trap '' TERM HUP; (setsid env -i sleep 600 &) ; (setsid sleep 600 &); exit 0"
    ended = driver.run(driver.spec(1, script))
    assert (ended.reason, ended.left) == ("exited", 0)
    assert driver.processes(1) == []
    driver.send(Clean((JobKey(1, 1),)))
    assert driver.expect(Cleaned).killed == 0


def test_an_agent_without_privileges_runs_its_own_user_only(directory: Path, driver: Driver) -> None:
    python = directory / "python"
    python.write_text('#!/bin/sh\nexec setpriv --reuid games --regid games --clear-groups /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    state = directory / "own-state"
    state.mkdir()
    os.chown(state, GAMES.pw_uid, GAMES.pw_gid)
    driver.node = NodeAddress("node1", str(state), python=str(python))
    assert os.stat(f"/proc/{driver.connect().pid}").st_uid == GAMES.pw_uid
    assert driver.run(driver.spec(1, "id -un", allow_root=False)).status == 0
    assert driver.output(1) == "games\n"
    driver.start(driver.spec(2, "id -un", user="nobody", allow_root=True))
    refused = driver.refused(2)
    assert refused.reason == "NOT_PERMITTED"
    assert "cannot start a job of user 'nobody'" in refused.detail
    driver.start(driver.spec(3, "id -un", user="root", allow_root=True))
    assert driver.refused(3).reason == "NOT_PERMITTED"
    driver.start(driver.spec(4, "(setsid sleep 600 &); sleep 600", walltime=600))
    driver.started(4)
    assert driver.kill(4, grace=0).left == 0
    assert driver.processes(4) == []


def test_processes_that_cannot_be_killed_are_counted(directory: Path, driver: Driver) -> None:
    """A program of the job becomes root, so the agent, which is not, may not kill it."""
    become = directory / "become"
    shutil.copy("/usr/bin/setpriv", become)
    become.chmod(0o4755)
    transport = LocalTransport(driver.transport.inbox, ChannelConfig(instance=driver.instance, kill_patience=0.2))
    python = directory / "python"
    python.write_text('#!/bin/sh\nexec setpriv --reuid games --regid games --clear-groups /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    state = directory / "own-state"
    state.mkdir()
    os.chown(state, GAMES.pw_uid, GAMES.pw_gid)
    driver.transport, driver.node = transport, NodeAddress("node1", str(state), python=str(python))
    try:
        driver.connect()
        command = f"{become} --reuid 0 --regid 0 --clear-groups sh -c 'echo > ready; exec sleep 600' &"
        command += " until test -e ready; do sleep 0.05; done; exit 5"
        ended = driver.run(driver.spec(1, command, allow_root=False))
        assert (ended.reason, ended.status) == ("exited", 5 << 8)
        # without set-user-id programs (a file system or a container may forbid them) it stayed the user's and died
        assert ended.left == len(driver.processes(1))
        if not ended.left:
            pytest.skip("set-user-id programs are not allowed here")
        driver.send(Clean((JobKey(1, 1),)))
        # its environment cannot be read any more than it can be killed: the mark does not find it
        assert driver.expect(Cleaned).killed == 0
    finally:
        transport.close()
