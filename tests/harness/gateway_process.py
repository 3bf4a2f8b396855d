"""A gateway of its own for a test, and commands as processes of any user that talk to it and to nothing else."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from oarpy.local_cluster.user_commands import user_command
from oarpy.wire.frames import LARGEST_FRAME, MESSAGE, VERSION, Channel, pack_message, read_message
from tests.harness import warm_gateway
from tests.harness.bare_environment import bare_environment
from tests.harness.sample_cluster import Result
from tests.harness.waiting import until
from tests.harness.warm_gateway import ForkedGateway

TIMEOUT = 60.0


@dataclass(slots=True)
class GatewayProcess:
    """A running gateway; ``folder`` may be entered by everybody."""

    folder: Path
    process: ForkedGateway
    commands: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """The socket."""
        return self.folder / "gateway.sock"

    def command(self, *words: str, uid: int | None = None) -> list[str]:
        """Return what to start for a command of a user (default: the user of the tests)."""
        return user_command(uid, *words)

    def start(
        self, *words: str, uid: int | None = None, cwd: str | Path | None = None, **variables: str
    ) -> subprocess.Popen[str]:
        """Start a command in an environment that names the gateway and no database."""
        started = subprocess.Popen(
            self.command(*words, uid=uid),
            env={**self.user_environment(), **variables},
            cwd=cwd or "/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.commands.append(started)
        return started

    def run(
        self,
        *words: str,
        uid: int | None = None,
        cwd: str | Path | None = None,
        stdin: str = "",
        **variables: str,
    ) -> Result:
        """Run a command to its end."""
        with self.start(*words, uid=uid, cwd=cwd, **variables) as process:
            out, err = process.communicate(stdin, timeout=TIMEOUT)
        return Result(process.returncode, out, err)

    def user_environment(self) -> dict[str, str]:
        """Return the environment of a user who knows the gateway's socket, and nothing about a database."""
        root = str(Path(__file__).resolve().parent.parent.parent)
        nothing = f"postgresql:///none?host={self.folder}"
        return bare_environment(PYTHONPATH=root, OARPY_GATEWAY_SOCKET=str(self.path), OARPY_DATABASE_URL=nothing)

    def connect(self) -> socket.socket:
        """Open a bare connection."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(TIMEOUT)
        connection.connect(str(self.path))
        return connection

    def listens(self) -> bool:
        """Say whether anybody takes connections."""
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(str(self.path)) == 0

    def answers(self) -> bool:
        """Say whether a command is run as it should be."""
        with self.connect() as connection:
            connection.sendall(pack_message(request("oarsub", "-V")))
            return final(Channel(connection)) == {"exit": 0}

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in task.read_text("ascii").split()]

    def log(self) -> str:
        """Return what the gateway and its workers have said."""
        return (self.folder / "log").read_text("utf-8")

    def stop(self) -> int:
        """Stop the gateway; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)


def request(command: str, *arguments: str) -> dict[str, object]:
    """Return a well-formed request."""
    return {
        "version": VERSION,
        "command": command,
        "arguments": list(arguments),
        "directory": "/",
        "environment": {},
        "terminal": {"input": False, "output": False, "errors": False, "columns": 80},
    }


def final(channel: Channel) -> dict[str, object]:
    """Return the message that ends a conversation, whatever is printed before."""
    while True:
        kind, payload = channel.receive(LARGEST_FRAME)
        if kind == MESSAGE and ("exit" in (message := read_message(payload))):
            return message


@contextmanager
def gateway(environment: Mapping[str, str], folder: Path | None = None, **settings: object) -> Iterator[GatewayProcess]:
    """Run a gateway on the database of ``environment``; ``settings`` are keys of its section ``[gateway]``."""
    folder = folder or Path(tempfile.mkdtemp(prefix="oarpy-gateway-", dir="/tmp"))
    folder.chmod(0o755)
    variables = {f"OARPY_GATEWAY_{name.upper()}": str(value) for name, value in settings.items()}
    with (folder / "log").open("wb") as log:
        own = {**environment, **variables, "OARPY_GATEWAY_SOCKET": str(folder / "gateway.sock")}
        process = warm_gateway.start(own, log.fileno())
    running = GatewayProcess(folder, process)
    try:
        until(lambda: running.listens() or process.poll() is not None, "the gateway listens")
        assert process.poll() is None, running.log()
        yield running
    finally:
        process.kill()
        process.wait()
        for command in running.commands:
            command.kill()
            # also closes the pipes
            with command:
                pass
        shutil.rmtree(folder, ignore_errors=True)
