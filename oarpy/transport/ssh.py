"""Agents on other machines, each behind one SSH connection with a checked host key."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Sequence

import paramiko

from oarpy.model.errors import Unreachable
from oarpy.transport.bundle import agent_command
from oarpy.transport.inbox import Inbox
from oarpy.transport.node import ChannelConfig, NodeAddress, SshConfig
from oarpy.transport.stream import StreamTransport

_CHUNK = 1 << 16
_EXIT_SECONDS = 5.0
_LOG = "oarpy.transport.ssh.library"


class SshStream:
    """Standard input and output of an agent at the end of an SSH connection."""

    def __init__(self, connection: paramiko.Transport, channel: paramiko.Channel) -> None:
        self._connection = connection
        self._channel = channel

    def read(self) -> bytes:
        """Wait for output of the agent."""
        try:
            return self._channel.recv(_CHUNK)
        except (OSError, paramiko.SSHException):
            return b""

    def write(self, content: bytes) -> None:
        """Write all to the agent's input."""
        try:
            self._channel.sendall(content)
        except (paramiko.SSHException, EOFError) as error:
            raise BrokenPipeError(str(error)) from error

    def end_writing(self) -> None:
        """Close the agent's input."""
        try:
            self._channel.shutdown_write()
        except (OSError, EOFError, paramiko.SSHException):
            return  # gone already

    def abort(self) -> None:
        """Cut the connection: the agent sees the end of its input; jobs go on."""
        # Closing waits for the connection's thread, which may sit in a write to a host that is gone.
        threading.Thread(target=self._connection.close, daemon=True).start()

    def finish(self) -> str:
        """Close the connection; return the last line of the far end's error output."""
        reason = ""
        if self._channel.status_event.wait(_EXIT_SECONDS if self._connection.is_active() else 0):
            reason = f"the agent ended with status {self._channel.exit_status}"
        if self._channel.recv_stderr_ready():
            lines = self._channel.recv_stderr(_CHUNK).decode(errors="replace").strip().splitlines()
            reason = f"the agent ended: {lines[-1][:300]}" if lines else reason
        self._channel.close()
        self._connection.close()
        self._connection.join(_EXIT_SECONDS)
        return reason or "the connection was lost"


class SshConnector:
    """Opens SSH connections; raises Unreachable with the reason."""

    def __init__(self, ssh: SshConfig, config: ChannelConfig) -> None:
        self._ssh = ssh
        self._config = config
        # ChannelLost has every problem; paramiko would also log it, with tracebacks.
        logging.getLogger(_LOG).setLevel(logging.CRITICAL + 1)
        # Key exchange costs both ends a lot of processor time: hundreds at once would all run into their time limits.
        self._handshakes = threading.BoundedSemaphore(ssh.handshakes)

    def open(self, node: NodeAddress, program: bytes) -> SshStream:
        """Connect, check the host key, log in and start the agent that ``program`` will become."""
        host, timeout = node.address or node.name, self._config.connect_timeout
        where = f"node {node.name} ({host} port {node.port})"
        known = self._known_keys(host if node.port == 22 else f"[{host}]:{node.port}", where)
        try:
            raw = socket.create_connection((host, node.port), timeout)
        except OSError as error:
            raise Unreachable(f"cannot reach {where}: {error.strerror or error}") from error
        if not _speaks(raw):
            raw.close()
            raise Unreachable(f"cannot log in on {where}: no SSH server answers")
        with self._handshakes:  # only now: a host that takes connections and says nothing must not hold a place
            connection = self._login(raw, known, where)
        return self._start_agent(connection, agent_command(node, program), where)

    def _start_agent(self, connection: paramiko.Transport, command: str, where: str) -> SshStream:
        timeout = self._config.connect_timeout
        # exec_command has no time limit of its own: a server that stops answering here is cut off.
        limit = threading.Timer(timeout, connection.close)
        limit.start()
        try:
            channel = connection.open_session(timeout=timeout)
            channel.exec_command(command)
        except (OSError, EOFError, paramiko.SSHException) as error:
            connection.close()
            raise Unreachable(f"cannot start the agent on {where}: {error}") from error
        finally:
            limit.cancel()
        return SshStream(connection, channel)

    def _login(self, raw: socket.socket, known: dict[str, paramiko.PKey], where: str) -> paramiko.Transport:
        connection: paramiko.Transport | None = None
        try:
            connection = paramiko.Transport(raw)
            connection.set_log_channel(_LOG)
            connection.banner_timeout = connection.auth_timeout = self._config.connect_timeout
            # Ask for the known kinds of key: the host may have others that were never verified.
            offered = connection.get_security_options()
            offered.key_types = _accepted_kinds(offered.key_types, known)
            connection.start_client(timeout=self._config.connect_timeout)
            self._check_key(connection.get_remote_server_key(), known, where)
            connection.auth_publickey(self._ssh.user, self._private_key())
            connection.set_keepalive(int(self._ssh.keepalive))
        except Unreachable:
            raw.close() if connection is None else connection.close()
            raise
        except (OSError, EOFError, paramiko.SSHException) as error:
            raw.close() if connection is None else connection.close()
            raise Unreachable(f"cannot log in on {where} as {self._ssh.user}: {error}") from error
        return connection

    def _known_keys(self, name: str, where: str) -> dict[str, paramiko.PKey]:
        hosts = paramiko.HostKeys()
        try:
            hosts.load(self._ssh.known_hosts)
        except OSError as error:
            keys = "ssh-keyscan writes the keys of nodes, to be compared with theirs"
            raise Unreachable(f"cannot read {self._ssh.known_hosts}: {error.strerror}; {keys}") from error
        known = dict(hosts.lookup(name) or {})
        if not known:
            hint = f"verify it and add '{name}' to {self._ssh.known_hosts}"
            raise Unreachable(f"host key of {where} is unknown", hint=hint)
        return known

    def _check_key(self, key: paramiko.PKey, known: dict[str, paramiko.PKey], where: str) -> None:
        if known.get(key.get_name()) != key:
            raise Unreachable(
                f"host key of {where} has changed: {key.fingerprint}",
                hint=f"if the node was installed anew, put its new key in {self._ssh.known_hosts}",
            )

    def _private_key(self) -> paramiko.PKey:
        try:
            return paramiko.PKey.from_path(self._ssh.key_file)
        except (OSError, ValueError, paramiko.SSHException) as error:
            raise Unreachable(f"cannot use the key {self._ssh.key_file}: {error}") from error


def _speaks(raw: socket.socket) -> bool:
    """Tell whether the far end says something within the socket's time limit; it stays to be read."""
    try:
        return bool(raw.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def _accepted_kinds(offered: Sequence[str], known: dict[str, paramiko.PKey]) -> tuple[str, ...]:
    kinds = set(known)
    if "ssh-rsa" in kinds:
        kinds |= {"rsa-sha2-256", "rsa-sha2-512"}
    return tuple(kind for kind in offered if kind in kinds) or tuple(offered)


class SshTransport(StreamTransport):
    """Channels to agents on other machines."""

    def __init__(self, inbox: Inbox, config: ChannelConfig, ssh: SshConfig) -> None:
        super().__init__(SshConnector(ssh, config).open, inbox, config)
