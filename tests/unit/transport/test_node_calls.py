"""Calls of commands on nodes: the pipe, the folder of sockets, the installed commands; no server."""

from __future__ import annotations

import ast
import os
import pwd
import select
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.frontend.call import NotReached, be_called
from oarpy.frontend.node_command import NAMES
from oarpy.transport.agent.calls import call, call_requests, commands
from oarpy.transport.agent.calls.call import NoCall, carry, connect
from oarpy.transport.agent.calls.call_requests import CallListener
from oarpy.transport.bundle import COMMAND, command_modules
from tests.harness.bare_environment import NO_GATEWAY

TOKEN, OTHER = "0123456789abcdef" * 2, "f" * 32


@pytest.fixture
def poll() -> Iterator[select.epoll]:
    with select.epoll() as made:
        yield made


@pytest.fixture
def knocks(tmp_path: Path, poll: select.epoll) -> CallListener:
    tmp_path.chmod(0o755)
    made = CallListener(str(tmp_path), poll, select.EPOLLIN)
    made.listen()
    return made


def listener(path: Path) -> socket.socket:
    """Listen at ``path``, however long that is."""
    made = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_PATH)
    made.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)
    made.listen(1)
    return made


def write(path: Path, content: bytes) -> None:
    with path.open("wb", buffering=0) as pipe:
        pipe.write(content)


def test_the_folder_of_root_is_in_memory_and_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(call_requests, "_MEMORY", str(memory))
    monkeypatch.setattr(os, "geteuid", os.getuid if os.getuid() == 0 else lambda: 0)
    (tmp_path / "calls").mkdir()
    (tmp_path / "calls" / "filled").write_text("by an older version")
    for _ in range(2):
        with select.epoll() as poll:
            made = CallListener(str(tmp_path), poll, select.EPOLLIN)
            os.close(made.fd)
    if os.getuid() == 0:
        (folder,) = memory.iterdir()
        assert (tmp_path / "calls").resolve() == folder
        (old,) = tmp_path.glob("calls.*")
        assert stat.S_IMODE(old.stat().st_mode) == 0o700
        os.chown(folder, 65534, 65534)
        with select.epoll() as poll:
            os.close(CallListener(str(tmp_path), poll, select.EPOLLIN).fd)
        assert (tmp_path / "calls").resolve() != folder, "what is somebody else's is not used"


def test_a_user_has_so_many_commands_that_listen(tmp_path: Path, knocks: CallListener) -> None:
    made = [listener(tmp_path / "calls" / f"{number:032x}") for number in range(300)]
    for one in made:
        one.close()
    knocks.prune()
    assert len(list((tmp_path / "calls").iterdir())) == 256


def test_the_way_in_is_open_to_everybody_and_nothing_can_be_listed(tmp_path: Path, knocks: CallListener) -> None:
    assert stat.S_IMODE((tmp_path / "calls").stat().st_mode) == 0o1733
    assert stat.filemode((tmp_path / "knock").stat().st_mode) == "prw--w--w-"
    assert knocks.fd >= 0


NONSENSE = [b"\n", b"\0" * 100 + b"\n", b"x" * 32 + b"\n", OTHER.encode() + b"\n", f"../{TOKEN}\n".encode(), b"abc"]


@pytest.mark.parametrize("before", [b"", *NONSENSE])
def test_tokens_of_sockets_are_heard_and_nothing_else(tmp_path: Path, knocks: CallListener, before: bytes) -> None:
    with listener(tmp_path / "calls" / TOKEN):
        (tmp_path / "calls" / OTHER).write_text("no socket")
        write(tmp_path / "knock", before + f"\n{TOKEN}\n".encode() * 3)
        assert knocks.hear() == [TOKEN]
        assert knocks.hear() == []


def test_a_flood_is_read_a_little_at_a_time(tmp_path: Path, knocks: CallListener, poll: select.epoll) -> None:
    flood = os.open(tmp_path / "knock", os.O_WRONLY | os.O_NONBLOCK)
    while True:
        try:
            os.write(flood, b"n" * 4096)
        except BlockingIOError:
            break
    turns = 0
    while poll.poll(0):
        knocks.hear()
        turns += 1
    assert turns == 16
    os.write(flood, b"n")
    assert poll.poll(0) == [], "it rests"
    knocks.listen()
    assert poll.poll(0)
    os.close(flood)
    with listener(tmp_path / "calls" / TOKEN):
        for _ in range(100):
            knocks.listen()
            while poll.poll(0):
                knocks.hear()
        write(tmp_path / "knock", f"\n{TOKEN}\n".encode())
        knocks.listen()
        assert knocks.hear() == [TOKEN]


def test_what_killed_commands_left_is_removed(tmp_path: Path, knocks: CallListener) -> None:
    for name, age in (("old", 1000), ("new", 0)):
        listener(tmp_path / "calls" / name).close()
        when = (tmp_path / "calls" / name).stat().st_mtime - age
        os.utime(tmp_path / "calls" / name, (when, when))
    (tmp_path / "calls" / "folder").mkdir()
    (tmp_path / "calls" / "filled" / "folder").mkdir(parents=True)
    (tmp_path / "calls" / "file").write_text("no socket")
    knocks.prune()
    assert sorted(path.name for path in (tmp_path / "calls").iterdir()) == ["filled", "new"]


def test_a_token_is_told_once_between_two_rests(tmp_path: Path, knocks: CallListener) -> None:
    with listener(tmp_path / "calls" / TOKEN):
        for _ in range(2):
            knocks.listen()
            for expected in ([TOKEN], [], []):
                write(tmp_path / "knock", f"{TOKEN}\n".encode())
                assert knocks.hear() == expected


def test_a_file_in_place_of_the_pipe_is_no_pipe(tmp_path: Path, poll: select.epoll) -> None:
    (tmp_path / "knock").write_text("")
    made = CallListener(str(tmp_path), poll, select.EPOLLIN)
    made.listen()
    assert made.fd == -1


def test_a_listener_is_who_the_kernel_says(tmp_path: Path, knocks: CallListener) -> None:
    with listener(tmp_path / "calls" / TOKEN):
        connection, user = connect(str(tmp_path), TOKEN)
        connection.close()
        assert user == pwd.getpwuid(os.getuid()).pw_name


def test_other_sockets_are_not_drawn_into_calls(tmp_path: Path, knocks: CallListener) -> None:
    calls = tmp_path / "calls"
    with listener(calls / "theirs"):
        (calls / TOKEN).symlink_to(calls / "theirs")
        os.link(calls / "theirs", calls / OTHER)
        (calls / ("a" * 32)).write_text("")
        for token in (TOKEN, OTHER, "a" * 32, "b" * 32):
            with pytest.raises(NoCall):
                connect(str(tmp_path), token)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give sockets away")
def test_a_socket_that_belongs_to_another_is_refused(tmp_path: Path, knocks: CallListener) -> None:
    with listener(tmp_path / "calls" / TOKEN):
        os.chown(tmp_path / "calls" / TOKEN, pwd.getpwnam("nobody").pw_uid, -1)
        with pytest.raises(NoCall, match="not that of who listens"):
            connect(str(tmp_path), TOKEN)


def test_a_command_is_called_and_bytes_go_both_ways(tmp_path: Path, knocks: CallListener, poll: select.epoll) -> None:
    content = b"0123456789abcdef" * 50_000
    server_in, to_node = os.pipe()
    from_node, server_out = os.pipe()

    def node() -> None:
        tokens: list[str] = []
        while not tokens:
            poll.poll()
            tokens = knocks.hear()
        connection, _ = connect(str(tmp_path), *tokens)
        with connection:
            carry(connection, server_in, server_out)

    def server() -> None:
        with open(from_node, "rb") as source, open(to_node, "wb") as sink:
            sink.write(source.read())

    threads = [threading.Thread(target=work) for work in (node, server)]
    for thread in threads:
        thread.start()
    with be_called(str(tmp_path)) as called:
        called.settimeout(30)
        called.sendall(content)
        called.shutdown(socket.SHUT_WR)
        received = b""
        while part := called.recv(1 << 16):
            received += part
    for thread in threads:
        thread.join(30)
    assert received == content
    assert list((tmp_path / "calls").iterdir()) == []


@pytest.mark.parametrize("sent", [b"", b"x" * (1 << 20)], ids=["never leaves", "never reads"])
def test_a_command_does_not_outlive_the_server_for_long(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(call, "_SETTLE", 0.05)
    ours, theirs = socket.socketpair()
    source, to_node = os.pipe()
    from_node, sink = os.pipe()
    serving = threading.Thread(target=carry, args=(ours, source, sink))
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with ours, theirs:
        serving.start()
        os.set_blocking(to_node, False)
        if sent:
            os.write(to_node, sent)
        os.close(to_node)
        serving.join(30)
        assert not serving.is_alive()
        assert os.read(from_node, 1) == b""
    os.close(from_node)


def test_nobody_comes(tmp_path: Path, knocks: CallListener) -> None:
    with pytest.raises(NotReached, match="did not answer"):
        be_called(str(tmp_path), 0.05)
    os.close(knocks.fd)
    with pytest.raises(NotReached, match="no agent"):
        be_called(str(tmp_path), 0.05)
    with pytest.raises(NotReached, match="takes no calls"):
        be_called(str(tmp_path / "none"), 0.05)
    assert list((tmp_path / "calls").iterdir()) == []


def test_commands_are_written_once_and_mended(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    commands.install(str(folder), NAMES, command_modules(), COMMAND)
    made = {path: path.lstat().st_ino for path in folder.iterdir()}
    assert {path.name for path in made} == {*NAMES, ".oarpy", ".oarpy.modules", ".profile"}
    commands.install(str(folder), NAMES, command_modules(), COMMAND)
    assert {path: path.lstat().st_ino for path in folder.iterdir()} == made
    (folder / ".oarpy").write_text("torn")
    (folder / ".oarpy.modules").write_bytes((folder / ".oarpy.modules").read_bytes()[:1000])
    (folder / "oarsh").unlink()
    (folder / "oarsub").unlink()
    (folder / "oarsub").write_text("something else")
    commands.install(str(folder), NAMES, command_modules(), COMMAND)
    assert {path.name for path in folder.iterdir()} == {*NAMES, ".oarpy", ".oarpy.modules", ".profile"}
    assert stat.S_IMODE((folder / "oarsub").stat().st_mode) == 0o755
    done = subprocess.run([folder / "oarsub"], capture_output=True, text=True, check=False, env=NO_GATEWAY)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.startswith("oarsub: the server cannot be reached from this node: "), done


def test_the_commands_use_the_grammar_and_the_library_of_python_3_9() -> None:
    _, modules = command_modules()
    for name, (source, _) in modules.items():
        for node in ast.walk(ast.parse(source, name, feature_version=(3, 9))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
                for module in names:
                    known = module in modules or module.split(".")[0] in sys.stdlib_module_names
                    assert known, (name, module)
