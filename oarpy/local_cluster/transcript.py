"""The common part of demos: it runs commands on a cluster in a folder, and prints them with their output."""

from __future__ import annotations

import queue
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from oarpy.local_cluster.sandbox import Sandbox, local_nodes
from oarpy.model.errors import OarpyError

FINAL = ("Terminated", "Error")
_END_TIMEOUT = 30.0


@dataclass(slots=True)
class BesideTranscript:
    """A program that runs beside the transcript. Its lines are printed while the transcript waits for them."""

    name: str
    process: subprocess.Popen[str]
    _lines: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)

    def read(self) -> None:
        """Collect its output, in a thread of its own."""

        def take_in() -> None:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                self._lines.put(line)
            self._lines.put(None)

        threading.Thread(target=take_in, daemon=True).start()

    def wait_for(self, text: str, timeout: float) -> str:
        """Print its lines up to one with ``text``, and return that. Raises :class:`OarpyError` after ``timeout`` s."""
        for line in self._printed(timeout):
            if text in line:
                return line
        raise OarpyError(f"{self.name} did not say '{text}' within {timeout:g} s", hint="see server.log")

    def end(self, timeout: float, status: int = 0) -> list[str]:
        """Print and return its last lines. Raises :class:`OarpyError` unless it ends with ``status`` in time."""
        lines = list(self._printed(timeout))
        try:
            ended = self.process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise OarpyError(f"{self.name} does not end", hint="see server.log") from None
        if ended != status:
            raise OarpyError(f"{self.name} ended with {ended}, not {status}", hint="see server.log")
        return lines

    def _printed(self, timeout: float) -> Iterator[str]:
        until = time.monotonic() + timeout
        while (left := until - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                return
            if line is None:
                return
            sys.stdout.write(f"{self.name}: {line}")
            sys.stdout.flush()
            yield line


class Transcript:
    """Runs commands as a user would, and prints their output."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._beside: list[BesideTranscript] = []

    def run(self) -> None:
        """Run every step. Raises :class:`OarpyError` if a step fails."""
        raise NotImplementedError

    def stop(self) -> None:
        """Kill programs that still run beside it, and stop the cluster."""
        for program in self._beside:
            if program.process.poll() is None:
                program.process.kill()
                program.process.wait()
        self.sandbox.stop()

    def begin(self, nodes: int, cores: int) -> None:
        """Start the cluster, and add nodes of this machine."""
        self.sandbox.create()
        self.sandbox.start()
        self.sandbox.wait_for_gateway(30)
        self.show(*local_nodes(f"/host=node[1-{nodes}]/cpu={{1}}/core={{{cores}}}"))

    def beside(self, name: str, *arguments: str) -> BesideTranscript:
        """Start a program that runs beside; it is killed at the end if it still runs."""
        self.command(*arguments)
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**self.sandbox.environment(), "PYTHONUNBUFFERED": "1"},
            cwd=self.sandbox.directory / "work",
            start_new_session=True,
        )
        program = BesideTranscript(name, process)
        program.read()
        self._beside.append(program)
        return program

    def submit(self, *arguments: str) -> int:
        """Show a submission and return the id of its job."""
        done = self.show("oarsub", *arguments)
        return int(next(line for line in done.splitlines() if line.startswith("OAR_JOB_ID=")).partition("=")[2])

    def end(self, job: int) -> None:
        """Wait for the end of a job. Raises :class:`OarpyError` unless it is Terminated."""
        state = self.sandbox.wait_for([job], FINAL, 60)[job]
        if state != "Terminated":
            raise OarpyError(f"job {job} ended as {state}", hint="see server.log")

    def show(self, *arguments: str) -> str:
        """Run a command and print it with its output."""
        self.command(*arguments)
        done = self.sandbox.run(*arguments)
        sys.stdout.write(done.stdout + done.stderr)
        sys.stdout.flush()
        return done.stdout

    def print_file(self, name: str) -> None:
        """Print a file of the folder in which commands are run."""
        self.command("cat", name)
        sys.stdout.write((self.sandbox.directory / "work" / name).read_text(encoding="utf-8"))

    def command(self, *arguments: str) -> None:
        """Print a command."""
        sys.stdout.write(f"$ {shlex.join(arguments)}\n")
        sys.stdout.flush()

    def say(self, text: str) -> None:
        """Print a heading for the next step."""
        sys.stdout.write(f"\n# {text}\n")
        sys.stdout.flush()


def play(transcript: Transcript) -> None:
    """Run it in a folder without an earlier cluster, and stop everything it started; data and logs stay there."""
    transcript.sandbox.remove()
    try:
        transcript.run()
    finally:
        transcript.stop()
    sys.stdout.write(f"\n# Done; everything is stopped. Data and logs are in {transcript.sandbox.directory}\n")
