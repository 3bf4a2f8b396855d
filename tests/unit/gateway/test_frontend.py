"""The command's own process: where it looks for the gateway, and what it does not do for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from oarpy.frontend import discovery, entry
from oarpy.frontend.conversation import connect, converse
from oarpy.wire.frames import CONTENT, ERRORS, MESSAGE, OUTPUT, Channel, Gone, Malformed, pack, read_message


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any configuration, on a machine without one."""
    for name in ("OARPY_CONFIG", "OARPY_GATEWAY_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(discovery, "SYSTEM_CONFIGURATION", str(tmp_path / "system.toml"))
    return tmp_path


def own_file(home: Path, text: str) -> None:
    folder = home / ".config" / "oarpy"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(text, "utf-8")


SPELLINGS = [
    ('[gateway]\nsocket = "/a"\n', "/a"),
    ("[gateway]\nsocket = '/a'", "/a"),
    ('[log]\nsocket = "/b"\n[gateway]\nworkers = 3\nsocket="/a"\n', "/a"),
    ('[gateway]\nsocket = "/a" # where\n', "/a"),
    ('gateway.socket = "/a"\n', "/a"),
    ('gateway = {socket = "/a"}\n', "/a"),
    ('[ gateway ]\nsocket = "/a"\n', "/a"),
    ('[gateway]\n"socket" = "/a"\n', "/a"),
    ('[gateway]\nsocket = "\\u002Fa"\n', "/a"),
    ('[gateway]\nsocket = """/a"""\n', "/a"),
    ('note = """\n[gateway]\nsocket = "/b"\n"""\n[gateway]\nsocket = "/a"\n', "/a"),
    ('[gateway]\nsocket_old = "/b"\nsocket = "/a"\n', "/a"),
    ("[gateway]\nworkers = 3\n", ""),
    ("[gateway]\nsocket = 7\n", ""),
    ("# no gateway\n", ""),
    ("[gateway\n", ""),
    ("", ""),
]


@pytest.mark.parametrize(("text", "path"), SPELLINGS)
def test_the_socket_of_a_configuration_file(home: Path, text: str, path: str) -> None:
    own_file(home, text)
    assert discovery.socket_path() == path


def test_a_tilde_is_the_home_of_the_caller(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_file(home, '[gateway]\nsocket = "~/.oarpy/gateway"\n')
    assert discovery.socket_path() == f"{home}/.oarpy/gateway"
    monkeypatch.setenv("OARPY_GATEWAY_SOCKET", "~/other")
    assert discovery.socket_path() == f"{home}/other"


def test_a_command_says_that_it_goes_without_its_gateway(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry._try_gateway("oarstat")
    assert capsys.readouterr().err == "", "a machine that never had one"
    monkeypatch.setattr(discovery, "USUAL_SOCKET", str(home / "gateway.sock"))
    entry._try_gateway("oarstat")
    wanted = f"oarstat: no gateway listens on {home}/gateway.sock: asking the database, which takes longer\n"
    assert capsys.readouterr().err == wanted, "the usual place is there, and nobody listens"
    own_file(home, '[gateway]\nsocket = "~/s"\n')
    entry._try_gateway("oarsub")
    assert capsys.readouterr().err.startswith(f"oarsub: no gateway listens on {home}/s: ")


def test_which_configuration_counts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert discovery.socket_path() == discovery.USUAL_SOCKET, "no file at all, or none that may be read"
    (home / "system.toml").write_text("[database]\n", "ascii")
    assert discovery.socket_path() == "", "a machine without a gateway"
    (home / "system.toml").write_text('[gateway]\nsocket = "/s"\n', "ascii")
    assert discovery.socket_path() == "/s"
    own_file(home, '[gateway]\nsocket = "/o"\n')
    assert discovery.socket_path() == "/o"
    monkeypatch.setenv("OARPY_CONFIG", str(home / "missing.toml"))
    assert discovery.socket_path() == "", "a file that is named and not there is no reason to go elsewhere"
    monkeypatch.setenv("OARPY_GATEWAY_SOCKET", "/e")
    assert discovery.socket_path() == "/e"
    monkeypatch.setenv("OARPY_GATEWAY_SOCKET", "")
    assert discovery.socket_path() == ""


def test_nobody_listens(tmp_path: Path) -> None:
    assert connect(str(tmp_path / "none")) is None
    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(str(tmp_path / "closed"))
    assert connect(str(tmp_path / "closed")) is None
    assert connect("x" * 500) is None


Server = Callable[[Channel], None]


@pytest.fixture
def talk() -> Callable[[Server, Sequence[str]], int]:
    """Runs a command against a gateway that does what the test says."""

    def run(server: Server, arguments: Sequence[str]) -> int:
        ours, theirs = socket.socketpair()

        def serve() -> None:
            with theirs:
                channel = Channel(theirs)
                channel.receive()
                server(channel)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with ours:
                return converse(ours, "oarsub", arguments)
        finally:
            thread.join(30)

    return run


Talk = Callable[[Server, Sequence[str]], int]


def test_output_and_status(talk: Talk, capfd: pytest.CaptureFixture[str]) -> None:
    def server(channel: Channel) -> None:
        channel.send(OUTPUT, b"out\n")
        channel.send(ERRORS, b"err\n")
        channel.send_message({"exit": 3})

    assert talk(server, []) == 3
    assert capfd.readouterr() == ("out\n", "err\n")


def test_a_gateway_that_leaves_is_said(talk: Talk, capfd: pytest.CaptureFixture[str]) -> None:
    assert talk(lambda channel: channel.send(OUTPUT, b"half"), []) == 6
    out, err = capfd.readouterr()
    assert out == "half"
    assert err.startswith("oarsub: the gateway left before the command ended")
    assert err.count("\n") == 1


HOSTILE = [
    {"file": "/etc/shadow", "largest": 10, "plain": True},
    {"input": 10},
    {"edit": "x", "text": ""},
    {"file": 7, "largest": 10},
    {"file": "./job.sh", "largest": "x"},
    {"something": "else"},
    {"exit": "0"},
    {"refused": "x"},
]


@pytest.mark.parametrize("question", HOSTILE)
def test_what_the_command_line_did_not_name_is_not_done(
    talk: Talk, capfd: pytest.CaptureFixture[str], question: dict[str, object]
) -> None:
    answers: list[bytes] = []

    def server(channel: Channel) -> None:
        channel.send_message(question)
        with pytest.raises((Gone, Malformed)):
            answers.append(channel.receive()[1])

    assert talk(server, ["-S", "./job.sh"]) == 6
    assert answers == []
    assert capfd.readouterr().err.count("\n") == 1


def test_a_file_that_is_named_is_sent(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my job.sh").write_bytes(b"#!/bin/sh\n#OAR --array-param-file values\n")
    (tmp_path / "values").write_bytes(b"1\xff\n")
    answers: list[tuple[int, bytes]] = []

    def server(channel: Channel) -> None:
        for path, largest in (("my job.sh", 1000), ("values", 1), ("values", 1000)):
            channel.send_message({"file": path, "largest": largest, "plain": True})
            answers.append(channel.receive())
        (tmp_path / "values").unlink()
        channel.send_message({"file": "my job.sh", "largest": 1000, "plain": True})
        channel.receive()
        channel.send_message({"file": "values", "largest": 5, "plain": True})
        answers.append(channel.receive())
        channel.send_message({"exit": 0})

    # the file of values is named by the script alone, until something else was sent
    assert talk(server, ["-S", "my\\ job.sh values"]) == 0
    assert answers[:3] == [
        (CONTENT, b"#!/bin/sh\n#OAR --array-param-file values\n"),
        (CONTENT, b"1\xff"),
        (CONTENT, b"1\xff\n"),
    ]
    assert answers[3][0] == MESSAGE
    assert read_message(answers[3][1])["errno"] == 2


def test_a_frame_is_whole_whatever_the_pieces() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        data = pack(OUTPUT, b"x" * 1000) + pack(ERRORS, b"")
        for place in range(0, len(data), 7):
            theirs.sendall(data[place : place + 7])
        channel = Channel(ours)
        assert channel.receive() == (OUTPUT, b"x" * 1000)
        assert channel.receive() == (ERRORS, b"")
        theirs.sendall(data[:50])
        theirs.close()
        with pytest.raises(Gone):
            channel.receive()


HEAVY = (
    "typer",
    "psycopg",
    "sqlalchemy",
    "pglast",
    "structlog",
    "numpy",
    "msgspec",
    "oarpy.model",
    "oarpy.client",
    "tomllib",
)


def test_the_way_to_the_gateway_imports_little() -> None:
    program = (
        "import sys, oarpy.frontend.entry, oarpy.frontend.conversation, oarpy.frontend.discovery;"
        "print(*sorted(name for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    loaded = set(done.stdout.split())
    assert loaded & set(HEAVY) == set()


def test_an_answer_that_drips_is_late_as_one_that_does_not_come() -> None:
    ours, theirs = socket.socketpair()
    late = threading.Event()

    def drip() -> None:
        for byte in pack(CONTENT, b"-" * 200):
            theirs.send(bytes([byte]))
            if late.wait(0.05):
                return

    with ours, theirs:
        ours.settimeout(0.3)
        other = threading.Thread(target=drip)
        other.start()
        try:
            with pytest.raises(Gone, match="timed out"):
                Channel(ours).receive()
        finally:
            late.set()
            other.join()
        assert ours.gettimeout() == 0.3, "the next frame has the same time"
