"""What a caller sends while a program far away has its streams, and what becomes of nonsense."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import pytest

from oarpy.client.caller import Size
from oarpy.frontend.attachment import attach
from oarpy.gateway.attached_streams import RemoteStreams
from oarpy.wire.frames import CONTENT, OUTPUT, Channel, Malformed, pack, pack_message, read_message


@pytest.fixture
def ends() -> Iterator[tuple[RemoteStreams, socket.socket]]:
    """The streams, and the caller's end of the connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(10)
        yield RemoteStreams(ours, Channel(ours)), theirs


def asked(caller: socket.socket) -> object:
    """What the caller is told about its input."""
    _, payload = Channel(caller).receive()
    return read_message(payload)["input"]


def test_input_that_comes_with_the_size_of_the_terminal_is_kept(ends: tuple[RemoteStreams, socket.socket]) -> None:
    streams, caller = ends
    caller.sendall(pack_message({"rows": 30, "columns": 90}) + pack(CONTENT, b"typed ahead\n"))
    assert streams.begin_input(terminal=True) == Size(30, 90)
    assert asked(caller) == "terminal"
    assert streams.take_early() == [b"typed ahead\n"]
    assert streams.take_early() == []
    caller.sendall(pack(CONTENT, b"more") + pack_message({"rows": 1, "columns": 2}) + pack(CONTENT, b""))
    assert streams.receive() == [b"more", Size(1, 2), b""]


def test_a_caller_without_a_terminal_says_so(ends: tuple[RemoteStreams, socket.socket]) -> None:
    streams, caller = ends
    caller.sendall(pack_message({"rows": 0, "columns": 0}))
    assert streams.begin_input(terminal=True) is None


def test_plain_input_is_not_waited_for(ends: tuple[RemoteStreams, socket.socket]) -> None:
    streams, caller = ends
    assert streams.begin_input(terminal=False) is None
    assert asked(caller) == "plain"
    streams.end_input()
    assert asked(caller) == "none"


def test_a_shell_of_the_caller_tells_its_status_alone(ends: tuple[RemoteStreams, socket.socket]) -> None:
    streams, caller = ends
    streams.open_shell(7, "n1")
    _, payload = Channel(caller).receive()
    assert read_message(payload) == {"windows": 7, "node": "n1"}
    caller.sendall(pack(CONTENT, b"3\n") + pack(CONTENT, b""))
    assert streams.receive() == [b"3\n", b""]


@pytest.mark.parametrize(("command", "arguments"), [("oarsub", ["-I"]), ("oarsh", ["-X", "n1"])])
def test_no_shell_is_opened_that_was_not_asked_for(
    ends: tuple[RemoteStreams, socket.socket], monkeypatch: pytest.MonkeyPatch, command: str, arguments: list[str]
) -> None:
    streams, caller = ends
    streams.open_shell(7, "n1")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(Malformed, match="not asked for"):
        attach(caller, Channel(caller), command, arguments)


def test_an_interrupt_is_one_here_too(ends: tuple[RemoteStreams, socket.socket]) -> None:
    streams, caller = ends
    caller.sendall(pack_message({"interrupt": True}))
    with pytest.raises(KeyboardInterrupt):
        streams.receive()


@pytest.mark.parametrize(
    "nonsense",
    [
        pack(OUTPUT, b"x"),
        pack_message({}),
        pack_message({"rows": "30", "columns": 90}),
        pack_message({"rows": -1, "columns": 90}),
        pack_message({"rows": 30, "columns": 10**6}),
        pack_message({"interrupt": 1}),
        b"\x09\x00\x00\x00\x01x",
        b"\x04\xff\xff\xff\xff",
        b"",
    ],
)
def test_nonsense_ends_the_session(ends: tuple[RemoteStreams, socket.socket], nonsense: bytes) -> None:
    streams, caller = ends
    caller.sendall(nonsense)
    caller.shutdown(socket.SHUT_WR)
    with pytest.raises(BrokenPipeError):
        streams.receive()


def test_input_before_the_size_of_the_terminal_ends_the_session(ends: tuple[RemoteStreams, socket.socket]) -> None:
    streams, caller = ends
    caller.sendall(pack(CONTENT, b"too early"))
    with pytest.raises(BrokenPipeError):
        streams.begin_input(terminal=True)
