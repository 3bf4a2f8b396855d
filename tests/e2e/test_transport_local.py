"""The agent behind a pipe: what a job gets, how it ends, and that nothing of it is left."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import pwd
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oarpy.transport.inbox import Inbox
from oarpy.transport.local import LocalTransport
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import (
    APPLICATION_DONE,
    AgentError,
    ChangeWalltime,
    ChannelLost,
    Check,
    Checked,
    Clean,
    Cleaned,
    Ended,
    Forget,
    Kill,
    Ping,
    Pong,
    Resume,
    Resumed,
    Signal,
    Suspend,
    Suspended,
)
from research.benchmarks.server_processes import is_running
from tests.harness.transport_conformance import FIRST, Conformance
from tests.harness.transport_driver import Driver, is_stopped, local_driver
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with local_driver(tmp_path) as made:
        yield made


class TestLocalTransport(Conformance):
    def unreachable(self, driver: Driver) -> NodeAddress:
        return replace(driver.node, name="broken", python="/no/such/python3")


def test_a_script_runs_as_it_was_submitted(driver: Driver) -> None:
    """Its file is run where it is the same; a copy where it has changed or is gone, which the job's errors say."""
    driver.connect()
    script = driver.directory / "job.sh"
    text = '#!/bin/sh -e\necho kept "$1 $(basename "$0")"\nfalse\necho never\n'
    script.write_text(text)
    script.chmod(0o755)
    asked = driver.spec(1, "./job.sh 'a b' 2>&1 | cat; echo behind", script=text)
    driver.run(asked)
    assert driver.output(1) == "kept a b job.sh\nbehind\n"
    script.write_text("#!/bin/sh\necho another\n")
    driver.run(driver.spec(2, asked.command, script=text))
    assert driver.output(2) == "kept a b 2.1.script\nbehind\n"
    told = "## oarpy: ./job.sh has changed: the job runs it as it was submitted\n"
    assert (driver.directory / "err.2").read_text() == told
    script.unlink()
    driver.run(driver.spec(3, "./job.sh", script=text))
    assert driver.output(3) == "kept  3.1.script\n"


def test_a_broken_python_is_named(driver: Driver) -> None:
    driver.transport.connect(replace(driver.node, python="/bin/false"))
    assert driver.expect(ChannelLost).reason == "the agent ended with status 1"


def test_an_unusable_state_directory_is_named(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    driver.transport.connect(replace(driver.node, state_directory=str(tmp_path / "file" / "state")))
    assert driver.expect(ChannelLost).reason == f"state directory {tmp_path}/file/state: Not a directory"


@pytest.mark.parametrize(
    ("walltime", "reason"),
    [(1, "its walltime was over"), (600, "oardel by ann"), (600, "its GPUs were idle for 1:0:0")],
)
def test_a_killed_job_finds_why_in_its_errors(driver: Driver, walltime: int, reason: str) -> None:
    driver.connect()
    driver.start(driver.spec(7, "echo begun >&2; trap '' TERM; while :; do sleep 0.1; done", walltime=walltime))
    driver.started(7)
    errors = driver.directory / "err.7"
    until(lambda: errors.exists() and errors.read_text() == "begun\n", "the job has begun")
    if walltime > 1:
        driver.send(Kill((JobKey(7, 1),), None, reason))
    driver.ended(7)
    first, line = errors.read_text().splitlines()
    assert re.fullmatch(rf"## OAR \[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\] Job 7 KILLED ## {reason}", line)
    assert driver.run(driver.spec(8, "echo own >&2")).status == 0
    assert (driver.directory / "err.8").read_text() == "own\n"
    assert first == "begun"


def test_a_job_whose_application_is_done_is_ended_without_a_word(driver: Driver) -> None:
    driver.connect()
    driver.start(driver.spec(7, "echo begun >&2; exec sleep 600"))
    driver.started(7)
    driver.send(Kill((JobKey(7, 1),), None, APPLICATION_DONE))
    assert driver.ended(7).reason == "killed"
    assert (driver.directory / "err.7").read_text() == "begun\n"


def test_environment_and_files_of_a_job(driver: Driver) -> None:
    driver.connect()
    spec = driver.spec(
        7,
        "env -0 > environment; cat $OAR_NODEFILE > nodes; cat $OAR_RESOURCE_PROPERTIES_FILE > properties;"
        "pwd; echo x >&2",
        name="my job",
        project="climate",
        array_id=5,
        array_index=3,
        environment={"SHLVL": "7", "LANG": "C", "ODD": "a\nb=c", "BYTES": "\udcff", "OAR_JOB_ID": "1", "SAME": "old"},
        variables={"CUDA_VISIBLE_DEVICES": "0,1", "SAME": "new"},
        nodes=("node1", "node1", "node2"),
        resources=(" core = '1' , host = 'node1' ",),
        walltime=5400,
    )
    assert driver.run(spec).status == 0
    work = driver.directory
    content = (work / "environment").read_bytes().split(b"\0")
    environment = dict(entry.decode(errors="surrogateescape").split("=", 1) for entry in content if entry)
    state = driver.node.state_directory
    expected = {
        "OAR_JOB_ID": "7",
        "OAR_JOBID": "7",
        "OAR_ARRAY_ID": "5",
        "OAR_ARRAYID": "5",
        "OAR_ARRAY_INDEX": "3",
        "OAR_ARRAYINDEX": "3",
        "OAR_JOB_NAME": "my job",
        "OAR_PROJECT_NAME": "climate",
        "OAR_USER": driver.user,
        "OAR_JOB_WALLTIME": "1:30:0",
        "OAR_JOB_WALLTIME_SECONDS": "5400",
        "OAR_WORKDIR": str(work),
        "OAR_O_WORKDIR": str(work),
        "OAR_WORKING_DIRECTORY": str(work),
        "OAR_STDOUT": f"{work}/out.7",
        "OAR_STDERR": f"{work}/err.7",
        "OAR_NODEFILE": f"{state}/files/7.1.nodes",
        "OAR_NODE_FILE": f"{state}/files/7.1.nodes",
        "OAR_FILE_NODES": f"{state}/files/7.1.nodes",
        "OAR_RESOURCE_FILE": f"{state}/files/7.1.nodes",
        "OAR_RESOURCE_PROPERTIES_FILE": f"{state}/files/7.1.properties",
        "OARPY_JOB": f"{driver.instance}/7/1",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "SAME": "new",
        "LANG": "C",
        "ODD": "a\nb=c",
        "BYTES": "\udcff",
        "SUDO_COMMAND": "OAR",
        "USER": driver.user,
    }
    assert {name: environment.get(name) for name in expected} == expected
    assert environment.get("SHLVL", "0") in ("0", "1")
    assert "PYTHONPATH" not in environment
    assert (work / "nodes").read_text() == "node1\nnode1\nnode2\n"
    assert (work / "properties").read_text() == " core = '1' , host = 'node1' \n"
    assert driver.output(7) == f"{work}\n"
    assert (work / "err.7").read_text() == "x\n"
    driver.send(Forget((JobKey(7, 1),)))
    until(lambda: not os.listdir(f"{state}/files") and not os.listdir(f"{state}/jobs"), "state removed")


def test_output_is_appended_and_may_be_one_file(driver: Driver) -> None:
    driver.connect()
    (driver.directory / "both").write_text("before\n")
    driver.run(driver.spec(1, "echo out; echo err >&2", stdout="both", stderr="both"))
    assert (driver.directory / "both").read_text() == "before\nout\nerr\n"
    assert driver.run(driver.spec(2, "echo to nowhere", stdout="", stderr="")).status == 0


def test_the_command_does_not_inherit_signals_or_descriptors(driver: Driver) -> None:
    driver.connect()
    driver.run(
        driver.spec(1, "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | tr '\\n' ' '", shell="/bin/bash")
    )
    lines = driver.output(1).splitlines()
    numbers = {number for line in lines[:2] for number in range(1, 65) if int(line.split()[1], 16) >> (number - 1) & 1}
    assert numbers & set(signal.valid_signals()) == set()
    assert lines[2].split() in (["0", "1", "2", "3"], ["0", "1", "2"])


def test_a_login_shell_only_when_asked(driver: Driver) -> None:
    driver.connect()
    shell: dict[str, object] = {"shell": "/bin/bash", "environment": {"HOME": str(driver.directory)}}
    driver.run(driver.spec(1, "echo $0; shopt -q login_shell && echo login", **shell))
    driver.run(driver.spec(2, "echo $0; shopt -q login_shell && echo login", login_shell=True, **shell))
    assert (driver.output(1), driver.output(2)) == ("bash\n", "-bash\nlogin\n")


def test_a_program_without_anything_for_a_shell_runs_as_in_one(driver: Driver) -> None:
    driver.connect()
    script = driver.directory / "script"
    script.write_text("echo $0 $1\n")  # no first line that names an interpreter: the shell itself runs it
    script.chmod(0o755)
    assert driver.run(driver.spec(1, "./script one")).status == 0
    assert driver.output(1) == "./script one\n"
    assert driver.run(driver.spec(2, "printenv OAR_JOB_ID PWD _")).status == 0
    assert driver.output(2).splitlines()[:2] == ["2", str(driver.directory)]
    assert os.path.basename(driver.output(2).splitlines()[2]) == "printenv"
    assert driver.run(driver.spec(3, "no-such-program")).status == 127 << 8
    assert driver.run(driver.spec(4, str(driver.directory))).status == 126 << 8


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"directory": "/no/such/directory"}, "WORKING_DIRECTORY"),
        ({"directory": "/etc/passwd"}, "WORKING_DIRECTORY"),
        ({"stdout": "no/such/file"}, "OUTPUT_FILES"),
        ({"stderr": "/proc/nothing"}, "OUTPUT_FILES"),
        ({"shell": "/no/such/shell"}, "USER_SHELL"),
        ({"command": "x" * 200_000}, "USER_SHELL"),
    ],
)
def test_what_keeps_a_command_from_running_is_named(driver: Driver, changes: dict[str, str], reason: str) -> None:
    driver.connect()
    ended = driver.run(driver.spec(1, **{"command": "exit 0", **changes}))
    assert (ended.reason, ended.status, ended.left) == (reason, None, 0)
    assert ended.detail
    assert driver.run(driver.spec(2, "exit 0")).status == 0


def test_an_unknown_user_is_refused_and_may_be_tried_again(driver: Driver) -> None:
    driver.connect()
    driver.start(driver.spec(1, "exit 0", user="no-such-user"))
    refused = driver.refused(1)
    assert refused.reason == "NO_SUCH_USER"
    assert "no-such-user" in refused.detail
    assert driver.run(driver.spec(1, "exit 0")).status == 0


def test_a_killed_command_reports_its_signal(driver: Driver) -> None:
    driver.connect()
    ended = driver.run(driver.spec(1, "kill -SEGV $$"))
    assert ended.reason == "exited"
    assert os.WTERMSIG(ended.status or 0) == signal.SIGSEGV


def test_the_walltime_ends_a_job_that_ignores_term(driver: Driver) -> None:
    driver.connect()
    ended = driver.run(driver.spec(1, "trap '' TERM; sleep 600 & sleep 600; sleep 600", walltime=1, kill_grace=0.2))
    assert ended.reason == "walltime"
    assert ended.end - (ended.start or 0) >= 1.2
    assert driver.processes(1) == []


def test_a_job_may_clean_up_within_its_grace(driver: Driver) -> None:
    driver.connect()
    program = "import signal, sys, time\nsignal.signal(15, lambda *_: (time.sleep(0.3), print('saved'), sys.exit()))\n"
    (driver.directory / "program.py").write_text(program + "print('ready', flush=True)\ntime.sleep(600)\n")
    driver.start(driver.spec(1, "python3 program.py; true", kill_grace=20.0))
    until(lambda: (driver.directory / "out.1").exists() and driver.output(1) == "ready\n", "program runs")
    ended = driver.kill(1)
    assert ended.reason == "killed"
    assert driver.output(1) == "ready\nsaved\n"


def test_kill_with_a_shorter_grace(driver: Driver) -> None:
    driver.connect()
    driver.start(driver.spec(1, "trap '' TERM; echo; while :; do sleep 600; done", kill_grace=3600.0))
    until(lambda: (driver.directory / "out.1").exists() and driver.output(1) == "\n", "trap set")
    assert driver.kill(1, grace=0).reason == "killed"
    assert driver.processes(1) == []


DAEMONS = """
import os, sys, time
for number in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.closerange(0, 3)
        import signal
        for ignored in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(ignored, signal.SIG_IGN)
        if number % 2:
            os.execvpe("sleep", ["sleep", sys.argv[1]], {})
        time.sleep(600)
        os._exit(0)
print("done", flush=True)
"""


def test_daemons_of_a_job_die_with_it(driver: Driver) -> None:
    (driver.directory / "daemons.py").write_text(DAEMONS)
    driver.connect()
    span = f"600.{os.getpid()}"  # nobody else on this machine sleeps that long
    ended = driver.run(driver.spec(1, f"python3 daemons.py {span}; exit 4"))
    assert (ended.status, ended.left) == (4 << 8, 0)
    assert driver.processes(1) == []
    assert _sleepers(span) == []


def _sleepers(span: str) -> list[str]:
    pattern = "sleep " + span.replace(".", r"\.")
    return subprocess.run(["pgrep", "-f", "-x", pattern], capture_output=True, text=True, check=False).stdout.split()


STORM = """
import os, time
for _ in range(6):
    os.fork()
open("storm", "a").write("x")
while True:
    if os.fork():
        time.sleep(0.01)
        os._exit(0)
"""


def test_a_fork_storm_is_put_down(driver: Driver) -> None:
    driver.connect()
    (driver.directory / "storm.py").write_text(STORM)
    driver.start(driver.spec(1, "python3 storm.py & wait; sleep 600"))
    path = driver.directory / "storm"
    until(lambda: path.exists() and path.stat().st_size >= 32, "the storm rages")
    ended = driver.kill(1, grace=0)
    assert (ended.reason, ended.left) == ("killed", 0)
    assert driver.processes(1) == []


def stands_still(driver: Driver) -> bool:
    """Whether job 1 has processes, and all are stopped."""
    pids = driver.processes(1)
    return bool(pids) and all(map(is_stopped, pids))


def test_suspended_jobs_stand_still_and_their_walltime_too(driver: Driver) -> None:
    driver.connect()
    driver.start(driver.spec(1, "until [ -e go ]; do sleep 0.05; done; echo ended", walltime=3))
    driver.started(1)
    driver.send(Suspend((FIRST,)))
    suspended = driver.expect(Suspended)
    (driver.directory / "go").touch()
    until(lambda: stands_still(driver), "every process of the job is stopped")
    until(lambda: time.time() > suspended.at + 3.5, "more than the walltime passes")
    driver.send(Resume((FIRST,)))
    assert driver.expect(Resumed).at - suspended.at >= 3.5
    assert driver.ended(1).reason == "exited"
    assert driver.output(1) == "ended\n"


def test_the_walltime_can_be_changed(driver: Driver) -> None:
    driver.connect()
    driver.start(driver.spec(1, "sleep 600"))
    driver.started(1)
    driver.send(ChangeWalltime((FIRST,), 1))
    assert driver.ended(1).reason == "walltime"


TRAP = "trap 'echo caught >> signals' USR2; echo ready; while [ ! -e signals ]; do sleep 0.02; done; exit 9"


def test_the_checkpoint_signal_comes_before_the_end(driver: Driver) -> None:
    driver.connect()
    ended = driver.run(driver.spec(1, TRAP, walltime=30, checkpoint=29, checkpoint_signal=signal.SIGUSR2))
    assert (ended.reason, ended.status) == ("exited", 9 << 8)


def test_a_signal_spares_the_shell_around_the_program(driver: Driver) -> None:
    driver.connect()
    (driver.directory / "program.sh").write_text(f"#!/bin/sh\n{TRAP}\n")
    driver.start(driver.spec(1, "sh program.sh; echo $? > status; exit 1"))
    until(lambda: (driver.directory / "out.1").exists() and driver.output(1) == "ready\n", "trap set")
    driver.send(Signal((FIRST,), signal.SIGUSR2))
    assert driver.ended(1).status == 1 << 8
    assert (driver.directory / "status").read_text() == "9\n"


def test_clean_kills_what_carries_the_mark_and_nothing_else(driver: Driver) -> None:
    driver.connect()
    mark = f"{driver.instance}/1/1"
    ignoring = "trap '' TERM HUP; echo; sleep 600; sleep 600"
    victims = [_bystander(ignoring, mark) for _ in range(3)]
    others = [_bystander("echo; sleep 600", value) for value in (f"{driver.instance}/1/10", f"{driver.instance}/1", "")]
    try:
        driver.send(Clean((FIRST, JobKey(2, 1))))
        cleaned = driver.expect(Cleaned)
        assert (cleaned.key, cleaned.left) == (FIRST, 0)
        assert cleaned.killed >= len(victims)
        assert [process.wait(10) for process in victims] == [-signal.SIGKILL] * 3
        assert [process.poll() for process in others] == [None] * 3
    finally:
        for process in victims + others:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert driver.processes(1) == []


def _bystander(command: str, mark: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OARPY_JOB": mark}
    process = subprocess.Popen(["sh", "-c", command], env=environment, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    return process


def test_an_agent_that_carries_the_mark_itself_survives_a_clean(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_JOB", f"{driver.instance}/1/1")
    driver.connect()
    driver.start(driver.spec(2, "sleep 600"))
    driver.started(2)
    driver.send(Clean((FIRST,)))
    assert driver.expect(Cleaned) == Cleaned(FIRST, 0, 0)
    assert driver.kill(2).reason == "killed"


GARBAGE = [
    b"",
    b"   ",
    b"nonsense",
    b"\xff\xfe\x00\x01",
    b"{}",
    b"[]",
    b"null",
    b'{"type":"unheard"}',
    b'{"type":["start"]}',
    b'{"type":"start"}',
    b'{"type":"start","incarnation":"","jobs":[{}]}',
    b'{"type":"start","incarnation":"","jobs":{"shared":{},"each":[1]}}',
    b'{"type":"start","incarnation":"","jobs":{"shared":{},"each":[{"job":"1"}]}}',
    b'{"type":"start","incarnation":"","jobs":{"shared":{},"each":[{"surprise":1}]}}',
    b'{"type":"start","incarnation":"","jobs":{"shared":7,"each":[]}}',
    b'{"type":"kill","grace":null,"jobs":7}',
    b'{"type":"kill","grace":null,"jobs":[[1]]}',
    b'{"type":"kill","grace":null,"jobs":[[-1,1]]}',
    b'{"type":"kill","grace":null,"jobs":[[true,1]]}',
    b'{"type":"kill","grace":null,"jobs":[[1e400,1]]}',
    b'{"type":"kill","grace":null,"jobs":[["../../etc",1]]}',
    b'{"type":"signal","jobs":[[1,1]],"signal":0}',
    b'{"type":"signal","jobs":[[1,1]],"signal":999}',
    b'{"type":"walltime","jobs":[[1,1]],"seconds":-5}',
    b'{"type":"ping"}',
    b'{"type":"ping","token":"' + b"x" * 1000 + b'"}',
    b"[" * 100_000,
    b'{"type":"ping","token":' + b"9" * 5000 + b"}",
]


def test_garbage_is_answered_by_one_error_each(driver: Driver) -> None:
    driver.connect()
    channel = driver.transport._channels["node1"]  # type: ignore[attr-defined]  # no typed command can be malformed
    for line in GARBAGE:
        channel._outgoing.put(line + b"\n")
    driver.send(Ping("still there"))
    driver.expect(Pong)
    errors = [report for _, report in driver.log if isinstance(report, AgentError)]
    assert len(errors) == len([line for line in GARBAGE if line.strip()])
    assert all("\n" not in error.detail and len(error.detail) < 300 for error in errors)
    assert os.listdir(Path(driver.node.state_directory) / "jobs") == []
    assert driver.run(driver.spec(1, "exit 0")).status == 0


def _other_pythons() -> list[str]:
    """The interpreters from 3.9 on that this machine has beside the one of the tests."""
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    places = [Path("/usr/bin"), Path("/usr/local/bin"), *home.glob(".pyenv/versions/*/bin")]
    found = (place / f"python3.{minor}" for place in places for minor in range(9, 15))
    return sorted({str(path.resolve()) for path in found if os.access(path, os.X_OK)})


@pytest.mark.parametrize("python", _other_pythons())
def test_the_agent_runs_on_other_versions_of_python(driver: Driver, python: str) -> None:
    driver.node = replace(driver.node, python=python)
    driver.connect()
    driver.start(driver.spec(1, "(setsid sleep 600 &); exit 3", nodes=("node1",)), driver.spec(2, "sleep 600"))
    assert driver.ended(1).status == 3 << 8
    assert driver.processes(1) == []
    assert driver.kill(2).reason == "killed"
    driver.start(driver.spec(3, "exit 0", directory="/no/such/directory"), driver.spec(4, "sleep 600", walltime=1))
    assert driver.ended(3).reason == "WORKING_DIRECTORY"
    assert driver.ended(4).reason == "walltime"
    driver.send(Forget((FIRST,)))
    driver.start(driver.spec(1, "exit 0"))
    assert driver.refused(1).reason == "FORGOTTEN"


def test_large_jobs_pass(driver: Driver) -> None:
    driver.connect()
    nodes = tuple(f"a-node-with-quite-a-long-name-{number}" for number in range(20_000))
    specs = [driver.spec(job, "wc -l < $OAR_NODEFILE", nodes=nodes) for job in (1, 2)]
    driver.start(*specs)
    assert {driver.expect(Ended).status for _ in specs} == {0}
    assert driver.output(1).split() == ["20000"]


def test_pings_keep_a_channel_and_silence_loses_it(tmp_path: Path) -> None:
    inbox = Inbox()
    config = ChannelConfig(instance=tmp_path.name, connect_timeout=5.0, ping_period=0.05, silence_timeout=1.0)
    transport = LocalTransport(inbox, config)
    driver = Driver(
        transport, NodeAddress("node1", str(tmp_path / "state")), tmp_path, tmp_path.name, getpass.getuser()
    )
    try:
        ready = driver.connect()
        os.kill(ready.pid, signal.SIGSTOP)
        assert driver.expect(ChannelLost).reason == "no answer for 1 s"
        assert not transport.connected("node1")
        until(lambda: not is_running(ready.pid), "the silent agent is ended")
        driver.connect()
        assert driver.run(driver.spec(1, "exit 0")).status == 0
        assert not [report for _, report in driver.log if isinstance(report, Pong)]
    finally:
        transport.close()
        inbox.close()


def test_closing_ends_the_agents_and_not_the_jobs(driver: Driver) -> None:
    ready = driver.connect()
    driver.start(driver.spec(1, "sleep 600"))
    driver.started(1)
    driver.transport.disconnect("node1")
    until(lambda: not is_running(ready.pid), "the agent ended")
    assert driver.processes(1)
    driver.connect()
    driver.kill(1)
    assert driver.processes(1) == []


def test_records_are_json_lines(driver: Driver) -> None:
    driver.connect()
    driver.run(driver.spec(1, "exit 0"))
    path = Path(driver.node.state_directory) / "jobs" / "1.1"
    events = [json.loads(line)["event"] for line in path.read_text().splitlines() if line]
    assert events == ["started", "ended"]
    assert path.stat().st_mode & 0o077 == 0


def test_a_node_that_cannot_write_its_directory_refuses_and_says_when_it_can(driver: Driver) -> None:
    driver.connect()
    jobs, away = Path(driver.node.state_directory) / "jobs", driver.directory / "away"
    jobs.rename(away)
    driver.start(driver.spec(1, "echo ran"))
    refused = driver.refused(1)
    assert refused.reason == "STATE_DIRECTORY"
    assert "No such file or directory" in refused.detail
    driver.send(Check())
    assert "jobs: No such file or directory" in driver.expect(Checked).problem
    away.rename(jobs)
    driver.send(Check())
    assert driver.expect(Checked).problem == ""
    assert list(jobs.iterdir()) == []
    assert driver.run(driver.spec(1, "echo ran")).status == 0
    assert driver.output(1) == "ran\n"
