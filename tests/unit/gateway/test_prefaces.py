"""Who may speak for others at the gateway, and how many calls of a node are under way."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator

import pytest

from oarpy.frontend.call import PATIENCE
from oarpy.gateway import intake as module
from oarpy.gateway.calls import TAKEN, Calls
from oarpy.gateway.intake import Client, Intake
from oarpy.wire.frames import KNOCK, SPEAKER, Channel, Malformed, pack, pack_message, read_message
from oarpy.wire.openings import Knock, Speaker, read_knock, read_speaker

TOKEN = "0123456789abcdef" * 2
USER = 12345


class Door:
    """An intake with one connection, that of user ``uid``."""

    def __init__(self, uid: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "peer_uid", lambda _connection: uid)
        self.knocks: list[Knock] = []
        self.intake = Intake(10.0, self.knocks.append)
        self.caller, theirs = socket.socketpair()
        self.caller.settimeout(10)
        client = self.intake.enter(theirs, 0.0)
        assert client is not None
        self.client: Client = client

    def say(self, *frames: bytes) -> None:
        """Send frames, each read by itself."""
        for frame in frames:
            self.caller.sendall(frame)
            self.intake.read(self.client)

    def answer(self) -> dict[str, object]:
        """Return the message that the caller got."""
        return read_message(Channel(self.caller).receive()[1])


@pytest.fixture(params=sorted({0, os.geteuid()}))
def trusted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    door = Door(request.param, monkeypatch)
    with door.caller, door.client.socket:
        yield door


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    door = Door(USER, monkeypatch)
    with door.caller, door.client.socket:
        yield door


SPEECH = Speaker(USER, "n1").pack()
REQUEST = pack_message({"a": "request"})


def test_a_knock_of_our_own_is_taken_and_needs_nothing_more(trusted: Door) -> None:
    trusted.say(Knock("n1", TOKEN).pack())
    assert trusted.knocks == [Knock("n1", TOKEN)]
    assert len(trusted.intake) == 0
    assert trusted.caller.recv(1) == b""


@pytest.mark.parametrize("cut", [1, 7, len(SPEECH) - 1, len(SPEECH), len(SPEECH) + 3])
def test_a_request_counts_for_whom_it_is_spoken(trusted: Door, cut: int) -> None:
    content = SPEECH + REQUEST
    trusted.say(content[:cut], content[cut:])
    asked: list[int] = []

    def may_run(uid: int) -> bool:
        asked.append(uid)
        return True

    taken = trusted.intake.take(may_run)
    assert taken is trusted.client
    assert (taken.uid, set(asked)) == (USER, {USER})
    assert read_speaker(taken.preface) == Speaker(USER, "n1")
    assert read_message(bytes(taken.request)) == {"a": "request"}
    assert len(trusted.intake) == 0


@pytest.mark.parametrize("frame", [Knock("n1", TOKEN).pack(), SPEECH])
def test_nobody_else_may(stranger: Door, frame: bytes) -> None:
    stranger.say(frame + REQUEST)
    assert stranger.answer() == {"refused": "only the server's own processes may speak for others", "exit": 5}
    assert stranger.knocks == []
    assert not stranger.intake.queued


@pytest.mark.parametrize("second", [Knock("n1", TOKEN).pack(), SPEECH, Speaker(os.geteuid() or 1, "n1").pack()])
def test_for_whom_is_spoken_speaks_for_nobody(trusted: Door, second: bytes) -> None:
    trusted.say(SPEECH, second)
    assert trusted.answer()["exit"] == 5
    assert trusted.knocks == []
    assert len(trusted.intake) == 0


WRONG = [
    b"",
    b"[]",
    b"{}",
    b'{"uid": 0, "node": "n1"}',
    b'{"uid": true, "node": "n1"}',
    b'{"uid": 4294967295, "node": "n1"}',
    b'{"uid": 7, "node": null}',
    b'{"uid": 7, "node": "n1", "more": 1}',
    b'{"node": "n1", "token": "../../../etc"}',
    json.dumps({"node": "n1", "token": TOKEN.upper()}).encode(),
    json.dumps({"node": "n" * 300, "token": TOKEN}).encode(),
]


@pytest.mark.parametrize("payload", WRONG)
def test_what_is_no_preface(trusted: Door, payload: bytes) -> None:
    for read in (read_knock, read_speaker):
        with pytest.raises(Malformed):
            read(payload)
    trusted.say(pack(SPEAKER, payload))
    assert trusted.answer()["exit"] == 1


def test_a_preface_is_short(trusted: Door) -> None:
    trusted.say(pack(KNOCK, b" " * 2000))
    assert trusted.answer()["exit"] == 1


class Started:
    """Processes of calls, as the bookkeeping sees them."""

    def __init__(self) -> None:
        self.ends: list[socket.socket] = []

    def __call__(self, knock: Knock, theirs: socket.socket, ours: socket.socket) -> int:
        end = theirs.dup()
        self.ends.append(end)
        pid = os.fork()
        if not pid:
            os._exit(0)
        # it has copies of the ends: it is to be gone with them, and still to be reaped
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return pid


def test_calls_of_a_node_wait_for_their_turn() -> None:
    started = Started()
    calls = Calls(started)
    for number in range(20):
        calls.knock(Knock("n1", f"{number:032x}"), 0.0)
        calls.knock(Knock("n1", f"{number:032x}"), 0.0)
    calls.knock(Knock("n2", TOKEN), 0.0)
    begun = calls.begin(0.0)
    assert [call.node for call in begun] == ["n1"] * 8 + ["n2"]
    assert calls.begin(1.0) == []
    started.ends[0].send(TAKEN)
    assert calls.hear(begun[0])
    begun += calls.begin(1.0)
    assert [call.node for call in begun[9:]] == ["n1"]
    started.ends[1].close()
    assert not calls.hear(begun[1])
    calls.bury(begun.pop(1))
    begun += calls.begin(1.0)
    assert [call.node for call in begun[9:]] == ["n1"]
    for end in started.ends:
        end.close()
    for call in begun:
        assert not calls.hear(call)
        calls.bury(call)
    assert calls.pending, "there are some that wait"
    assert calls.begin(PATIENCE + 1) == [], "nobody listens any more"
    while calls.pending:
        calls.begin(PATIENCE + 1)
