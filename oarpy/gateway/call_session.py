"""The process of one call: it goes to the node, gets the user of the command that calls, and speaks for that user here.

The node vouches for the user. :func:`vouched_user` finds the account here, and admits only users with a running job on
that node, or with a launcher that the site runs there. From then on bytes go both ways between the node and the
gateway's own socket.
"""

from __future__ import annotations

import os
import pwd
import select
import signal
import socket
import threading
import time
from contextlib import suppress

import structlog

from oarpy.client.jobs.job_steps import opener_for
from oarpy.configuration import Configuration
from oarpy.gateway.calls import TAKEN
from oarpy.model.errors import NotAllowed, NotFound, OarpyError, Unreachable
from oarpy.modules.launcher import addresses
from oarpy.modules.launcher.specifications import JobHosts
from oarpy.negotiation.store import unattended
from oarpy.store.database import Connection, connect, database_dsn, reachable
from oarpy.store.platform import nodes, site
from oarpy.transport.bundle import agent_program
from oarpy.transport.stream import ByteStream
from oarpy.wire.frames import HEADER, MESSAGE, Malformed, first_frame, pack_message, read_message
from oarpy.wire.openings import LARGEST_PREFACE, Knock, Speaker, refusal

log = structlog.get_logger()

_CHUNK = 1 << 16
_SETTLE = 60.0
"""Seconds for the command on the node to take the bytes it was sent and to leave."""

_FAREWELL = 5.0
"""The same for a refused call."""


def speak(configuration: Configuration, knock: Knock, control: socket.socket) -> None:
    """Serve one call to its end, also when the gateway ends; ``control`` hears when the command is taken."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setsid()
    try:
        _speak(configuration, knock, control)
    except (OarpyError, OSError, Malformed) as error:
        log.warning("call failed", node=knock.node, reason=ascii(str(error))[:200])


def _speak(configuration: Configuration, knock: Knock, control: socket.socket) -> None:
    """Fetch the call from the node, hold it against the database, and carry it to the gateway.

    The gateway hears that the call is taken before anything is carried: then its time limit for this process is over.
    """
    timeout = configuration.database.connect_timeout
    with reachable(), connect(database_dsn(configuration), "call", timeout=timeout) as database:
        stream = _open(database, configuration, knock.node)
        try:
            stream.write(pack_message({"token": knock.token}))
            name, early = _user(stream)
            refused = None
            try:
                uid = vouched_user(database, configuration, knock.node, name)
            except NotAllowed as error:
                uid, refused = 0, error
            control.send(TAKEN)
        except BaseException:
            stream.abort()
            raise
    # from here on it may take as long as the other side likes: nothing of the database is held
    if refused is not None:
        return _refuse(stream, refused)
    with socket.socket(socket.AF_UNIX) as gateway:
        try:
            gateway.connect(configuration.gateway.socket)
        except OSError:
            return _refuse(stream, Unreachable("the gateway is being stopped", hint="try again later"))
        gateway.sendall(Speaker(uid, knock.node).pack() + early)
        _carry(stream, gateway)
    log.debug("call", node=knock.node, uid=uid)
    return None


def _open(database: Connection, configuration: Configuration, name: str) -> ByteStream:
    """Return a connection of our own to the program on the node that will carry the call."""
    with database.transaction():
        rows = nodes.named(database, [name])
        instance = site.instance(database)
    if not rows:
        raise NotFound(f"there is no node {name}")
    settings = configuration.nodes
    node = addresses.node_address(rows[0], settings)
    program = agent_program(node, addresses.channel_config(settings, instance), "calls.call")
    stream = opener_for(settings, instance)(node)(node, program)
    stream.write(program)
    return stream


def _user(stream: ByteStream) -> tuple[str, bytes]:
    """Return the user whom the node names, and the bytes after that."""
    data = b""
    while (frame := first_frame(data, LARGEST_PREFACE)) is None:
        content = stream.read()
        if not content:
            raise Unreachable(stream.finish())
        data += content
    kind, payload = frame
    if kind != MESSAGE:
        raise Malformed("a call begins with its user")
    message = read_message(payload)
    user = message.get("user")
    if not isinstance(user, str):
        raise NotFound(str(message.get("refused")))
    return user, data[HEADER.size + len(payload) :]


def _refuse(stream: ByteStream, error: OarpyError) -> None:
    limit = threading.Timer(_FAREWELL, stream.abort)
    limit.daemon = True
    limit.start()
    stream.write(refusal(str(error), error.exit_status))
    stream.end_writing()
    while stream.read():
        continue
    limit.cancel()
    stream.finish()


def _carry(stream: ByteStream, gateway: socket.socket) -> None:
    """Copy both ways until both sides have ended, or the gateway's has and the node's does not end."""
    answers = threading.Thread(target=_copy_to_gateway, args=(stream, gateway), daemon=True)
    answers.start()
    threading.Thread(target=_limit, args=(stream, gateway), daemon=True).start()
    with suppress(OSError):
        while content := gateway.recv(_CHUNK):
            stream.write(content)
    stream.end_writing()
    answers.join(_SETTLE)
    stream.abort() if answers.is_alive() else stream.finish()


def _limit(stream: ByteStream, gateway: socket.socket) -> None:
    """Cut off a command that does not take its bytes, some seconds after the gateway has closed its end."""
    poll = select.poll()
    poll.register(gateway, 0)  # the end is reported also while there are bytes to be read
    poll.poll()
    time.sleep(_SETTLE)
    stream.abort()


def _copy_to_gateway(stream: ByteStream, gateway: socket.socket) -> None:
    with suppress(OSError):
        while content := stream.read():
            gateway.sendall(content)
    with suppress(OSError):
        gateway.shutdown(socket.SHUT_WR)


def vouched_user(connection: Connection, settings: Configuration, node: str, name: str) -> int:
    """Return the id, here, of the user whom ``node`` calls ``name``; raise :class:`NotAllowed`."""
    try:
        uid = pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        raise NotAllowed(f"user '{name[:64]}' of node {node} has no account on the server") from None
    if uid == 0:
        raise NotAllowed(f"root of node {node} is not root of the server", hint="use this command on a frontend")
    if not _is_there(connection, settings, node, name):
        raise NotAllowed(f"'{name}' has no running job on node {node}", hint="use this command on a frontend")
    return uid


def _is_there(connection: Connection, settings: Configuration, node: str, user: str) -> bool:
    places = JobHosts(settings.jobs)
    with connection.transaction():
        there = nodes.types_there(connection, node, user)
        # a program on a host of the site may have its resources anywhere
        anywhere = nodes.types_anywhere(connection, user) if node in places.hosts else []
        if node == settings.negotiation.launcher_host and unattended.has_launcher(connection, user):
            return True
    found = [*(places.of(types, (node,)) for types in there), *(places.of(types, ()) for types in anywhere)]
    return any(node in names for names in found)
