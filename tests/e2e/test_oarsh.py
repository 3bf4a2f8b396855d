"""``oarsh`` through the gateway and without it, on a real cluster."""

from __future__ import annotations

import contextlib
import getpass
import json
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, command, local_nodes, running_sandbox
from tests.harness.sshd_nodes import find_sshd, make_key
from tests.harness.terminal_session import TerminalSession
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
DEADLINE = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cluster_database: dict[str, str]) -> Iterator[Sandbox]:
    nodes = local_nodes("/host=n[1-2]/cpu={1}/core={2}")
    settings: Settings = {"jobs": {"kill_grace": 1.0}, "database": cluster_database}
    with running_sandbox(tmp_path_factory.mktemp("oarsh"), settings, nodes) as made:
        yield made


@pytest.fixture(scope="module")
def job(cluster: Sandbox) -> str:
    (found,) = cluster.job_ids("-l", "/nodes=2/core=1", "sleep 600")
    cluster.wait_for([found], ["Running"], DEADLINE)
    return str(found)


def oarsh(cluster: Sandbox, *words: str, stdin: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a user does."""
    environment = {**cluster.environment(), **variables}
    return subprocess.run(
        [command("oarsh"), *words], input=stdin, capture_output=True, env=environment, timeout=DEADLINE, check=False
    )


@pytest.mark.parametrize("gateway", [{}, {"OARPY_GATEWAY_SOCKET": ""}], ids=["gateway", "direct"])
def test_streams_and_status_pass_through(cluster: Sandbox, job: str, gateway: dict[str, str]) -> None:
    content = b"0123456789abcdef" * 100_000
    script = "echo $OAR_JOB_ID >&2; cat; exit 9"
    done = oarsh(cluster, "n2", script, stdin=content, OAR_JOB_ID=job, **gateway)
    assert (done.returncode, done.stdout, done.stderr) == (9, content, f"{job}\n".encode())


@pytest.mark.parametrize("gateway", [{}, {"OARPY_GATEWAY_SOCKET": ""}], ids=["gateway", "direct"])
@pytest.mark.parametrize("command_text", ["sh -c 'umask; touch made'", "touch made"])
def test_files_are_as_closed_as_the_user_who_submits_wants(
    cluster: Sandbox, tmp_path: Path, gateway: dict[str, str], command_text: str
) -> None:
    done = subprocess.run(
        [command("oarsub"), "-J", "-n", "x", command_text],
        capture_output=True,
        env={**cluster.environment(), **gateway},
        cwd=tmp_path,
        umask=0o027,
        timeout=DEADLINE,
        check=True,
    )
    job = json.loads(done.stdout)["job_id"]
    cluster.wait_for([job], ["Terminated"], DEADLINE)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "made": 0o640,
        f"OAR.x.{job}.stdout": 0o640,
        f"OAR.x.{job}.stderr": 0o640,
    }


def test_a_step_has_the_file_mode_mask_of_its_job(cluster: Sandbox) -> None:
    words = [command("oarsub"), "-J", "sleep 600"]
    environment = cluster.environment()
    for mask in (0o077, 0o002):
        done = subprocess.run(
            words, capture_output=True, env=environment, umask=mask, timeout=DEADLINE, check=True, cwd=cluster.directory
        )
        job = json.loads(done.stdout)["job_id"]
        cluster.wait_for([job], ["Running"], DEADLINE)
        done = oarsh(cluster, "-j", str(job), cluster_node(cluster, job), "umask")
        assert int(done.stdout, 8) == mask
        cluster.run("oardel", str(job))


def cluster_node(cluster: Sandbox, job: int) -> str:
    """The first node of a job."""
    found: str = json.loads(cluster.run("oarstat", "-J", "-j", str(job)).stdout)[str(job)]["assigned_network_address"][
        0
    ]
    return found


def test_the_words_after_the_host_are_for_its_shell(cluster: Sandbox, job: str) -> None:
    done = oarsh(cluster, "-j", job, "n1", "printf", "%s-", "-j", "-n")
    assert (done.returncode, done.stdout) == (0, b"-j--n-")
    assert oarsh(cluster, "-j", job, "n1", "--", "printf", "%s", "--").stdout == b"--"
    assert oarsh(cluster, "-j", job, "n1", "kill -9 $$").returncode == 137
    assert oarsh(cluster, "-n", "-j", job, "n1", "cat", stdin=b"not passed on").stdout == b""


def test_it_takes_what_programs_give_to_ssh(cluster: Sandbox, job: str) -> None:
    words = ("-x", "-qT", "-o", "BatchMode=yes", "-oRequestTTY=no", "-a", "-j", job, "--", "n1", "echo", "here")
    done = oarsh(cluster, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"here\n", b"")


def test_json(cluster: Sandbox, job: str) -> None:
    done = oarsh(cluster, "-J", "-j", job, "n1", "echo out; echo err >&2; exit 3")
    assert done.returncode == 3
    wanted = {"job_id": int(job), "host": "n1", "status": 3, "stdout": "out\n", "stderr": "err\n"}
    assert json.loads(done.stdout) == wanted


def test_what_is_refused_is_said_in_a_line(cluster: Sandbox, job: str) -> None:
    for words, status, what in (
        (("-j", job, "n3", "true"), 4, f"'n3' is not a node of job {job}"),
        (("-j", "99999", "n1", "true"), 4, "there is no job 99999"),
        (("n1", "true"), 2, "no job given"),
        (("-j", "x", "n1", "true"), 2, "'x' is not a job id"),
    ):
        done = oarsh(cluster, *words)
        assert done.returncode == status, done
        assert done.stderr.decode().startswith(f"oarsh: {what}")
        assert done.stderr.count(b"\n") == 1


def test_nobody_else_gets_in_not_even_an_admin(cluster: Sandbox, job: str) -> None:
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        row = connection.execute("SELECT user_name FROM jobs WHERE job_id = %s", [job]).fetchone()
        assert row is not None
        connection.execute("UPDATE jobs SET user_name = 'games' WHERE job_id = %s", [job])
        try:
            done = oarsh(cluster, "-j", job, "n1", "true")
        finally:
            connection.execute("UPDATE jobs SET user_name = %s WHERE job_id = %s", [row[0], job])
    assert done.returncode == 5
    assert done.stderr.decode().startswith(f"oarsh: job {job} belongs to 'games'")


def test_a_session_holds_no_worker(cluster: Sandbox, job: str) -> None:
    """More sessions at once than the gateway has workers for a user."""
    sessions = [
        subprocess.Popen(
            [command("oarsh"), "-j", job, "n1", "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=cluster.environment(),
        )
        for _ in range(10)
    ]
    for number, session in enumerate(sessions):
        assert session.stdin is not None
        session.stdin.write(f"{number}\n".encode())
        session.stdin.flush()
    for number, session in enumerate(sessions):
        assert session.stdout is not None
        assert session.stdout.readline() == f"{number}\n".encode()
    assert "Running" in cluster.run("oarstat", "-s", "-j", job).stdout
    for session in sessions:
        session.communicate()
        assert session.returncode == 0


def test_the_owner_may_be_named_as_with_ssh(cluster: Sandbox, job: str) -> None:
    me = getpass.getuser()
    for words in (("-l", me, "n1"), (f"{me}@n1",), ("-l", me, "nobody@n1")):
        assert oarsh(cluster, "-j", job, *words, "echo here").stdout == b"here\n"
    for words in (("-l", "nobody", "n1"), ("nobody@n1",)):
        done = oarsh(cluster, "-j", job, *words, "true")
        assert (done.returncode, done.stderr.partition(b" (")[0]) == (
            5,
            f"oarsh: '{me}' cannot enter a job as 'nobody'".encode(),
        )


def test_files_are_copied_to_and_from_a_node(cluster: Sandbox, job: str, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("content")
    environment = {**cluster.environment(), "OAR_JOB_ID": job}
    for words in ((f"{tmp_path}/given", f"n2:{tmp_path}/there"), (f"n1:{tmp_path}/there", f"{tmp_path}/back")):
        done = subprocess.run(
            [command("oarcp"), *words], capture_output=True, env=environment, timeout=DEADLINE, check=False
        )
        assert done.returncode == 0, done
    assert (tmp_path / "back").read_text() == "content"
    done = subprocess.run(
        [command("oarcp"), f"{tmp_path}/given", "n3:/tmp/x"], capture_output=True, env=environment, check=False
    )
    assert done.returncode == 1
    assert f"oarsh: 'n3' is not a node of job {job}".encode() in done.stderr


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A port of this machine, which the nodes are, that says all it hears in capitals."""

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(self.rfile.read().upper())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_a_connection_from_a_node(cluster: Sandbox, job: str, echo_port: int) -> None:
    content = b"all of it\n" * 100_000
    done = oarsh(cluster, "-j", job, "-W", f"localhost:{echo_port}", "n2", stdin=content)
    assert (done.returncode, done.stdout, done.stderr) == (0, content.upper(), b"")
    for target, status, said in (
        ("localhost:1", 1, b"oarsh: localhost:1: Connection refused"),
        ("localhost", 2, b"oarsh: 'localhost' is no place to connect to"),
        ("a b:22", 2, b"oarsh: 'a b:22' is no place to connect to"),
        ("$(id):22", 2, b"oarsh: '$(id):22' is no place to connect to"),
        ("localhost:70000", 2, b"oarsh: 'localhost:70000' is no place to connect to"),
    ):
        done = oarsh(cluster, "-j", job, "-W", target, "n1")
        assert (done.returncode, done.stderr[: len(said)]) == (status, said)


def test_lines_for_the_configuration_of_ssh(cluster: Sandbox, job: str, tmp_path: Path) -> None:
    lines = oarsh(cluster, "--ssh-config", "-j", job).stdout.decode()
    (tmp_path / "config").write_text(lines)
    for node in ("n1", "n2"):
        words = ["ssh", "-F", str(tmp_path / "config"), "-G", node]
        read = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        assert f"proxycommand oarsh -j {job} -W localhost:%p %h" in read
        assert f"setenv OAR_JOB_ID={job}" in read
    assert oarsh(cluster, "--ssh-config", "-j", job, "n2").stdout.count(b"Host ") == 1
    assert oarsh(cluster, "-j", job).stderr.startswith(b"oarsh: no host given")


@pytest.fixture
def log_ins(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An sshd of the test's user, which lets in as a node's does where users may log in: the settings to reach it.

    Windows are shown by a display of which only the name is there.
    """
    make_key(tmp_path / "host_key")
    (tmp_path / "keys").write_text(make_key(tmp_path / "key") + "\n")
    (tmp_path / "xauth").write_text("#!/bin/sh\ncat >/dev/null\n")
    (tmp_path / "xauth").chmod(0o755)
    (tmp_path / "sshd_config").write_text(
        f"HostKey {tmp_path}/host_key\nAuthorizedKeysFile {tmp_path}/keys\nStrictModes no\nPermitRootLogin yes\n"
        f"UsePAM no\nListenAddress 127.0.0.1\nPidFile none\nPort {(port := free_port())}\nAcceptEnv OAR_JOB_ID\n"
        f"X11Forwarding yes\nXAuthLocation {tmp_path}/xauth\n"
    )
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with subprocess.Popen([find_sshd(), "-D", "-f", str(tmp_path / "sshd_config")]) as sshd:
        yield {
            "Port": str(port),
            "UserKnownHostsFile": f"{tmp_path}/known",
            "StrictHostKeyChecking": "no",
            "IdentitiesOnly": "yes",
            "IdentityFile": f"{tmp_path}/key",
            "XAuthLocation": "/bin/true",
            "ForwardX11Trusted": "yes",
        }
        sshd.terminate()


def test_ports_are_forwarded_by_ssh_through_the_job(
    cluster: Sandbox, job: str, echo_port: int, log_ins: dict[str, str]
) -> None:
    port = free_port()
    given = [word for name, value in log_ins.items() for word in ("-o", f"{name}={value}")]
    words = [command("oarsh"), "-N", "-L", f"{port}:localhost:{echo_port}", "-j", job, *given, "n1"]
    with subprocess.Popen(words, env=cluster.environment()) as forwarding:
        until(lambda: answers(port), "the port is forwarded")
        shown = [*words[:1], "-A", "-j", job, *given, "n2", "echo $OAR_JOB_ID"]
        done = subprocess.run(shown, env=cluster.environment(), capture_output=True, text=True, check=False)
        forwarding.terminate()
    assert done.stdout == f"{job}\n", done


@pytest.mark.parametrize("gateway", [{}, {"OARPY_GATEWAY_SOCKET": ""}], ids=["gateway", "direct"])
def test_the_shell_of_an_interactive_job_has_windows(
    cluster: Sandbox, log_ins: dict[str, str], tmp_path: Path, gateway: dict[str, str]
) -> None:
    settings = {**log_ins, "RemoteCommand": "env PS1=ready: sh -i"}
    (tmp_path / "ssh_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    (tmp_path / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/ssh_config "$@"\n')
    (tmp_path / "ssh").chmod(0o755)
    variables = {**cluster.environment(), "DISPLAY": "nowhere:7", **gateway}
    variables["PATH"] = f"{tmp_path}:{variables['PATH']}"
    asked = [command("oarsub"), "-IX", "-l", "/nodes=1/core=1"]
    with TerminalSession(asked, variables) as session:
        session.expect("OAR_JOB_ID=")
        session.expect("# Connect to OAR job ")
        session.expect("ready:")
        session.type("echo on=$DISPLAY of=$OAR_JOB_ID; stty size\n")
        session.expect("on=localhost:")
        session.expect("30 90")
        job = session.text.partition("OAR_JOB_ID=")[2].split()[0]
        assert f" of={job}\r\n" in session.text
        session.type("exit 3\n")
        session.expect(f"# Disconnected from OAR job {job}")
        assert session.wait() == 3
    cluster.wait_for([int(job)], ["Terminated"], DEADLINE)


def test_a_job_that_ends_takes_its_shell_with_windows(cluster: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text("#!/bin/sh\necho here; exec sleep 600\n")
    (tmp_path / "ssh").chmod(0o755)
    variables = {**cluster.environment(), "DISPLAY": "nowhere:7"}
    variables["PATH"] = f"{tmp_path}:{variables['PATH']}"
    with TerminalSession([command("oarsub"), "-I", "-X", "-l", "/nodes=1/core=1"], variables) as session:
        session.expect("here")
        job = session.text.partition("OAR_JOB_ID=")[2].split()[0]
        cluster.run("oardel", job)
        assert session.wait() != 0
    cluster.wait_for([int(job)], ["Error"], DEADLINE)


NO_DISPLAY = "oarsub: -X without a display: DISPLAY is not set (leave -X out, or log in here with ssh -X)\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--x11", "date"], "oarsub: --x11 without -I (oarsh -X -j ID HOST shows windows of a job that runs)\n"),
        (["-I", "-X"], NO_DISPLAY),
        (["-IXl/core=2"], NO_DISPLAY),
        (["-l/core=2", "-XI"], NO_DISPLAY),
    ],
)
def test_windows_that_cannot_be_shown_are_refused(cluster: Sandbox, words: list[str], said: str) -> None:
    variables = {name: value for name, value in cluster.environment().items() if name != "DISPLAY"}
    done = subprocess.run(
        [command("oarsub"), *words], env=variables, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (2, said, "")


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Whether what echoes is behind a port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(b"word")
        peer.shutdown(socket.SHUT_WR)
        return peer.makefile("rb").read() == b"WORD"
    return False


def test_what_only_ssh_does_needs_a_job_and_a_host(cluster: Sandbox, job: str) -> None:
    for words, said in (
        (("-X", "n1"), "no job given"),
        (("-X", "-j", job), "-X, -L, -R, -D, -A and -N need a host"),
        (("-N", "-L", "1:localhost:1", "-j", "7; id", "n1"), "'7; id' is not the name of a job"),
        (("-N", "-j", job, "$(id)"), "'$(id)' is not the name of a host"),
        (("-N", "-j", job, "--", "-oProxyCommand=id"), "'-oProxyCommand=id' is not the name of a host"),
    ):
        done = oarsh(cluster, *words)
        assert (done.returncode, done.stderr.decode().count("\n")) == (2, 1)
        assert done.stderr.decode().startswith(f"oarsh: {said}")
