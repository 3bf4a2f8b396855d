"""Applications in virtual time: launchers that speak with the real negotiator over sockets of this process.

::

    VirtualLauncher --lines--> Conversation --.      .--VirtualCall--> what the gateway would run, as who speaks
                    <--lines--  (negotiator) -'------'

The negotiator is a process of the virtual cluster: it is killed after any statement, its connections break then, and
launchers attach again. What each was told is kept here, and must stay true.
"""

from __future__ import annotations

import json
import random
import select
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest.mock import patch

from psycopg import sql

from oarpy.client.session import Session as UserSession
from oarpy.client.submission.options import Options
from oarpy.configuration import Configuration
from oarpy.model.errors import OarpyError
from oarpy.model.states import FINAL_STATES
from oarpy.modules.loop.module import Module
from oarpy.negotiation.messages import (
    AGAINST_RULES,
    NOT_ALLOWED,
    TRY_LATER,
    UNKNOWN,
    WRONG_MOMENT,
    ExtendHosts,
    ReleaseHosts,
    RequestHosts,
    Subscribe,
    read,
)
from oarpy.negotiation.modules import handover, negotiator
from oarpy.negotiation.modules.handover import Speaking
from oarpy.negotiation.modules.negotiator import Negotiator
from oarpy.negotiation.requests import application_requests, resizing
from oarpy.store.notifications import run_channel
from oarpy.wire.frames import HEADER
from oarpy.wire.openings import Request, Terminal
from tests.campaigns.virtual_cluster import MODULES, Doom, Process, VirtualCluster, Wrong
from tests.harness.virtual_time import SECOND

USER = "ann"
_WALLTIME = 600
_UNREACHABLE = 6
_PERIOD = 60.0
"""Seconds between two runs of a negotiator that hears nothing."""
_PATIENCE = 90 * SECOND
"""For how long a launcher may know of other hosts than its job has, when all is calm."""
_OF_THE_MOMENT = (WRONG_MOMENT, TRY_LATER)
_OF_HOSTS = (AGAINST_RULES, UNKNOWN)
"""Why hosts may be refused: an admin has taken nodes away."""
_HELD = """
    SELECT DISTINCT r.network_address FROM assigned_resources a JOIN resources r USING (resource_id)
    WHERE a.job_id = %s AND upper_inf(a.during)
"""
_ENDED = "SELECT j.state, a.ended FROM jobs j JOIN applications a USING (job_id) WHERE j.job_id = %s"
LEFT = {
    "applications that are not over": "SELECT job_id, state FROM applications WHERE state <> 'Finished'",
    "hosts that are kept back": "SELECT job_id FROM ghosts",
}


class VirtualCall:
    """What the gateway runs for a launcher; it is carried out when its turn comes, or its worker is killed."""

    def __init__(self, path: str, speaking: Speaking, uid: int, command: str, arguments: Sequence[str]) -> None:
        self.socket, self._gateway = _pair()
        self.status: int | None = None
        self.command, self.arguments = command, arguments
        self.sending = False
        self._answer: dict[str, object] = {}
        self._reason = "it does not answer (try again later)"

    def step(self) -> None:
        """Hear whether it is over."""
        with suppress(BlockingIOError):
            word = self.socket.recv(8)
            if self.status is None:
                self.status = int(word) if word else _UNREACHABLE

    def close(self) -> None:
        """Leave; the command goes on."""
        self.socket.close()

    def answer(self) -> dict[str, object]:
        """Return what the command printed."""
        return self._answer

    def reason(self) -> str:
        """Return its line on standard error."""
        return self._reason

    def end(self, status: int, answer: dict[str, object] | None = None, reason: str = "") -> None:
        """Let it be over."""
        self._answer, self._reason = answer or {}, reason
        with suppress(OSError):
            self._gateway.send(str(status).encode())
        self._gateway.close()

    def lose(self) -> None:
        """Let its worker be gone."""
        self._gateway.close()


class VirtualLauncher:
    """The launcher of one application. It reads when it is its turn, and then says something."""

    def __init__(self, launchers: VirtualLaunchers, number: int) -> None:
        self.job: int | None = None
        self.over = ""
        self.started = False
        self.done = False
        self._launchers, self._name = launchers, f"launcher {number}"
        self._socket: socket.socket | None = None
        self._relayed = False
        self._data = b""
        self._token, self._serial, self._tag = "", 0, 0
        self._asked: dict[int, dict[str, int]] = {}
        self._clusters: list[str] = []
        self._hosts: set[str] = set()
        self._odd: int | None = None
        """Since when its job has had other hosts than it was told."""

    @property
    def connected(self) -> bool:
        """Whether it has a connection, as far as it knows."""
        return self._socket is not None

    def connect(self) -> None:
        """Connect, and subscribe or attach."""
        self._socket, self._relayed, self._data = self._launchers.knock(), False, b""
        self.started = False
        if self.job is None:
            self._say("subscribe", arguments=[])
        else:
            self._say("attach", job=self.job, token=self._token, serial=self._serial)

    def hang_up(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def listen(self, chance: random.Random) -> None:
        """Take in what arrived, and answer."""
        while self._socket is not None:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.hang_up()
                return
            self._take(data, chance)

    def _take(self, data: bytes, chance: random.Random) -> None:
        self._data += data
        if not self._relayed:  # the first message is that the connection was handed on
            _, size = HEADER.unpack(self._data[: HEADER.size])
            self._data, self._relayed = self._data[HEADER.size + size :], True
        *lines, self._data = self._data.split(b"\n")
        for line in lines:
            message = json.loads(line)
            self._launchers.note(f"{self._name} hears {message['message']} of {self.job}")
            self._hear(message, chance)

    def _hear(self, message: dict[str, Any], chance: random.Random) -> None:
        word = message["message"]
        if self.over and word != "refused":
            raise Wrong(f"{self._name} was told that job {self.job} has ended, then {message}")
        if word == "subscribed":
            self.job, self._token = message["job"], message["token"]
        elif word == "changeNotify":
            if message["serial"] < self._serial:
                raise Wrong(f"{self._name} was shown view {message['serial']} after {self._serial}")
            self._serial = message["serial"]
            self._clusters = sorted({*self._clusters, *message["changes"]})
            if self._clusters and (not self._tag or chance.random() < 0.3):
                self.ask(chance)
            else:
                self._say("keep", serial=self._serial)
        elif word == "startNotify":
            self._start(message)
        elif word in ("granted", "released", "reclaim"):
            self._resize(message)
        elif word == "ended":
            self._end(message["reason"])
        elif word == "ping":
            self._say("pong")
        elif word == "refused":
            self._refused(message)

    def _start(self, message: dict[str, Any]) -> None:
        asked = self._asked.get(message["tag"])
        names = {name for some in message["names"].values() for name in some}
        if asked != message["hosts"]:
            raise Wrong(f"{self._name} asked for {asked} and was told {message}")
        self.started, self._hosts = True, names

    def _refused(self, message: dict[str, Any]) -> None:
        """A token is good for nothing once its job is over; else the moment was wrong, or there are too few hosts."""
        word, code = message["of"], message["code"]
        if (word, code) == ("attach", NOT_ALLOWED):
            ((state, _),) = self._launchers.cluster.rows(_ENDED, self.job)
            self.over = "before it attached again" if state in FINAL_STATES else ""
        may_be = code in _OF_THE_MOMENT or (word in ("request", "extend") and code in _OF_HOSTS)
        if not self.over and not may_be:
            raise Wrong(f"{self._name} heard {message}")

    def _resize(self, message: dict[str, Any]) -> None:
        if message["message"] == "released":
            if not self._hosts.issuperset(message["names"]):
                raise Wrong(f"{self._name} has {sorted(self._hosts)} and was told {message}")
            self._hosts -= set(message["names"])
        elif message["message"] == "reclaim":
            self._say("release", names=message["names"])
        else:
            names = {name for some in message["names"].values() for name in some}
            if not names or names & self._hosts:
                raise Wrong(f"{self._name} has {sorted(self._hosts)} and was told {message}")
            self._hosts |= names

    def _end(self, reason: str) -> None:
        self.over = reason
        ((state, ended),) = self._launchers.cluster.rows(_ENDED, self.job)
        if ended is not None and ended != reason:
            raise Wrong(f"{self._name} was told that job {self.job} ended by {reason}, and it is {state} by {ended}")

    def require_hosts(self) -> None:
        """Check that the job has the hosts that its launcher was told of, when all is calm. Raises :class:`Wrong`."""
        if not self.started or not self.connected or self.over or self.done:
            self._odd = None
            return
        cluster = self._launchers.cluster
        held, now = {name for (name,) in cluster.rows(_HELD, self.job)}, cluster.clock.now
        self._odd = None if held in (self._hosts, set()) else self._odd or now  # it may wait for others
        if self._odd is not None and now - self._odd > _PATIENCE:
            raise Wrong(f"{self._name} was told of {sorted(self._hosts)}, and job {self.job} has {sorted(held)}")

    def ask(self, chance: random.Random) -> None:
        """Ask for hosts."""
        self._tag += 1
        self._asked[self._tag] = {chance.choice(self._clusters): chance.randrange(1, 4)}
        self._say("request", tag=self._tag, hosts=self._asked[self._tag], walltime=_WALLTIME)

    def act(self, chance: random.Random) -> None:
        """Say something unasked."""
        if self.started:
            draw = chance.random()
            if draw < 0.4:
                kind = chance.choice(("firm", "revocable"))
                self._say("extend", tag="more", hosts={chance.choice(self._clusters): 1}, kind=kind)
            elif draw < 0.7 and len(self._hosts) > 1:
                self._say("release", names=[chance.choice(sorted(self._hosts))])
            elif draw > 0.85:
                self.finish()
        elif self._clusters and self.job is not None and chance.random() < 0.5:
            self.ask(chance)

    def finish(self) -> None:
        """Say that the application is done."""
        self.done = True
        self._say("done")

    def _say(self, word: str, **fields: Any) -> None:
        if self._socket is None:
            return
        self._launchers.note(f"{self._name} says {word} {fields.get('tag', '')}")
        try:
            self._socket.send(json.dumps({"message": word, **fields}).encode() + b"\n")
        except OSError:
            self.hang_up()


class VirtualLaunchers:
    """The launchers of a cluster, and their ways to its negotiator."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.all: list[VirtualLauncher] = []
        self._knocks: deque[tuple[socket.socket, Speaking]] = deque()
        self._door, self._knocker = _pair()
        self._calls: deque[VirtualCall] = deque()
        self._held: list[socket.socket] = []
        """Ends of connections that the negotiator has; they close when it is killed."""
        self._told: list[str] = []
        self._listen_for((*MODULES, "negotiator"))
        self.process = Process(cluster, "negotiator", self._make)
        cluster.processes["negotiator"] = self.process
        cluster.told.add("negotiator")

    def _listen_for(self, modules: Sequence[str]) -> None:
        """Hear which modules are told to run by others than the automaton."""
        channels = {run_channel(name): name for name in modules}
        self.cluster.control.add_notify_handler(
            lambda notice: self._told.append(channels[notice.channel]) if notice.channel in channels else None
        )
        for channel in channels:
            self.cluster.control.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))

    def _make(self) -> Module:
        """Return a new negotiator; the connections of the one before break."""
        for held in self._held:
            held.close()
        self._held.clear()
        made = Negotiator(self.cluster.settings)
        made.period = _PERIOD
        return made

    @contextmanager
    def rules(self) -> Iterator[None]:
        """Let the negotiator find these launchers inside the block."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(handover, "room", lambda connections: connections))
            stack.enter_context(patch.object(handover, "listen", self._listening))
            stack.enter_context(patch.object(handover, "receive", self._receive))
            stack.enter_context(patch.object(negotiator, "GatewayCall", self._call))
            stack.callback(self.close)
            yield

    def close(self) -> None:
        """Close all."""
        for one in self.all:
            one.hang_up()
        for call in self._calls:
            call.lose()
        for held in (*[end for end, _ in self._knocks], *self._held, self._door, self._knocker):
            held.close()

    def note(self, line: str) -> None:
        """Add a line to the history."""
        self.cluster.note(line)

    # What the negotiator calls

    def _listening(self, configuration: Configuration) -> socket.socket:
        self._held.append(self._door.dup())
        return self._held[-1]

    def _receive(self, listening: socket.socket) -> tuple[socket.socket, Speaking]:
        listening.recv(1)
        connection, speaking = self._knocks.popleft()
        self._held.append(connection)
        return connection, speaking

    def _call(self, *arguments: Any) -> VirtualCall:
        made = VirtualCall(*arguments)
        self._calls.append(made)
        self._held.append(made.socket)
        return made

    # What launchers do

    def knock(self) -> socket.socket:
        """Open a connection to the negotiator."""
        own, other = _pair()
        request = Request("oarnegotiate", (), "/tmp", {}, Terminal(False, False, False, 80))
        self._knocks.append((other, Speaking(1000, "", request)))
        self._knocker.send(b".")
        return own

    def step(self, chance: random.Random, doom: Doom | None) -> None:
        """A launcher comes, goes, or says something; or the gateway carries out what was asked."""
        if self._calls and chance.random() < 0.6:
            self.carry_out(doom)
            return
        live = [one for one in self.all if not one.over]
        if not live or (len(live) < 3 and chance.random() < 0.1):
            self.all.append(VirtualLauncher(self, len(self.all) + 1))
            live.append(self.all[-1])
        one = chance.choice(live)
        if not one.connected:
            one.connect()
            return
        one.listen(chance)
        if one.connected and chance.random() < 0.05:
            one.hang_up()
        elif chance.random() < 0.3:
            one.act(chance)

    def settle(self, chance: random.Random, *, ending: bool) -> bool:
        """Let all launchers hear, and be done if they are ``ending``; tell whether anything happened."""
        before = len(self.cluster.history)
        while self._calls:
            self.carry_out(None)
        for one in self.all:
            if one.over:
                one.hang_up()
            elif not one.connected:
                one.connect()
            else:
                one.listen(chance)
                one.require_hosts()
                if ending and one.started and not one.done:
                    one.finish()
        return len(self.cluster.history) > before

    def unaware(self) -> list[str]:
        """Say which launchers were not told that their jobs are over."""
        return [
            f"job {one.job} is over, which its launcher does not know" for one in self.all if one.job and not one.over
        ]

    def listen(self) -> None:
        """Have modules told that somebody told, and the negotiator if a launcher or the gateway said something."""
        self.cluster.told |= set(self._told)
        self._told.clear()
        assert self.process.module is not None
        if files := self.process.module.files():
            ready, _, _ = select.select(files, (), (), 0)
            if ready:
                self.cluster.told.add("negotiator")

    def carry_out(self, doom: Doom | None) -> None:
        """Run what the gateway was asked first."""
        call = self._calls.popleft()

        def run(session: UserSession) -> tuple[int, dict[str, object], str]:
            try:
                return 0, self._run(session, call), ""
            except OarpyError as error:
                return error.exit_status, {}, str(error)

        answered, found = self.cluster.act(USER, run, doom)
        if answered:
            call.end(*found)
        else:
            call.lose()
        self.note(f"{call.command}: {found[0] if answered else 'lost'}")

    def _run(self, session: UserSession, call: VirtualCall) -> dict[str, object]:
        words = call.arguments[1] if call.command == "oarsub" else call.arguments[3]
        message = read(words.encode())
        if isinstance(message, Subscribe):
            options = Options(words=("work 300 0",), texts={"directory": "/tmp"})
            made, token = application_requests.subscribe(session, options, message, (), {})
            return {"job": made.job_ids[0], "token": token}
        job = int(call.arguments[1])
        match message:
            case RequestHosts():
                application_requests.ask(session, job, message)
            case ExtendHosts():
                resizing.extend(session, job, message.hosts, message.kind, message.tag)
            case ReleaseHosts():
                resizing.release(session, job, message.names)
        return {}


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return two ends of a connection; neither waits."""
    one, other = socket.socketpair()
    one.setblocking(False)
    other.setblocking(False)
    return one, other
