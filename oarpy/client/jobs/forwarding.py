"""Ways of ssh into a job: a connection from one of its nodes, and lines for the configuration of ssh."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from oarpy.client.jobs.job_steps import RunningJob
from oarpy.model.errors import UsageError
from oarpy.transport.node import NodeAddress

_TARGET = re.compile(r"\[?([A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9a-fA-F:]+)\]?:([0-9]{1,5})", re.ASCII)
_SSH_PORT = 22

_CARRY = """
import os, select, socket, sys
try:
    peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
except OSError as error:
    sys.exit("oarsh: %s:%s: %s" % (sys.argv[1], sys.argv[2], error.strerror or error))
reads = [0, peer]
while peer in reads:
    ready = select.select(reads, [], [])[0]
    if 0 in ready:
        data = os.read(0, 65536)
        if data:
            peer.sendall(data)
        else:
            reads.remove(0)
            peer.shutdown(socket.SHUT_WR)
    if peer in ready:
        data = peer.recv(65536)
        if not data:
            break
        while data:
            data = data[os.write(1, data):]
"""
"""The program of a step, for the Python of its node: standard input goes to a port, the port's data to output."""


def connecting(python: str, target: str, command: str) -> str:
    """Return the command that connects its standard input and output to ``target``, which is ``HOST:PORT``."""
    match = _TARGET.fullmatch(target)
    if match is None or not 0 < int(match[2]) < 1 << 16:
        raise UsageError(f"'{target[:80]}' is no place to connect to", hint="-W HOST:PORT, such as localhost:22")
    if command:
        raise UsageError("-W takes no command", hint="oarsh -W HOST:PORT NODE")
    return "exec " + shlex.join([python, "-I", "-S", "-c", _CARRY, match[1], match[2]])


def configuration(job: RunningJob, nodes: Iterable[NodeAddress]) -> str:
    """Return lines of ``~/.ssh/config`` by which ssh, and programs over it, reach nodes of a job through the job."""
    number = job.launch.spec.job
    through = f"oarsh -j {number} -W localhost:%p %h"
    lines = [f"# job {number}; on a machine without oarsh: ProxyCommand ssh FRONTEND {through}"]
    for node in nodes:
        lines += [f"Host {node.name}", f"    ProxyCommand {through}", f"    SetEnv OAR_JOB_ID={number}"]
        lines += [f"    Port {node.port}"] if node.port != _SSH_PORT else []
    return "".join(f"{line}\n" for line in lines)
