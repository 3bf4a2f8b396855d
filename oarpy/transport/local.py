"""Agents on this machine, each a child process behind a pipe."""

from __future__ import annotations

import os
import subprocess
import tempfile

from oarpy.model.errors import Unreachable
from oarpy.transport.agent.descriptors import restore
from oarpy.transport.agent.job.processes import MARK
from oarpy.transport.bundle import agent_arguments
from oarpy.transport.inbox import Inbox
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.transport.stream import StreamTransport

_CHUNK = 1 << 16
"""The bytes that a pipe holds."""
_EXIT_SECONDS = 5.0


class PipeStream:
    """A local agent's standard input and output."""

    def __init__(self, node: NodeAddress, program: bytes) -> None:
        # Read into again and again: memory that is made for each message and shrunk to its size falls to pieces.
        self._buffer = memoryview(bytearray(_CHUNK))
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by finish
        try:
            self._process = subprocess.Popen(
                agent_arguments(node, program),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                cwd="/",
                # A server started inside a job must not pass that job's mark on to its programs.
                env={name: value for name, value in os.environ.items() if name != MARK},
                start_new_session=True,
                preexec_fn=restore,  # the limit of the launcher's own files is no limit of jobs
            )
        except OSError as error:
            self._errors.close()
            raise Unreachable(f"cannot start the agent of node {node.name}: {node.python}: {error.strerror}") from error

    def read(self) -> bytes:
        """Wait for output of the agent."""
        assert self._process.stdout is not None
        size = os.readv(self._process.stdout.fileno(), [self._buffer])
        return bytes(self._buffer[:size])

    def write(self, content: bytes) -> None:
        """Write all to the agent's input."""
        assert self._process.stdin is not None
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self._process.stdin.fileno(), rest) :]

    def end_writing(self) -> None:
        """Close the agent's input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def abort(self) -> None:
        """Kill the agent; jobs go on."""
        self._process.kill()

    def finish(self) -> str:
        """Reap the agent; return the last line of its error output."""
        assert self._process.stdout is not None
        try:
            status = self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._process.stdout.close()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        self._errors.close()
        if lines:
            return f"the agent ended: {lines[-1][:300]}"
        return f"the agent was killed by signal {-status}" if status < 0 else f"the agent ended with status {status}"


class LocalTransport(StreamTransport):
    """Channels to agents on this machine."""

    def __init__(self, inbox: Inbox, config: ChannelConfig) -> None:
        super().__init__(PipeStream, inbox, config)
