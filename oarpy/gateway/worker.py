"""A worker: takes one request after the other and runs its command as its caller."""

from __future__ import annotations

import math
import os
import resource
import signal
import socket
import time
from contextlib import suppress

import structlog

from oarpy.admission.rules.process import start_rules
from oarpy.client.caller import KeptReader
from oarpy.configuration import Configuration
from oarpy.gateway.attached_streams import HandedOver
from oarpy.gateway.commands import COMMANDS
from oarpy.gateway.execution import run
from oarpy.gateway.listener import peer_uid
from oarpy.gateway.remote_caller import RemoteCaller
from oarpy.gateway.shares import Shares
from oarpy.model.errors import OarpyError
from oarpy.modules.loop.parent import end_with
from oarpy.store.database import KeptConnection
from oarpy.wire.frames import Gone, Malformed
from oarpy.wire.openings import LARGEST_PREFACE, Request, Speaker, read_request, read_speaker, refusal

log = structlog.get_logger()

REQUEST = b"R"
"""The gateway's message with a request of the connected user."""

IDLE = b"I"
"""A worker's message that it is ready for a request; during a request its messages are about the caller."""

_READ = 2**20


class Worker:
    """Serves the requests that arrive on ``control``, each as the descriptors of its connection and of its text."""

    def __init__(self, control: socket.socket, configuration: Configuration, shares: Shares) -> None:
        self._control = control
        self._shares = shares
        self._configuration = configuration
        self._database = KeptConnection(configuration, "gateway", configuration.gateway.time_limit)
        self._reader = KeptReader(configuration)
        self._gateway = -1

    def work(self, gateway: int) -> None:
        """Serve until the gateway, which is process ``gateway``, closes its end."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        end_with(gateway)
        self._gateway = os.pidfd_open(gateway)
        start_rules(self._configuration.submission.rule_memory_limit)
        _limit_memory(self._configuration.gateway.memory_limit)
        with suppress(OarpyError):
            self._database.get()
        self._tell(IDLE)
        while True:
            data, descriptors, _, _ = socket.recv_fds(self._control, LARGEST_PREFACE, 2)
            if not data:
                return
            connection, text = descriptors
            with socket.socket(fileno=connection) as caller:
                self._serve(caller, _contents(text), _speaker(data, caller))
            self._database.clean()
            _reap_sessions()
            self._tell(IDLE)

    def _serve(self, connection: socket.socket, payload: bytes, speaker: Speaker) -> None:
        """Run one request for its speaker and answer with the exit status; end the process after a session."""
        try:
            request = _understood(payload)
        except Malformed as error:
            connection.settimeout(1)
            with suppress(OSError):
                connection.sendall(refusal(f"the gateway does not understand the request: {error}", 1))
            return
        uid, node = speaker.uid, speaker.node
        kept = self._configuration, self._database, self._reader, self._shares
        caller = RemoteCaller(uid, node, request, connection, *kept, self._tell, self._leave)
        began = time.monotonic()
        _limit_processor(self._configuration.gateway.processor_limit)
        try:
            status = run(caller, request)
        except HandedOver:
            return
        with suppress(Gone):
            caller.channel.send_message({"exit": status})
        if caller.in_session:
            os._exit(0)
        log.debug("command", command=request.command, uid=uid, status=status, seconds=time.monotonic() - began)

    def _leave(self, uid: int) -> int:
        """Called in a session of a user: it is no worker, and goes on when the gateway ends.

        Return a descriptor that is readable from then on, for sessions that are to end with the gateway.
        """
        self._control.close()
        os.setsid()
        self._shares.enter_session(uid)
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY,) * 2)
        return self._gateway

    def _tell(self, word: bytes) -> None:
        self._control.sendall(word)


def _limit_memory(mebibytes: int) -> None:
    """Limit this process's address space: an allocation beyond it fails, and takes no memory from others."""
    resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, resource.RLIM_INFINITY))


def _limit_processor(seconds: int) -> None:
    """Let this process take ``seconds`` more of processor time, then be ended by the kernel."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    most = math.ceil(usage.ru_utime + usage.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def _reap_sessions() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _speaker(data: bytes, connection: socket.socket) -> Speaker:
    """Return the user of a request: the peer, unless the gateway says that the peer speaks for another user."""
    return Speaker(peer_uid(connection), "") if data == REQUEST else read_speaker(data)


def _understood(payload: bytes) -> Request:
    request = read_request(payload)
    if request.command not in COMMANDS:
        raise Malformed(f"no command {request.command[:40]!a}")
    return request


def _contents(descriptor: int) -> bytes:
    """Return the whole content of the descriptor, and close it."""
    with open(descriptor, "rb", buffering=0) as file:
        return file.readall()
