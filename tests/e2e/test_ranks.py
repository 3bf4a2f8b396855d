"""``oarsrun -n``: ranks over the cores of a job's nodes, from inside the job and from outside, for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from oarpy.frontend.ranks.links import packed
from oarpy.local_cluster.sandbox import Sandbox, Settings, command, local_nodes, running_sandbox
from research.benchmarks.server_processes import is_running

pytestmark = pytest.mark.e2e
DEADLINE = 60.0
NODE_COMMAND = '"$OARPY_NODE"/bin/oarsrun'
NUMBERS = "echo $OAR_STEP_RANK of $OAR_STEP_SIZE, $OAR_STEP_LOCAL_RANK of $OAR_STEP_LOCAL_SIZE here"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cluster_database: dict[str, str]) -> Iterator[Sandbox]:
    nodes = local_nodes("/host=n[1-2]/cpu={1}/core={2}")
    settings: Settings = {"jobs": {"kill_grace": 1.0}, "database": cluster_database}
    with running_sandbox(tmp_path_factory.mktemp("ranks"), settings, nodes) as made:
        yield made


@pytest.fixture(scope="module")
def job(cluster: Sandbox) -> str:
    (found,) = cluster.job_ids("-l", "/nodes=2/core=2", "sleep 600")
    cluster.wait_for([found], ["Running"], DEADLINE)
    return str(found)


def inside(cluster: Sandbox, job: str, script: str) -> list[str]:
    """Return the words with which a script runs in a job, on its first node."""
    return [command("oarsh"), "-j", job, "n1", script]


def done(cluster: Sandbox, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does."""
    return subprocess.run(
        words, capture_output=True, env=cluster.environment(), text=True, timeout=DEADLINE, check=False
    )


def oarsrun(cluster: Sandbox, job: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it from outside the job."""
    return done(cluster, [command("oarsrun"), "-j", job, *words])


def test_ranks_in_blocks_over_the_nodes(cluster: Sandbox, job: str) -> None:
    seen = [f"n1.{rank}: {rank} of 4, {rank} of 2 here" for rank in (0, 1)]
    seen += [f"n2.{rank}: {rank} of 4, {rank - 2} of 2 here" for rank in (2, 3)]
    for found in (
        oarsrun(cluster, job, "-n", "4", NUMBERS),
        done(cluster, inside(cluster, job, f"{NODE_COMMAND} -n 4 '{NUMBERS}'")),
        done(cluster, inside(cluster, job, f"{command('oarsrun')} -n4 sh -c '{NUMBERS}'")),
    ):
        assert (found.returncode, found.stderr) == (0, "")
        assert sorted(found.stdout.splitlines()) == seen


def test_cores_of_each_rank_and_ranks_of_each_node(cluster: Sandbox, job: str) -> None:
    show = 'echo $OAR_STEP_CPUS; python3 -c "import os; print(*sorted(os.sched_getaffinity(0)))"'
    pinned = oarsrun(cluster, job, "-n", "4", "--no-prefix", show)
    assert sorted(pinned.stdout.splitlines()) == ["0", "0", *["1"] * 6], pinned
    wide = oarsrun(cluster, job, "-n", "2", "--cpus-per-task", "2", show)
    lines = ["n1.0: 0 1", "n1.0: 2", "n2.1: 0 1", "n2.1: 2"]
    assert sorted(wide.stdout.splitlines()) == lines, wide
    spread = oarsrun(cluster, job, "-n", "2", "--ntasks-per-node", "1", "echo here")
    assert sorted(spread.stdout.splitlines()) == ["n1.0: here", "n2.1: here"]
    again = oarsrun(cluster, job, "-n", "5", "--overcommit", "echo here")
    assert sorted(again.stdout.splitlines()) == [f"n1.{rank}: here" for rank in (0, 1, 4)] + [
        "n2.2: here",
        "n2.3: here",
    ]
    packed = oarsrun(cluster, job, "-n", "6", "--ntasks-per-node", "3", "--overcommit", "echo here")
    assert sorted(packed.stdout.splitlines()) == [f"n{1 + rank // 3}.{rank}: here" for rank in range(6)]


def test_steps_at_the_same_time_take_the_cores_that_are_used_least(cluster: Sandbox, job: str) -> None:
    script = f"""cd {cluster.directory}/work
{NODE_COMMAND} -n 2 'touch up$OAR_STEP_RANK; until test -e go; do sleep 0.1; done; echo one' &
{NODE_COMMAND} -n 2 'until test -e up0 && test -e up1; do sleep 0.1; done; echo here'
touch go; wait"""
    found = done(cluster, inside(cluster, job, script))
    first, second = [[line for line in found.stdout.splitlines() if line.endswith(end)] for end in ("one", "here")]
    assert {line.partition(".")[0] for line in first + second} == {"n1", "n2"}, found
    assert len(first) == len(second) == 2
    assert {line.partition(".")[0] for line in first}.isdisjoint(line.partition(".")[0] for line in second)


def test_the_first_rank_that_fails_ends_the_others(cluster: Sandbox, job: str) -> None:
    script = "test $OAR_STEP_RANK = 3 && exit 7; trap '' HUP; trap 'echo told; exit 0' TERM; echo up; sleep 600 & wait"
    failed = oarsrun(cluster, job, "-J", "-n", "4", script)
    assert failed.returncode == 7, failed
    report = json.loads(failed.stdout)
    assert (report["job_id"], report["status"]) == (int(job), 7)
    assert [process["status"] == 7 for process in report["processes"]] == [False, False, False, True]
    assert [(process["rank"], process["host"]) for process in report["processes"]] == [
        (rank, f"n{1 + rank // 2}") for rank in range(4)
    ]
    stubborn = oarsrun(cluster, job, "-n", "2", "test $OAR_STEP_RANK = 1 && kill -9 $$; trap '' TERM; sleep 600")
    assert stubborn.returncode == 137


def test_what_cannot_be_is_refused_in_a_line(cluster: Sandbox, job: str) -> None:
    calls: list[str] = []
    lines: list[tuple[str, str]] = []
    for words, status, what in (
        (("-n", "0", "true"), 2, "-n '0' is out of range"),
        (("-n", "2", "--cpus-per-task", "no", "true"), 2, "--cpus-per-task 'no'"),
        (("--ntasks-per-node", "1", "true"), 2, "--ntasks-per-node without -n"),
        (("-n", "2", " "), 2, "no command"),
        (("-n", "5", "true"), 3, "-n 5: the job has room for 4 processes (fewer, or --overcommit)"),
        (("-n", "3", "--cpus-per-task", "2", "true"), 3, "-n 3: the job has room for 2 processes of 2 cores"),
        (("-n", "3", "--ntasks-per-node", "1", "true"), 3, "-n 3: the job has room for 2 processes"),
        (("-n", "1", "--cpus-per-task", "3", "true"), 3, "--cpus-per-task 3: no node of the job has more than 2 cores"),
    ):
        calls.append(f"{NODE_COMMAND} " + " ".join(f"'{word}'" for word in words) + "; echo $?")
        lines.append((what, str(status)))
    found = done(cluster, inside(cluster, job, "\n".join(calls)))
    for (what, expected), told, line in zip(lines, found.stdout.split(), found.stderr.splitlines(), strict=True):
        assert (told, line.startswith(f"oarsrun: {what}")) == (expected, True), (what, line)
    outside = oarsrun(cluster, job, "-n", "5", "true")
    assert (outside.returncode, outside.stderr.startswith("oarsrun: -n 5: ")) == (3, True)
    missing = oarsrun(cluster, job, "-n", "1", "/no/such/program", "x")
    assert (missing.returncode, missing.stderr) == (
        127,
        "oarsrun: n1.0: /no/such/program: No such file or directory\n",
    )


def test_prterun_starts_programs_that_ask_by_pmix(cluster: Sandbox, job: str) -> None:
    script = f"""cd {cluster.directory}/work
printf '#!/bin/sh\\necho "$*"\\n' > prterun; chmod +x prterun; here=$PWD
PATH=/nowhere {NODE_COMMAND} -n 2 --pmix ./a.out; echo $?
PATH=$here {NODE_COMMAND} -n 2 --pmix --ntasks-per-node 1 ./a.out x; echo $?
"""
    found = done(cluster, inside(cluster, job, script))
    refused, called, status = found.stdout.splitlines()
    assert found.stderr == "oarsrun: --pmix needs prterun, which this node has not (programs of MPICH need no --pmix)\n"
    assert (refused, status, called.partition(" -n ")[2]) == (
        "1",
        "0",
        "2 --map-by ppr:1:node:pe=1 --output tag ./a.out x",
    )


def test_much_output_waits_for_its_reader(cluster: Sandbox, job: str) -> None:
    count = done(
        cluster, inside(cluster, job, f"{NODE_COMMAND} -n 4 --no-prefix 'seq 300000' | (sleep 1; sort -u) | wc -l")
    )
    assert count.stdout.split() == ["300000"], count
    head = done(cluster, inside(cluster, job, f"{NODE_COMMAND} -n 2 --no-prefix 'yes' | head -n 1; echo done"))
    assert head.stdout.split() == ["y", "done"]


def signalled(cluster: Sandbox, job: str, number: int, script: str) -> tuple[int, list[str]]:
    """Signal a call when its four ranks are up; return its status and its output."""
    process = subprocess.Popen(
        inside(cluster, job, f'echo $$; exec {NODE_COMMAND} -n 4 --no-prefix "{script}"'),
        stdout=subprocess.PIPE,
        env=cluster.environment(),
        text=True,
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    ups = [process.stdout.readline() for _ in range(4)]
    assert ups == ["up\n"] * 4
    os.kill(pid, number)
    rest = process.stdout.read().splitlines()
    process.stdout.close()
    return process.wait(DEADLINE), rest


def test_signals_reach_all_ranks(cluster: Sandbox, job: str) -> None:
    script = "trap 'echo told; exit 0' USR1 INT; echo up; while :; do sleep 0.1; done"
    for number in (signal.SIGUSR1, signal.SIGINT):
        assert signalled(cluster, job, number, script) == (0, ["told"] * 4)
    status, _ = signalled(cluster, job, signal.SIGTERM, "echo up; while :; do sleep 0.1; done")
    assert status == 128 + signal.SIGTERM


def test_ranks_end_with_the_command(cluster: Sandbox, job: str) -> None:
    process = subprocess.Popen(
        [
            command("oarsrun"),
            "-j",
            job,
            "-n",
            "4",
            "--no-prefix",
            "trap '' HUP TERM; echo $$; while :; do sleep 0.2; done",
        ],
        stdout=subprocess.PIPE,
        env=cluster.environment(),
        text=True,
    )
    assert process.stdout is not None
    pids = [int(process.stdout.readline()) for _ in range(4)]
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 130
    process.stdout.close()
    end = time.monotonic() + DEADLINE
    while any(map(is_running, pids)):
        assert time.monotonic() < end, "they run on"
        time.sleep(0.1)


def test_a_signal_to_the_whole_job_comes_once(cluster: Sandbox, job: str) -> None:
    cluster.run("oardel", job)
    work = Path(cluster.directory, "work")
    rank = "trap 'echo told' USR1; trap 'echo end; exit 0' USR2; touch ready$OAR_STEP_RANK; while :; do sleep 0.1; done"
    program = work / "signalled.sh"
    program.write_text(
        f'#!/bin/sh\ntrap : USR1 USR2\ncd {work}\n{NODE_COMMAND} -n 2 --no-prefix "{rank}" > told\n'.replace(
            "$OAR_STEP", "\\$OAR_STEP"
        )
    )
    program.chmod(0o755)
    (found,) = cluster.job_ids("-l", "/nodes=2/core=2", str(program))
    end = time.monotonic() + DEADLINE
    while not all((work / f"ready{number}").exists() for number in range(2)):
        assert time.monotonic() < end, "the ranks do not start"
        time.sleep(0.1)
    cluster.run("oardel", "-s", "USR1", str(found))
    while (work / "told").read_text().count("told") < 2:
        assert time.monotonic() < end, "the ranks are not told"
        time.sleep(0.1)
    cluster.run("oardel", "-s", "USR2", str(found))
    cluster.wait_for([found], ["Terminated"], DEADLINE)
    assert sorted((work / "told").read_text().split()) == ["end", "end", "told", "told"]


def test_in_the_script_of_a_job(cluster: Sandbox) -> None:
    script = "cd work; export WORD=said; oarsrun -n 2 'echo $WORD by $OAR_STEP_RANK' > out; oarsrun -n 1 pwd >> out"
    (found,) = cluster.job_ids("-l", "/nodes=2/core=2", "-d", str(cluster.directory), script)
    cluster.wait_for([found], ["Terminated"], DEADLINE)
    lines = Path(cluster.directory, "work", "out").read_text().splitlines()
    assert sorted(lines) == sorted(["n1.0: said by 0", "n1.1: said by 1", f"n1.0: {cluster.directory}/work"])


_INTRUDER = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(b"\\0" + bytes.fromhex(sys.argv[1]))
try:
    connection.sendall(bytes.fromhex(sys.argv[2]))
    print(len(connection.recv(1)))
except OSError:
    print(0)
"""


def names_of_holders(sockets: bytes | None = None) -> set[bytes]:
    """Return the names by which the holders on this machine are found; ``sockets`` is a list of the kernel's."""
    lines = (Path("/proc/net/unix").read_bytes() if sockets is None else sockets).splitlines()
    return {line.partition(b"@")[2] for line in lines if b"@oarpy-ranks" in line}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_of_the_node_is_not_heard(cluster: Sandbox, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (job,) = cluster.job_ids("-l", "/nodes=1/core=1", "sleep 600")
    cluster.wait_for([job], ["Running"], DEADLINE)
    words = [command("oarsrun"), "-j", str(job), "-n", "1", f"touch {begun}; sleep 600"]
    step = subprocess.Popen(words, env=cluster.environment(), stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + DEADLINE
        while not begun.exists() and time.monotonic() < until:
            time.sleep(0.05)
        names = names_of_holders()
        assert names
        wish = {"ranks": 1, "cores": 1, "on_node": 0, "overcommit": True}
        asked = packed(
            "run", {"wish": wish, "words": ["true"], "directory": "/", "environment": {}, "resources": "/no"}
        )
        for name in names:
            found = subprocess.run(
                ["/usr/bin/python3", "-I", "-c", _INTRUDER, name.hex(), asked.hex()],
                user=65534,
                group=65534,
                extra_groups=[],
                cwd="/",
                capture_output=True,
                text=True,
                timeout=DEADLINE,
                check=False,
            )
            assert found.stdout == "0\n", found
    finally:
        step.terminate()
        step.wait(DEADLINE)


_SQUATTER = """
import os, socket, sys
kept = []
for name in sys.argv[1:]:
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(bytes.fromhex(name))
    except OSError:
        continue
    listening.listen(0)
    kept.append(listening)
    while True:
        waiting = socket.socket(socket.AF_UNIX)
        waiting.setblocking(False)
        kept.append(waiting)
        if waiting.connect_ex(bytes.fromhex(name)):
            break
print(len(kept), flush=True)
sys.stdin.read()
"""


def await_file(path: Path) -> None:
    """Wait until a job has written it."""
    until = time.monotonic() + DEADLINE
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.05)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_who_takes_a_name_and_answers_nobody_stops_no_ranks(cluster: Sandbox, tmp_path: Path) -> None:
    """The holder is killed and its name taken; whoever connects there waits for ever."""
    before = names_of_holders()
    script = f"""
        cd {tmp_path}
        holder=$({NODE_COMMAND} -n 1 --no-prefix 'cp /proc/net/unix seen; ps -o ppid= $PPID')
        kill -9 $holder; touch killed
        until [ -e taken ]; do sleep 0.1; done
        {NODE_COMMAND} -n 1 --no-prefix 'echo here' > second
        touch over
    """
    cluster.job_ids("-l", "/nodes=1/core=1", script)
    await_file(tmp_path / "killed")
    (name,) = names_of_holders((tmp_path / "seen").read_bytes()) - before
    squatter = subprocess.Popen(
        ["/usr/bin/python3", "-I", "-c", _SQUATTER, (b"\0" + name).hex()],
        user=65534,
        group=65534,
        extra_groups=[],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert squatter.stdout is not None
        assert int(squatter.stdout.readline()) > 1
        (tmp_path / "taken").touch()
        await_file(tmp_path / "over")
        assert (tmp_path / "second").read_text() == "here\n"
    finally:
        squatter.communicate(timeout=DEADLINE)


def test_ranks_have_the_umask_limits_and_processors_of_their_own_call(cluster: Sandbox) -> None:
    """The first call of a step leaves the holder behind, the second one has other surroundings."""
    done(cluster, [command("oardel"), "--sql", "state = 'Running'"])
    (job,) = cluster.job_ids("-l", "/nodes=2/core=2", "sleep 600")
    cluster.wait_for([job], ["Running"], DEADLINE)
    show = "echo $(umask) $(ulimit -S -n) $(ulimit -S -c) $(taskset -cp $$)"
    ranks = f"{NODE_COMMAND} -n 4 --no-prefix '{show}'"
    first = f"umask 077; ulimit -S -n 64; ulimit -S -c 0; taskset -c 0 {ranks}"
    second = f"umask 002; ulimit -S -n 77; ulimit -S -c 5; {ranks}"
    narrow, wide = (
        [line.split() for line in done(cluster, inside(cluster, str(job), script)).stdout.splitlines()]
        for script in (first, f"({first}) > /dev/null; {second}")
    )
    assert [words[:3] for words in narrow] == [["0077", "64", "0"]] * 4
    assert [words[:3] for words in wide] == [["0002", "77", "5"]] * 4
    assert {words[-1] for words in wide} == {"0", "1"}
