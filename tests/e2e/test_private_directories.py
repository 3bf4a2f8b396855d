"""Jobs have ``/tmp`` and ``/dev/shm`` for themselves: real mounts, real ids, agents and supervisors that are killed."""

from __future__ import annotations

import os
import pwd
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.local_cluster.user_commands import user_command
from oarpy.transport.local import PipeStream
from oarpy.transport.node import ChannelConfig
from oarpy.transport.steps import StepEnded, StepEvent, StepOutput, Steps
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Clean, Cleaned, Forget, Resume, Resumed, Suspend, Suspended
from oarpy.wire.steps import StepSpec
from tests.harness.ordinary_users import ordinary_users
from tests.harness.passable_folder import passable_folder
from tests.harness.ssh_cluster import run_cluster
from tests.harness.transport_driver import DEADLINE, Driver, local_driver
from tests.harness.waiting import until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts, and runs jobs of others"),
]
ROOT = Path(__file__).resolve().parent.parent.parent
OWN = ("/tmp", "/dev/shm")


@pytest.fixture
def driver() -> Iterator[Driver]:
    directory = Path(tempfile.mkdtemp(prefix="oarpy-private-", dir="/var/tmp"))  # what is in /tmp no job sees
    directory.chmod(0o755)
    with local_driver(directory, user="games", private_directories=OWN) as made:
        yield made
    for own in OWN:
        shutil.rmtree(shelf(directory / "state", own), ignore_errors=True)
    shutil.rmtree(directory)


def shelf(state: Path, own: str) -> Path:
    return Path(own, f".oarpy-{zlib.crc32(os.fsencode(state)):08x}")


def kept(driver: Driver) -> list[str]:
    """What the node has of jobs' own directories, by their names."""
    shelves = [shelf(Path(driver.node.state_directory), own) for own in OWN]
    notes = Path(driver.node.state_directory, "files").glob("*.private*")
    return [path.name for one in shelves if one.exists() for path in one.iterdir()] + [note.name for note in notes]


def is_clean(driver: Driver) -> None:
    until(lambda: not kept(driver), "nothing is left of the job's own directories")
    assert not [line for line in Path("/proc/self/mounts").read_text().splitlines() if ".oarpy-" in line]


def step(driver: Driver, spec: StepSpec) -> str:
    """Run a step to its end; return its output."""
    config = ChannelConfig(instance=driver.instance, private_directories=OWN)
    steps = Steps(lambda _: PipeStream, config)
    number = steps.start(driver.node, spec)
    log: list[StepEvent] = []
    end = time.monotonic() + DEADLINE
    while not any(isinstance(one, StepEnded) and one.step == number for one in log):
        assert time.monotonic() < end, log
        select.select([steps.fileno()], [], [], 0.2)
        log += steps.events()
    steps.close()
    return b"".join(one.data for one in log if isinstance(one, StepOutput)).decode()


def test_two_users_see_directories_of_their_own_and_nothing_of_others(driver: Driver) -> None:
    driver.connect()
    with tempfile.NamedTemporaryFile(dir="/tmp") as outside:
        ready = "touch /tmp/$USER /dev/shm/$USER; ls -A /tmp /dev/shm; stat -c %a /tmp; touch ready.$USER"
        for job, user in enumerate(("games", "nobody"), 1):
            driver.start(driver.spec(job, f"{ready}; exec sleep 600", user=user))
            driver.started(job)
        for job, user in enumerate(("games", "nobody"), 1):
            until((driver.directory / f"ready.{user}").exists, "the job has looked")
            assert driver.output(job) == f"/dev/shm:\n{user}\nruntime\n\n/tmp:\n{user}\n1777\n"
            assert not Path("/tmp", user).exists()
        assert Path(outside.name).exists()
    for job in (1, 2):
        driver.kill(job)
    driver.send(Forget((JobKey(1, 1), JobKey(2, 1))))
    is_clean(driver)


def test_no_user_comes_to_the_directories_of_another(driver: Driver) -> None:
    driver.connect()
    driver.start(driver.spec(1, "echo secret > /tmp/mine; touch ready; exec sleep 600"))
    until((driver.directory / "ready").exists, "the job has written")
    folder = shelf(Path(driver.node.state_directory), "/tmp")
    assert (folder / "1.1" / "mine").read_text() == "secret\n"
    assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (0, 0o700)
    other = f"find / -xdev -name mine 2>/dev/null; cat {folder}/1.1/mine; ls -A {folder}"
    assert driver.run(driver.spec(2, other, user="nobody")).status != 0
    assert driver.output(2) == ""
    driver.kill(1)


def test_a_step_shares_them_with_its_job(driver: Driver) -> None:
    driver.connect()
    job = driver.spec(
        1, "echo of the job > /tmp/it; touch ready; until [ -e /tmp/there ]; do sleep .1; done; cat /tmp/there"
    )
    driver.start(job)
    until((driver.directory / "ready").exists, "the job has written")
    said = step(driver, StepSpec(job, "cat /tmp/it; echo of the step > /tmp/there; echo $XDG_RUNTIME_DIR", "/tmp"))
    assert said == "of the job\n/dev/shm/runtime\n"
    assert driver.ended(1).status == 0
    assert driver.output(1) == "of the step\n"
    driver.send(Forget((JobKey(1, 1),)))
    is_clean(driver)


def test_steps_of_a_job_that_is_led_elsewhere_share_them_until_its_end(driver: Driver) -> None:
    driver.connect()
    job = driver.spec(1, "true")
    assert step(driver, StepSpec(job, "echo kept > /tmp/it; ls -A /tmp", "/", head=False)) == "it\n"
    assert step(driver, StepSpec(job, "cat /tmp/it", "/", head=False)) == "kept\n"
    driver.send(Clean((JobKey(1, 1),), 0))
    driver.expect(Cleaned)
    is_clean(driver)


def test_the_runtime_directory_is_the_users_alone(driver: Driver) -> None:
    driver.connect()
    command = 'stat -c "%a %U" $XDG_RUNTIME_DIR; touch $XDG_RUNTIME_DIR/s && ls $XDG_RUNTIME_DIR'
    environment = {"XDG_RUNTIME_DIR": "/run/user/of-the-frontend"}
    assert driver.run(driver.spec(1, command, environment=environment)).status == 0
    assert driver.output(1) == "700 games\ns\n"
    driver.send(Forget((JobKey(1, 1),)))
    is_clean(driver)


def test_a_suspended_job_keeps_them(driver: Driver) -> None:
    driver.connect()
    driver.start(driver.spec(1, "echo 1 > /tmp/it; touch ready; until [ -e go ]; do sleep .1; done; cat /tmp/it"))
    until((driver.directory / "ready").exists, "the job has written")
    driver.send(Suspend((JobKey(1, 1),)))
    driver.expect(Suspended)
    driver.send(Resume((JobKey(1, 1),)))
    driver.expect(Resumed)
    (driver.directory / "go").touch()
    assert driver.ended(1).status == 0
    assert driver.output(1) == "1\n"
    driver.send(Forget((JobKey(1, 1),)))
    is_clean(driver)


def test_nothing_is_left_when_the_supervisor_is_killed(driver: Driver) -> None:
    agent = driver.connect().pid
    driver.start(driver.spec(1, "touch /tmp/it ready; exec sleep 600"))
    until((driver.directory / "ready").exists, "the job runs")
    for word in Path(f"/proc/{agent}/task/{agent}/children").read_text().split():
        os.kill(int(word), signal.SIGKILL)
    assert driver.ended(1).reason == "lost"
    driver.send(Forget((JobKey(1, 1),)))
    is_clean(driver)


def test_the_next_agent_removes_what_the_last_one_was_removing(driver: Driver) -> None:
    agent = driver.connect().pid
    driver.start(driver.spec(1, "touch /tmp/it ready; exec sleep 600"))
    until((driver.directory / "ready").exists, "the job runs")
    folder = shelf(Path(driver.node.state_directory), "/tmp")
    (folder / "gone.7.1.0123" / "deep").mkdir(parents=True)  # as a removal that was killed leaves it
    (folder / "8.1").mkdir()
    os.kill(agent, signal.SIGKILL)
    driver.connect()
    until(lambda: os.listdir(folder) == ["1.1"], "only the job that runs is left")
    assert driver.kill(1).reason == "killed"
    driver.send(Forget((JobKey(1, 1),)))
    is_clean(driver)


def test_deep_trees_and_links_go_and_what_they_point_to_stays(driver: Driver) -> None:
    driver.connect()
    deep = "import os\nos.chdir('/tmp')\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\nos.symlink('/etc', 'x')"
    command = f'ln -s {driver.directory} /tmp/link; python3 -c "{deep}"'
    assert driver.run(driver.spec(1, command)).status == 0
    driver.send(Forget((JobKey(1, 1),)))
    is_clean(driver)
    assert driver.directory.is_dir()
    assert os.listdir("/etc")


def test_a_directory_in_one_that_is_the_jobs_own_is_told(driver: Driver) -> None:
    driver.connect()
    ended = driver.run(driver.spec(1, "true", directory="/tmp/of-the-submission"))
    assert (ended.reason, ended.by_node) == ("WORKING_DIRECTORY", False)
    assert ended.detail == "/tmp/of-the-submission: a job has a /tmp of its own, which is empty"
    assert driver.run(driver.spec(2, "pwd", directory="/tmp")).status == 0


@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_a_user_who_is_in_the_way_is_not_for_long(driver: Driver, kind: str) -> None:
    games = pwd.getpwnam("games")
    place = shelf(Path(driver.node.state_directory), "/tmp")
    kept_file = driver.directory / "elsewhere" / "kept"
    kept_file.parent.mkdir()
    kept_file.touch()
    {"folder": place.mkdir, "link": lambda: place.symlink_to(kept_file.parent), "file": place.touch}[kind]()
    os.chown(place, games.pw_uid, games.pw_gid, follow_symlinks=False)
    driver.connect()
    assert driver.run(driver.spec(1, "touch /tmp/it; ls /tmp")).status == 0
    assert driver.output(1) == "it\n"
    assert kept_file.exists()
    assert (place.lstat().st_uid, stat.S_IMODE(place.lstat().st_mode), place.is_symlink()) == (0, 0o700, False)
    for left in Path("/tmp").glob(f"{place.name}.*"):
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def test_jobs_of_root_see_those_of_the_node(driver: Driver) -> None:
    driver.connect()
    with tempfile.NamedTemporaryFile(dir="/tmp") as outside:
        assert driver.run(driver.spec(1, f"ls {outside.name}", user="root")).status == 0
    assert kept(driver) == []


def test_oarsh_and_oarsrun_share_them_with_their_job_on_each_node_of_a_cluster(
    cluster_database: dict[str, str],
) -> None:
    with (
        ordinary_users("private") as (user,),
        passable_folder("oarpy-own-") as own,
        passable_folder("oarpy-home-") as home,
        run_cluster(cluster_database, nodes={"private_directories": [str(own)]}) as cluster,
    ):
        own.chmod(0o1777)
        os.chown(home, user.pw_uid, user.pw_gid)
        here = f"set -- $(uniq $OAR_NODEFILE); mkdir {own}/$1; ls -A {own}; "
        there = f"oarsh $2 mkdir {own}/$2; oarsh $2 ls -A {own}; oarsh $1 ls -A {own}; "
        each = f"oarsrun ls -A {own} | sort -u"
        words = ["-l", "/nodes=2,walltime=0:5:0", "-O", f"{home}/out", "-E", f"{home}/err", here + there + each]
        done = subprocess.run(
            user_command(user.pw_uid, "oarsub", *words),
            env={
                "PATH": os.defpath,
                "PYTHONPATH": str(ROOT),
                "OARPY_GATEWAY_SOCKET": str(cluster.sandbox.directory / "gateway" / "socket"),
            },
            capture_output=True,
            text=True,
            cwd=home,
            check=False,
        )
        assert done.returncode == 0, done
        cluster.wait_for(int(done.stdout.rpartition("OAR_JOB_ID=")[2].split()[0]), "Terminated")
        assert (home / "err").read_text() == ""
        said = (home / "out").read_text().splitlines()
        assert said[:6] == ["node1", "runtime", "node2", "runtime", "node1", "runtime"]
        assert said[6:] == ["node1: node1", "node1: runtime", "node2: node2", "node2: runtime"]
        until(lambda: not list(own.glob(".oarpy-*/*")), lambda: f"left: {list(own.glob('.oarpy-*/*'))}")
