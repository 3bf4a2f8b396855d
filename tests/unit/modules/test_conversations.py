"""When launchers are asked for signs of life, when they are given up, and what may wait for them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from oarpy.negotiation.modules.conversation import Conversation
from oarpy.negotiation.modules.handover import Speaking
from oarpy.wire.openings import Request, Terminal

LARGE = "x" * (3 << 20)


@pytest.fixture
def ends() -> Iterator[tuple[Conversation, socket.socket]]:
    """A conversation that began at instant 0, and the launcher's end of it, which never blocks."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        terminal = Terminal(input=False, output=False, errors=False, columns=80)
        asked = Request(command="oarnegotiate", arguments=(), directory="/", environment={}, terminal=terminal)
        one = Conversation(ours, Speaking(0, "", asked), 0.0, 5.0)
        one.flush()
        taken(theirs)
        yield one, theirs


def taken(theirs: socket.socket) -> bytes:
    """Read what there is."""
    found = b""
    try:
        while data := theirs.recv(1 << 16):
            found += data
    except BlockingIOError:
        pass
    return found


def words(theirs: socket.socket) -> list[str]:
    return [json.loads(line)["message"] for line in taken(theirs).splitlines()]


def test_who_is_told_much_and_says_nothing_is_asked_for_a_sign_and_given_up(
    ends: tuple[Conversation, socket.socket],
) -> None:
    one, theirs = ends
    asked = []
    for now in range(0, 60, 10):
        one.say({"message": "changeNotify"}, now)
        one.tend(now + 1)
        if "ping" in words(theirs):
            asked.append(now + 1)
    assert asked == [31]
    assert not one.over
    one.tend(61)
    assert one.over


def test_who_answers_is_asked_every_half_minute_and_stays(ends: tuple[Conversation, socket.socket]) -> None:
    one, theirs = ends
    for now in range(31, 500, 31):
        one.tend(now)
        assert words(theirs) == ["ping"]
        one.tend(now + 1)
        assert words(theirs) == []
        theirs.send(b'{"message": "pong"}\n')
        one.read(now)
        one.lines.clear()
    assert not one.over


def test_a_large_view_arrives_at_who_reads(ends: tuple[Conversation, socket.socket]) -> None:
    one, theirs = ends
    one.say({"message": "changeNotify", "changes": LARGE}, 0)
    one.say({"message": "estimate"}, 0)
    found, now = b"", 0
    while one.unsent:
        now += 40
        found += theirs.recv(1 << 16)
        one.send_on(now)
        one.tend(now)
    found += taken(theirs)
    messages = [json.loads(line) for line in found.splitlines()]
    assert messages[0]["changes"] == LARGE
    assert messages[1]["message"] == "estimate"
    assert not one.over


def test_who_leaves_much_or_long_unread_is_given_up(ends: tuple[Conversation, socket.socket]) -> None:
    one, theirs = ends
    one.say({"message": "changeNotify", "changes": LARGE}, 0)
    theirs.send(b'{"message": "ping"}\n')
    one.read(59)
    one.tend(59)
    assert not one.over
    one.tend(61)
    assert one.over


def test_answers_do_not_pile_up_behind_what_is_unread(ends: tuple[Conversation, socket.socket]) -> None:
    one, _ = ends
    one.say({"message": "changeNotify", "changes": LARGE}, 0)
    one.say({"message": "clustersInfo", "clusters": LARGE}, 0)
    assert one.over


def test_messages_are_counted_when_they_arrive(ends: tuple[Conversation, socket.socket]) -> None:
    one, theirs = ends
    line = b'{"message": "pong"}\n'
    theirs.send(line * 5)
    one.read(1)
    assert (len(one.lines), one.reads) == (5, True)
    theirs.send(line * 4)
    one.read(1.8)
    assert (len(one.lines), one.closing) == (9, False)
    theirs.send(line)
    one.read(1.9)
    assert (one.closing, words(theirs)) == (True, ["refused"])
